import itertools
import os
import struct
import subprocess
import sys
import warnings
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from keras_attn_zoo.evaluation.alignments import Alignment
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.viewing import attention_pictures, canvas
from keras_attn_zoo.viewing.attention_pictures import plot_attention, plot_attentions, plot_curves
from keras_attn_zoo.viewing.picture_types import SUFFIXES

SOURCE = ["Die", "Donaudampfschifffahrtsgesellschaft", "fährt", "▁für_", "$5$", "."]
TARGET = ["the", "company", "\\alpha", "a_b", "</s>"]
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(6), size=5)


def _png_size(path):
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def _labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def _page_boxes(figure):
    """Boxes of all texts of a figure that show something, in pixels."""
    renderer = attention_pictures.FigureCanvasAgg(figure).get_renderer()
    texts = [text for axes in figure.axes for text in axes.findobj(matplotlib.text.Text)]
    return {t.get_text(): t.get_window_extent(renderer) for t in texts if t.get_text() and t.get_visible()}


def test_words_stand_on_the_axes_of_each_panel_as_given_and_weights_are_colours():
    panels = [("one", WEIGHTS), ("two", WEIGHTS[::-1])]
    figure = attention_pictures._attention_figure(panels, SOURCE, TARGET, {(0, 0)})
    first, second, _ = figure.axes
    assert _labels(first.xaxis) == _labels(second.xaxis) == SOURCE
    assert _labels(first.yaxis) == TARGET and not any(_labels(second.yaxis))
    assert first.get_position().x1 < second.get_position().x0
    for axes, (title, weights) in zip((first, second), panels, strict=True):
        assert axes.get_title() == title and axes.xaxis.get_ticks_position() == "top" and len(axes.patches) == 1
        assert not any(label.get_parse_math() for label in axes.get_xticklabels() + axes.get_yticklabels())
        np.testing.assert_array_equal(axes.images[0].get_array(), weights)
        assert axes.images[0].get_clim() == (0.0, 1.0)
        low, high = axes.get_ylim()
        assert low > high, "the first target word stands on top"


def test_gold_links_are_outlined_where_they_belong():
    gold = Alignment(sure={(1, 0), (4, 3)}, possible={(5, 4)})
    figure = attention_pictures._attention_figure([("", WEIGHTS)], SOURCE, TARGET, gold)
    squares = figure.axes[0].patches
    centres = {(s.get_x() + s.get_width() / 2, s.get_y() + s.get_height() / 2): s for s in squares}
    assert sorted(centres) == [(1, 0), (4, 3), (5, 4)]
    assert not any(square.get_fill() for square in squares)
    assert {link for link, square in centres.items() if square.get_linestyle() == "solid"} == gold.sure
    as_set = attention_pictures._attention_figure([("", WEIGHTS)], SOURCE, TARGET, {(5, 4)}).axes[0].patches
    assert [square.get_linestyle() for square in as_set] == ["solid"]


def test_the_page_grows_with_the_number_of_words(tmp_path):
    def size(words):
        weights = np.full((words, words), 1 / words)
        plot_attention(weights, ["wört"] * words, ["word"] * words, tmp_path / "a.png", title="title")
        return _png_size(tmp_path / "a.png")

    small, large = size(5), size(30)
    assert min(small) > 200
    assert min(large) > 30 * 0.2 * 150, "a word has a fifth of an inch at least"
    assert max(large) < 30 * 0.4 * 150


def test_labels_and_titles_do_not_touch_each_other():
    words = [f"Donaudampfschifffahrtsgesellschaft{k}" for k in range(30)]
    panels = [(f"system number {k} with a long title", np.full((30, 30), 1 / 30)) for k in range(5)]
    figure = attention_pictures._attention_figure(panels, words, [f"target{k}" for k in range(30)])
    boxes = _page_boxes(figure)
    assert len(boxes) > 60
    for axis_words in (words, [f"target{k}" for k in range(30)]):
        for one, other in itertools.pairwise(axis_words):
            assert not boxes[one].overlaps(boxes[other]), (one, other)
    renderer = attention_pictures.FigureCanvasAgg(figure).get_renderer()
    panel_boxes = [axes.get_tightbbox(renderer) for axes in figure.axes[:5]]
    for k, box in enumerate(panel_boxes):
        assert not any(box.overlaps(other) for other in panel_boxes[k + 1 :])
    rows = {round(axes.get_position().y0, 6) for axes in figure.axes[:5]}
    assert len(rows) == 2, "five wide panels do not fit into one row"


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?xml")])
def test_the_suffix_is_the_type(tmp_path, name, start):
    plot_attentions([("one", WEIGHTS), ("two", WEIGHTS)], SOURCE, TARGET, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert os.listdir(tmp_path) == [name]


def test_characters_without_a_font_do_no_harm(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_attention([[0.5, 0.5]], ["北京", "\ue123"], ["Ж"], tmp_path / "a.png", title="हि")
    assert _png_size(tmp_path / "a.png")


def test_settings_of_the_user_neither_harm_nor_change(tmp_path):
    with matplotlib.rc_context({"text.usetex": True, "font.family": ["no such font"]}):
        plot_attention([[1.0]], ["$"], ["_"], tmp_path / "a.png")
        assert matplotlib.rcParams["text.usetex"] is True
        assert matplotlib.rcParams["font.family"] == ["no such font"]


def test_pyplot_and_keras_stay_out(tmp_path):
    code = (
        "import sys; from keras_attn_zoo.viewing.attention_pictures import plot_attention, plot_curves;"
        "plot_attention([[1.0]], ['a'], ['b'], sys.argv[1]);"
        "plot_curves({'a': ([1], [2])}, sys.argv[1], 'loss');"
        "assert 'matplotlib.pyplot' not in sys.modules and 'keras' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.png")], check=True)


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        (WEIGHTS.T, {}, r"\(6, 5\) do not fit 5 target and 6 source words: give weights of shape \(5, 6\)"),
        (WEIGHTS[None], {}, r"shape \(1, 5, 6\)"),
        (WEIGHTS * np.nan, {}, r"shape \(5, 6\) hold NaN"),
        (np.log(WEIGHTS), {}, "softmax"),
        (WEIGHTS, {"gold": {(5, 5)}}, r"gold link \(5, 5\) is outside 6 source and 5 target"),
        (WEIGHTS, {"gold": {(-1, 0)}}, r"gold link \(-1, 0\)"),
    ],
)
def test_bad_attention(tmp_path, weights, options, message):
    with pytest.raises(UserError, match=message):
        plot_attention(weights, SOURCE, TARGET, tmp_path / "a.png", **options)
    assert os.listdir(tmp_path) == []


def test_nothing_to_draw(tmp_path):
    with pytest.raises(UserError, match="no attention weights"):
        plot_attentions([], SOURCE, TARGET, tmp_path / "a.png")
    with pytest.raises(UserError, match="empty"):
        plot_attention(np.zeros((0, 1)), ["a"], [], tmp_path / "a.png")


@pytest.mark.parametrize("name", ["a.jpg", "a", "png"])
def test_unknown_suffix(tmp_path, name):
    with pytest.raises(UserError, match=r"\.png, \.pdf, \.svg"):
        plot_attention(WEIGHTS, SOURCE, TARGET, tmp_path / name)
    with pytest.raises(UserError, match=r"\.png, \.pdf, \.svg"):
        plot_curves({"a": ([1], [1])}, tmp_path / name, "loss")


def test_curves_show_their_points_and_names():
    curves = {"_Luong_ $a$": ([1, 2, 3], [3.0, 2.0, np.nan]), "one point": ([2], [2.5])}
    axes = attention_pictures._curves_figure(curves, "loss", title="t", xlabel="update").axes[0]
    line, point = axes.lines
    np.testing.assert_array_equal(line.get_xydata(), [[1, 3], [2, 2], [3, np.nan]])
    assert line.get_marker() == "None" and point.get_marker() == "s"
    names = axes.get_legend().get_texts()
    assert [name.get_text() for name in names] == list(curves)
    assert not any(name.get_parse_math() for name in names)
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("update", "loss", "t")
    assert axes.get_yscale() == "linear"


@pytest.mark.parametrize("count", [1, 4, 10, 20])
def test_every_run_looks_different(count):
    curves = {f"run {k}": ([1, 2], [k, k + 1]) for k in range(count)}
    lines = attention_pictures._curves_figure(curves, "loss").axes[0].lines
    # In grey as well: by style alone, or by their marks.
    assert len({(line._unscaled_dash_pattern, line.get_marker()) for line in lines}) == count
    assert {line.get_marker() == "None" for line in lines} == {count <= 4}


def test_bands_around_curves():
    """From the value minus to the value plus the deviation, in the look of the curve, and only where there is one."""
    curves = {"a": ([1, 2], [3.0, 2.0]), "b": ([1, 2], [5.0, 6.0])}
    axes = attention_pictures._curves_figure(curves, "loss", deviations={"b": [0.5, 1.0]}).axes[0]
    (band,) = axes.collections
    corners = {(1, 4.5), (1, 5.5), (2, 5.0), (2, 7.0)}
    assert corners == {tuple(point) for point in band.get_paths()[0].vertices}
    first, second, *edges = axes.lines
    assert sorted(edge.get_ydata().tolist() for edge in edges) == [[4.5, 5.0], [5.5, 7.0]]
    looks = {(edge.get_color(), edge.get_linestyle()) for edge in edges}
    assert looks == {(second.get_color(), second.get_linestyle())} and first.get_linestyle() != second.get_linestyle()
    assert [name.get_text() for name in axes.get_legend().get_texts()] == ["a", "b"]
    bars = attention_pictures._curves_figure(curves, "loss", ticks={1: "a"}, deviations={"b": [0.5, 1.0]}).axes[0]
    (found,) = bars.collections
    ends = [[tuple(end) for end in bar] for bar in found.get_segments()]
    expected = [[(x, y - d), (x, y + d)] for x, y, d in zip(*curves["b"], [0.5, 1.0], strict=True)]
    assert ends == expected
    for deviations in ([0.5], [0.5, -1.0]):
        with pytest.raises(UserError, match="'b' has 2 values and deviations of shape"):
            attention_pictures._curves_figure(curves, "loss", deviations={"b": deviations})


def test_long_names_leave_the_axes_their_width(tmp_path):
    plot_curves({"a": ([1, 2], [1, 2])}, tmp_path / "short.png", "loss")
    plot_curves({"a" * 60: ([1, 2], [1, 2])}, tmp_path / "long.png", "loss")
    assert _png_size(tmp_path / "short.png")[0] > 1000
    assert _png_size(tmp_path / "long.png")[0] > _png_size(tmp_path / "short.png")[0] + 400


@pytest.mark.parametrize("steps", [[6], [1, 2], [100, 350, 812]])
def test_whole_steps_have_whole_labels(steps):
    def labels(steps):
        axes = attention_pictures._curves_figure({"a": (steps, [1.0] * len(steps))}, "loss").axes[0]
        low, high = axes.get_xlim()
        return [step for step in axes.get_xticks() if low <= step <= high]

    found = labels(steps)
    assert 1 <= len(found) <= 12 and found == [round(step) for step in found]
    assert any(step % 1 for step in labels([0.25, 0.75]))


def test_logarithmic_axis():
    axes = attention_pictures._curves_figure({"a": ([1, 2], [1.0, 100.0])}, "perplexity", log_scale=True).axes[0]
    assert axes.get_yscale() == "log"
    labels = {label.get_text() for label in axes.get_yticklabels()}
    assert {"1", "10", "100"} <= labels, "plain numbers, no powers"


@pytest.mark.parametrize(
    ("curves", "options", "message"),
    [
        ({}, {}, "no curves"),
        ({"a": ([], [])}, {}, "'a' has steps of shape"),
        ({"a": ([1, 2], [1])}, {}, r"'a' has steps of shape \(2,\) and values of shape \(1,\)"),
        ({"a": ([1, 2], [1, 0])}, {"log_scale": True}, "'a' has values down to 0"),
    ],
)
def test_bad_curves(tmp_path, curves, options, message):
    with pytest.raises(UserError, match=message):
        plot_curves(curves, tmp_path / "a.png", "loss", **options)
    assert os.listdir(tmp_path) == []


def test_the_same_picture_is_the_same_file_at_any_time(tmp_path, monkeypatch):
    for suffix in SUFFIXES:
        for time in ("0", "1000000000"):
            # What matplotlib takes for the time of day.
            monkeypatch.setenv("SOURCE_DATE_EPOCH", time)
            plot_attentions([(None, np.eye(2))], ["a", "b"], ["c", "d"], tmp_path / f"{time}{suffix}")
        assert (tmp_path / f"0{suffix}").read_bytes() == (tmp_path / f"1000000000{suffix}").read_bytes()


def test_an_svg_is_xml_whatever_characters_a_word_has(tmp_path):
    words = ["a\x1b", "b\ufffe--", "&<c>\x85", "\U0001f600\ufeff"]
    plot_attentions([(None, np.eye(4))], words, words, tmp_path / "a.svg")
    assert ElementTree.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")


def test_a_pdf_of_characters_that_take_several_glyphs(tmp_path):
    """Matplotlib fails to write these as text."""
    words = ["mi\u20dekaJ\u0323\u0323\u0307ka", "\ufeffJ\u0338\u0327\u030c", "\xce\u030c\u0301"]
    plot_attention(np.full((3, 3), 1 / 3), words, words, tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


def test_characters_without_a_font_are_said_once(tmp_path, caplog):
    # A code point of a private area, and one beyond the Basic Multilingual Plane.
    plot_attention(WEIGHTS, ["\ue000", *SOURCE[1:]], ["\U0010fffd\ue000", *TARGET[1:]], tmp_path / "boxes.png")
    [said] = caplog.messages
    assert "boxes.png has boxes in place of 2 characters that no installed font has (u+e000, u+10fffd)" in said
    caplog.clear()
    plot_attention(WEIGHTS, SOURCE, TARGET, tmp_path / "whole.png")
    assert not caplog.messages


def test_fonts_of_single_scripts_are_tried_where_the_others_lack_a_character(monkeypatch, tmp_path):
    installed = {"Noto Sans Bengali", "Comic Sans MS", "WenQuanYi Zen Hei"}
    monkeypatch.setattr(canvas, "_installed_fonts", lambda: installed)
    save, families = Figure.savefig, []

    def watched(figure, *args, **kwargs):
        families.append({family for text in figure.findobj(Text) for family in text.get_fontfamily()})
        return save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", watched)
    for word in ("a", "\ue000"):
        plot_attention([[1.0]], [word], ["b"], tmp_path / "a.png")
    few = {"DejaVu Sans", "WenQuanYi Zen Hei"}
    assert families == [few, few, few | {"Noto Sans Bengali"}]

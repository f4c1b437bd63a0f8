"""Histograms and grids: what is drawn, and what is refused."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.viewing.figures import plot_grids, plot_histogram_panels, plot_histograms


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are written."""
    figures, write = [], Figure.savefig

    def keep(self, *arguments, **options):
        figures.append(self)
        write(self, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def test_histograms_share_their_intervals(drawn, tmp_path):
    counts = {"$German_$": [3, 5, 0], "English": [4, 4, 1]}
    plot_histograms(counts, [0, 10, 20, 30], tmp_path / "a.png", "words", "sentences")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    [axes] = drawn[0].axes
    outlines = [patch.get_data() for patch in axes.patches]
    assert [(list(values), list(edges)) for values, edges, _ in outlines] == [
        ([3, 5, 0], [0, 10, 20, 30]),
        ([4, 4, 1], [0, 10, 20, 30]),
    ]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(counts)
    # Told apart in grey.
    assert len({patch.get_linestyle() for patch in axes.patches}) == 2


def test_the_first_and_the_last_edge_are_drawn_whole(drawn, tmp_path):
    """No half of their lines is cut off by the axes."""
    plot_histograms({"a": [3, 5]}, [-0.5, 0.5, 1.5], tmp_path / "a.png", "words", "sentences")
    [axes] = drawn[0].axes
    half = axes.patches[0].get_linewidth() / 2 * drawn[0].dpi / 72
    first, last = axes.transData.transform([(-0.5, 0), (1.5, 0)])[:, 0]
    assert axes.bbox.x0 < first - half and last + half < axes.bbox.x1


def test_panels_of_histograms_have_the_same_axes_and_one_legend(drawn, tmp_path):
    """A name looks the same in all panels, whatever else they have."""
    panels = {f"layer {i}": {"A": [10**-i, 1.0], "B": [0.5, 0.5]} for i in range(1, 5)} | {"last": {"B": [1e-7, 1.0]}}
    plot_histogram_panels(panels, [0, 0.5, 1], tmp_path / "p.pdf", "weight", "share", log_scale=True)
    axes = drawn[0].axes
    assert [one.get_title() for one in axes] == list(panels)
    assert len({one.get_ylim() for one in axes}) == len({one.get_xlim() for one in axes}) == 1
    looks = [{(patch.get_linestyle(), patch.get_edgecolor()) for patch in one.patches} for one in axes]
    assert looks[0] == looks[3] > looks[4] and len(looks[0]) == 2
    for one, histograms in zip(axes, panels.values(), strict=True):
        assert [list(patch.get_data().values) for patch in one.patches] == list(histograms.values())
    [legend] = [one.get_legend() for one in axes if one.get_legend()]
    assert [text.get_text() for text in legend.get_texts()] == ["A", "B"]
    with pytest.raises(UserError, match=r"histogram 'A' of 'layer 1' has numbers of shape \(3,\) for 2 intervals"):
        plot_histogram_panels({"layer 1": {"A": [1, 2, 3]}}, [0, 1, 2], tmp_path / "q.png", "x", "y")


@pytest.mark.parametrize(("low_is_dark", "darkest"), [(False, 0.9), (True, 0.1)])
def test_grids_have_one_scale(drawn, tmp_path, low_is_dark, darkest):
    one, two = [[0.1, 0.5], [0.3, 0.2]], np.full((20, 20), 0.9)
    plot_grids(
        [[("a", one), ("b", two)], [("c", one)]], tmp_path / "g.svg", "x", "y", "number", low_is_dark=low_is_dark
    )
    panels = [axes for axes in drawn[0].axes if axes.images]
    assert [axes.get_title() for axes in panels] == ["a", "b", "c"]
    for axes, matrix in zip(panels, (one, two, one), strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), matrix)
        assert axes.images[0].get_clim() == (0.1, 0.9)
    assert np.allclose(panels[0].images[0].cmap(panels[0].images[0].norm(darkest))[:3], 0.0)
    # Numbers stand in small matrices alone.
    assert [text.get_text() for text in panels[0].texts] == ["0.10", "0.50", "0.30", "0.20"]
    assert not panels[1].texts


def test_shades_of_small_numbers_beside_a_large_one(drawn, tmp_path):
    """The root of a quarter is a half; what is written is the number, white from a share of 0.55 on."""
    plot_grids([[("a", [[0.0, 0.25], [0.36, 1.0]])]], tmp_path / "g.png", "x", "y", "weight", gamma=0.5)
    [axes] = [axes for axes in drawn[0].axes if axes.images]
    np.testing.assert_allclose(axes.images[0].norm([0.0, 0.25, 1.0]), [0.0, 0.5, 1.0])
    texts = {text.get_text(): text.get_color() for text in axes.texts}
    assert texts == {"0.00": "black", "0.25": "black", "0.36": "white", "1.00": "white"}


@pytest.mark.long
def test_long_rows_and_titles_have_room(drawn, tmp_path):
    """Panels of one size, none outside, and no title on another one or on a panel above."""
    row = [(f"transformer_latent_tatoeba_de_en, encoder-decoder, layer {number}", np.eye(3)) for number in range(30)]
    plot_grids([row, row[:2]], tmp_path / "g.png", "layer", "layer", "number")
    figure = drawn[0]
    renderer = FigureCanvasAgg(figure).get_renderer()
    panels = [axes for axes in figure.axes if axes.images]
    assert len(panels) == 32 and len({axes.get_window_extent().width.round(3) for axes in panels}) == 1
    boxes = [axes.get_window_extent() for axes in panels] + [axes.title.get_window_extent(renderer) for axes in panels]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda path: plot_histograms({}, [0, 1], path, "x", "y"), "no histograms"),
        (lambda path: plot_histograms({"a": [1, 2]}, [0, 1], path, "x", "y"), r"'a' has numbers of shape \(2,\) for 1"),
        (lambda path: plot_histograms({"a": [np.nan]}, [0, 1], path, "x", "y"), "'a' cannot be drawn: give finite"),
        (lambda path: plot_histograms({"a": [0]}, [0, 1], path, "x", "y", log_scale=True), "some above 0"),
        (lambda path: plot_grids([[]], path, "x", "y", "z"), "no matrices"),
        (lambda path: plot_grids([[("a", [[1.0, 2.0]])]], path, "x", "y", "z"), r"shape \(1, 2\) cannot be drawn"),
        (lambda path: plot_grids([[("a", [[np.nan]])]], path, "x", "y", "z"), "finite numbers"),
        (lambda path: plot_grids([[("a", [[1.0]])]], path.with_suffix(".doc"), "x", "y", "z"), "choose one of .png"),
    ],
)
def test_bad_input(tmp_path, draw, message):
    with pytest.raises(UserError, match=message):
        draw(tmp_path / "a.png")
    assert not list(tmp_path.iterdir())

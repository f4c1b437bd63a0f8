"""`attn-zoo align` and `attn-zoo plot`."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from keras_attn_zoo.bodies.schema import BODIES
from keras_attn_zoo.corpora.corpus import embedded_corpus
from keras_attn_zoo.data.encoded_text import encode_sentences
from keras_attn_zoo.evaluation.aligners import align_text
from keras_attn_zoo.evaluation.alignments import (
    Alignment,
    format_alignment,
    parse_alignment,
    read_alignments,
    write_alignments,
)
from keras_attn_zoo.runs import attention_by_layer
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.support.extras import is_installed
from keras_attn_zoo.support.files import read_json, write_json, write_text
from keras_attn_zoo.viewing import attention_pictures, figures
from tests import tiny
from tests.made_runs import copy_run, make_run, repeat_text


def test_align_scores_against_gold_of_either_index_base(attn_zoo, refused, trained, tmp_path):
    (tmp_path / "bitext").write_text("rot haus ||| house red\nkatze ||| cat\n")
    outputs = []
    for base in (0, 1):
        (tmp_path / "gold").write_text(f"{base}-{base + 1} {base + 1}-{base}\n{base}-{base}\n")
        status, output, _ = attn_zoo(
            "align", trained, "--bitext", tmp_path / "bitext", "--gold", tmp_path / "gold", "--index-base", base
        )
        assert status == 0 and "AER" in output
        outputs.append(output)
    assert outputs[0] == outputs[1]
    status, links, _ = attn_zoo("align", trained, "--bitext", tmp_path / "bitext")
    assert status == 0 and [len(line.split()) for line in links.splitlines()] == [2, 1]
    assert links.splitlines()[1] == "0-0"
    (tmp_path / "gold").write_text("\n\n")
    refused("gold has no links", "align", trained, "--bitext", tmp_path / "bitext", "--gold", tmp_path / "gold")


def test_align_takes_the_gold_of_the_embedded_corpus(attn_zoo, refused, trained, tmp_path, encodings):
    """The same as of the text and the links in files."""
    run = RunFolder(tmp_path / "run")
    shutil.copytree(trained, run.path)
    sizes = {"train": 4, "valid": 2, "test": 6, "seed": 1, "max_words": 8}
    write_json(run.config, {**read_json(run.config), "corpus": {"generated": sizes}})
    gold = embedded_corpus(**sizes).gold
    write_text(tmp_path / "bitext", "".join(f"{' '.join(s)} ||| {' '.join(t)}\n" for s, t, _ in gold))
    write_text(tmp_path / "gold", "".join(format_alignment(links) + "\n" for *_, links in gold))
    files = ("--bitext", tmp_path / "bitext", "--gold", tmp_path / "gold")
    for layer in (("--layer", "best"), ()):
        encodings.clear()
        status, output, _ = attn_zoo("align", run.path, *layer)
        assert set(encodings.values()) == {1}
        assert (status, output) == attn_zoo("align", trained, *layer, *files)[:2] and "AER" in output and status == 0
    refused("text and its gold links: leave out --gold-reverse", "align", run.path, "--gold-reverse")
    refused("give --bitext", "align", trained)


def test_models_of_both_directions_are_symmetrised(attn_zoo, trained, tmp_path):
    (tmp_path / "bitext").write_text("rot haus ||| house red\nkatze hund ||| cat dog\n")
    line = ("align", trained, "--bitext", tmp_path / "bitext")
    forward = read_links(attn_zoo(*line)[1])
    reverse = [one.reverse() for one in read_links(attn_zoo(*line, "--reverse")[1])]
    both = ("--reverse-model", trained, "--symmetrize", "union")
    status, output, _ = attn_zoo(*line, *both)
    union = [Alignment(one.sure | other.sure) for one, other in zip(forward, reverse, strict=True)]
    assert status == 0 and read_links(output) == union
    write_alignments(tmp_path / "gold", forward, format="naacl")
    status, output, error = attn_zoo(
        *(*line, *both, "--layer", "best", "--gold", tmp_path / "gold", "--gold-format", "naacl"),
        *("--output", tmp_path / "links", "--format", "talp"),
    )
    assert status == 0 and output.count("| 1 (best)") == 2 and output.count("AER 0.0 %") == (union == forward)
    assert read_alignments(tmp_path / "links", format="talp") == union and str(tmp_path / "links") in error


def read_links(text):
    return [parse_alignment(line) for line in text.splitlines()]


def test_a_statistical_aligner_takes_the_place_of_a_model(attn_zoo, tmp_path):
    pairs = [(["das", "alte", "Haus"], ["the", "old", "house"]), (["ein", "Haus", "."], ["a", "house", "."])]
    train = [("das Haus", "the house"), ("ein altes", "an old"), ("das Buch", "the book"), (".", "."), ("", "left out")]
    write_text(tmp_path / "bitext", "".join(f"{' '.join(s)} ||| {' '.join(t)}\n" for s, t in pairs))
    for side, name in enumerate(("train.de", "train.en")):
        write_text(tmp_path / name, "".join(f"{pair[side]}\n" for pair in train))
    words = [(source.split(), target.split()) for source, target in train[:-1]]
    line = ("--bitext", tmp_path / "bitext", "--train", tmp_path / "train.de", tmp_path / "train.en")
    status, output, error = attn_zoo("align", "hmm", *line)
    assert status == 0 and read_links(output) == [Alignment(one) for one in align_text("hmm", pairs, words)]
    assert "left out 1 pairs" in error and "training hmm on 6 sentence pairs" in error
    status, output, _ = attn_zoo("align", "ibm1", *line, "--symmetrize", "intersection", "--leave-out", "full_stop")
    first, second = align_text("ibm1", pairs, words, "intersection")
    assert status == 0 and read_links(output) == [Alignment(first), Alignment(second - {(2, 2)})]
    turned = [(target, source) for source, target in pairs]
    status, output, _ = attn_zoo("align", "hmm", "--bitext", tmp_path / "bitext", "--reverse")
    assert status == 0 and read_links(output) == [Alignment(one) for one in align_text("hmm", turned)]


def test_what_has_no_sense_with_a_model_or_an_aligner_is_refused(refused, trained, tmp_path):
    (tmp_path / "bitext").write_text("rot ||| red\n")
    text = ("--bitext", tmp_path / "bitext")
    refused("leave out --reverse-model and --layer", "align", "hmm", *text, "--layer", 1, "--reverse-model", trained)
    refused("give --bitext, or --source and --target", "align", "hmm")
    refused("neither a model nor an aligner fast-align: did you mean fast_align", "align", "fast-align", *text)
    refused("add it", "align", "fast_align", *text) if is_installed("systran_align") else refused(
        "pip install 'keras-attn-zoo[aligners]'", "align", "fast_align", *text
    )
    refused("leave out --train", "align", trained, *text, "--train", tmp_path / "bitext")
    refused("give --reverse-model", "align", trained, *text, "--symmetrize", "union")
    refused("there is no --symmetrize: leave out --reverse-model", "align", trained, *text, "--reverse-model", trained)
    refused("there is no --gold: leave out --gold-format", "align", trained, *text, "--gold-format", "talp")


def test_what_cannot_be_aligned_is_said_before_anything_is_decoded(refused, trained, tmp_path):
    (tmp_path / "a").write_text("rot haus\nkatze\n")
    (tmp_path / "b").write_text("house red\n\n")
    line = ("align", trained, "--source", tmp_path / "a", "--target")
    refused(f"{tmp_path / 'b'} line 2 is empty", *line, tmp_path / "b")
    refused("there is no head 1", *line, tmp_path / "a", "--heads", 1)


@pytest.mark.long
def test_plots_are_pictures(attn_zoo, refused, trained, tmp_path, encodings, capsys):
    attention = ("plot", "attention", trained, "rot haus")
    own = (*attention, "--subwords", "--output", tmp_path / "a.png")
    assert attn_zoo(*own)[0] == 0 and attn_zoo(*own, "--layer", "1")[0] == 0
    assert [(sentence, encodings.pop((model, sentence))) for model, sentence in list(encodings)] == [("rot haus", 2)], (
        "once for each picture; what is found never"
    )
    copy = shutil.copytree(trained, tmp_path / "copy")
    beside = (*attention, "--subwords", "--output", tmp_path / "e.png", "--beside")
    assert attn_zoo(*beside, copy)[0] == 0
    assert [(sentence, encodings.pop((model, sentence))) for model, sentence in list(encodings)] == [("rot haus", 1)]
    refused("was given twice: leave it out once", *beside, trained)
    assert attn_zoo(*attention, "--target", "house", "--output", tmp_path / "b.svg")[0] == 0
    assert attn_zoo(*attention, "--target", "house red", "--beside", copy, "--output", tmp_path / "d.png")[0] == 0
    assert attn_zoo("plot", "curves", trained, "--output", tmp_path / "c.pdf")[0] == 0
    assert [(tmp_path / n).read_bytes()[:4] for n in ("a.png", "c.pdf")] == [b"\x89PNG", b"%PDF"]
    for output, said in (
        ("c.doc", "has the suffix '.doc': choose one of .png, .pdf, .svg"),
        ("", "'' has the suffix ''"),
    ):
        with pytest.raises(SystemExit, match="2"):
            attn_zoo("plot", "curves", trained, "--output", output)
        assert said in capsys.readouterr().err


@pytest.fixture(scope="module")
def transformers(tmp_path_factory):
    """Presets of two Transformers, one with attention by position."""
    folder = tmp_path_factory.mktemp("presets")
    for name, place in {"plain": {}, "gaussian": {"encoder_attention": "gaussian"}}.items():
        tiny.translator(body=tiny.transformer, **place).save_to_preset(folder / name)
    return [folder / "plain", folder / "gaussian"]


@pytest.fixture
def text_files(tmp_path):
    files = [tmp_path / "text.de", tmp_path / "text.en"]
    for file, side in zip(files, ("source", "target"), strict=True):
        file.write_text("\n".join(tiny.sentences(side)[:4]) + "\n", encoding="utf-8")
    return files


@pytest.mark.long
@pytest.mark.parametrize("name", ["entropy", "weights", "divergence"])
def test_pictures_of_layers(attn_zoo, refused, transformers, text_files, trained, tmp_path, name):
    output = tmp_path / f"{name}.png"
    assert attn_zoo("plot", name, *transformers, "--test", *text_files, "--output", output)[0] == 0
    assert output.read_bytes().startswith(b"\x89PNG")
    # A run has a text of its own.
    status, _, error = attn_zoo("plot", name, trained, "--places", "cross", "--output", output)
    assert status == (2 if name == "divergence" else 0)
    assert ("has one layer of encoder-decoder attention: divergence is between two or more" in error) == (
        name == "divergence"
    )
    if name == "weights":
        # All three read models and texts alike.
        for model, said in (
            (trained, "has no encoder or decoder attention: add --places cross"),
            (transformers[0], "is not a run folder, and so has no test text: give --test"),
        ):
            refused(said, "plot", name, model, "--output", tmp_path / "none.png")
        text = ("--test", *text_files, "--output", tmp_path / "none.png")
        assert "no model has layer 7 or 8" in attn_zoo("plot", name, transformers[0], "--layers", 7, 8, *text)[2]
    assert not (tmp_path / "none.png").exists()


def test_entropy_and_divergence_over_seeds(attn_zoo, trained, any_preset, text_files, tmp_path, monkeypatch):
    """Those of a system are their mean; a system with one seed stays as it is."""
    system = RunFolder(trained).system()
    found = {}
    for name, own, entropy, divergence in (
        ("a", system, (1.0, 2.0), 0.1),
        ("a-seed=2", system.override(seed=2), (3.0, 2.5), 0.3),
        ("b", system.override(learning_rate=3e-3), (0.5, 0.25), 0.2),
    ):
        copy_run(trained, tmp_path / name, own)
        of_layers = np.array([[0.0, divergence], [divergence, 0.0]])
        found[name] = SimpleNamespace(entropy=np.array(entropy), divergence=of_layers)
    monkeypatch.setattr(attention_by_layer, "statistics_by_layer", lambda *args: {"cross": found[next(names)]})
    drawn = {}
    monkeypatch.setattr(
        attention_pictures,
        "plot_curves",
        lambda curves, *_, deviations, **options: drawn.update(c=curves, d=deviations),
    )
    monkeypatch.setattr(figures, "plot_grids", lambda rows, *_, **options: drawn.update(rows=rows))
    runs = [tmp_path / name for name in found]
    for name in ("entropy", "divergence"):
        names = iter(found)
        line = ("plot", name, *runs, "--places", "cross", "--test", *text_files, "--over-seeds")
        assert attn_zoo(*line, "--output", tmp_path / "p.png")[0] == 0
    (a, of_a), (b, of_b) = drawn["c"].items()
    assert a.endswith(", 2 seeds, encoder-decoder") and "seeds" not in b
    assert list(map(list, of_a)) == [[1, 2], [2.0, 2.25]] and list(map(list, of_b)) == [[1, 2], [0.5, 0.25]]
    assert list(drawn["d"]) == [a]
    np.testing.assert_allclose(drawn["d"][a], [2**0.5, 0.5 / 2**0.5])
    assert [[title for title, _ in row] for row in drawn["rows"]] == [[a], [b]]
    assert [row[0][1][0, 1] for row in drawn["rows"]] == pytest.approx([0.2, 0.2])


def test_more_than_four_histograms_of_weights_have_a_panel_for_each_layer(
    attn_zoo, transformers, text_files, tmp_path, monkeypatch
):
    drawn = {}
    for name in ("plot_histograms", "plot_histogram_panels"):
        monkeypatch.setattr(figures, name, lambda found, *_, name=name, **options: drawn.update({name: found}))
    line = ("plot", "weights", *transformers, "--test", *text_files, "--output", tmp_path / "w.png")
    assert attn_zoo(*line, "--places", "encoder")[0] == attn_zoo(*line)[0] == 0
    assert len(drawn["plot_histograms"]) == 4
    panels = drawn["plot_histogram_panels"]
    assert list(panels) == ["layer 1", "layer 2"]
    for layer, histograms in panels.items():
        assert len(histograms) == 4
        for name, shares in histograms.items():
            if name.endswith(", encoder"):
                np.testing.assert_allclose(shares, drawn["plot_histograms"][f"{name}, {layer}"])


@pytest.mark.long
def test_matrices_and_self_attention(attn_zoo, refused, transformers, tmp_path):
    plain, gaussian = transformers
    sentence = tiny.sentences("source")[0]
    for number, arguments in enumerate(
        [
            ("matrices", gaussian, "--size", 5, "--heads", 0),
            ("attention", plain, sentence, "--place", "encoder", "--layer", 2),
            ("attention", plain, sentence, "--place", "decoder", "--beside", gaussian),
            ("attention", plain, sentence, "--place", "decoder", "--target", "the house"),
        ]
    ):
        output = tmp_path / f"{number}.png"
        assert attn_zoo("plot", *arguments, "--output", output)[0] == 0
        assert output.read_bytes().startswith(b"\x89PNG")
    for arguments, message in (
        (("matrices", plain), "every attention of this model depends on the tokens"),
        (("attention", plain, sentence, "--place", "encoder", "--layer", "posterior"), "leave out --place"),
        (("attention", plain, sentence, "--place", "encoder", "--layer", 9), "there is no layer 9"),
    ):
        refused(message, "plot", *arguments, "--output", tmp_path / "none.png")


def test_matrices_reach_as_far_as_the_sentences_of_a_run(attn_zoo, transformers, run, tmp_path, monkeypatch):
    sizes = []
    monkeypatch.setattr(
        "keras_attn_zoo.viewing.figures.plot_grids", lambda rows, *_, **__: sizes.append(len(rows[0][0][1]))
    )
    shutil.rmtree(run.best)
    shutil.copytree(transformers[1], run.best)
    # A run with this preset.
    config, body = read_json(run.config), read_json(run.best / "config.json")["config"]
    own = {name: body[name] for name in BODIES["transformer"].settings}
    training = {**config["system"]["training"], "teacher_forcing": 1.0}
    changed = {"body": "transformer", "backbone": own, "training": training}
    del config["corpus"]["subwords"]
    write_json(run.config, {**config, "system": {**config["system"], **changed}})
    lines = run.test.read_text("utf-8").splitlines()[:2]
    run.test.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    sides = zip(*(line.split("\t") for line in lines), strict=True)
    encoded = map(encode_sentences, tiny.preprocessor().subwords, sides)
    longest = max(len(ids) for side in encoded for ids in side)
    for more in ((), ("--size", 3)):
        status, _, error = attn_zoo("plot", "matrices", run.path, *more, "--output", tmp_path / "m.png")
        assert status == 0, error
    assert sizes == [longest, 3]


def test_pictures_of_runs_and_text(attn_zoo, refused, trained, text_files, tmp_path):
    run = RunFolder(shutil.copytree(trained, tmp_path / "run"))
    repeat_text(run, 20)
    pairs = [line.split("\t") for line in run.test.read_text("utf-8").splitlines()] * 20
    many = [tmp_path / "many.de", tmp_path / "many.en"]
    for side, file in enumerate(many):
        file.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    for number, arguments in enumerate(
        [
            ("lengths", *text_files),
            ("by-length", run.path, "--name", "many", "--test", *many, "--bounds", 2, 3),
            ("by-length", run.path, "--name", "many", "--side", "target", "--bounds", 2, "--key", "chrF"),
            ("curves", trained, "--key", "loss,val_loss", "val_loss"),
        ]
    ):
        output = tmp_path / f"{number}.png"
        assert attn_zoo("plot", *arguments, "--output", output)[0] == 0
        assert output.read_bytes().startswith(b"\x89PNG")
    (tmp_path / "empty.txt").touch()
    # Of as many sentences.
    other = [tmp_path / "other.de", tmp_path / "other.en"]
    for file in other:
        file.write_text("a b\n" * 6)
    for arguments, message in (
        (("lengths", tmp_path / "empty.txt"), "empty.txt is empty: give a file"),
        (("by-length", trained, "--name", "news"), "has no translations for 'news': evaluate it again"),
        (("by-length", trained, "--test", *other), "was scored on another text: give the one that was translated"),
        (("by-length", trained, "--side", "target", "--test", *other), "references: leave out --test"),
        (("by-length", trained, "--bounds", 3, 2), "bounds must be positive and strictly increasing"),
        (("by-length", trained), "there are no two classes of length with 20 sentences each: take a longer test text"),
    ):
        refused(message, "plot", *arguments, "--output", tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_lengths_of_the_text_of_runs(attn_zoo, corpus, tmp_path, monkeypatch):
    """All three parts, the sides apart; files that a run names are read only after a yes."""
    drawn = []
    monkeypatch.setattr("keras_attn_zoo.viewing.figures.plot_histograms", lambda *given: drawn.append(given))
    run, other = (make_run(tmp_path / name) for name in ("run", "other"))
    for name, part in zip(("train", "valid", "test"), corpus.splits, strict=True):
        for side in (0, 1):
            # Of different lengths: each target has a word more.
            write_text(tmp_path / f"{name}.{side}", "".join(pair[side] + " x" * side + "\n" for pair in part))
    files = {name: [str(tmp_path / f"{name}.{side}") for side in (0, 1)] for name in ("train", "valid", "test")}
    write_json(run.config, {**read_json(run.config), "corpus": {**files, "reverse": False}})
    line = ("plot", "lengths", run.path, "--output", tmp_path / "l.png")
    status, _, error = attn_zoo(*line)
    assert status == 2 and "names files outside it, which were not read" in error and not drawn
    monkeypatch.setattr("keras_attn_zoo.cli.plot_lengths.ask", lambda question: str(files["train"][0]) in question)
    shutil.copy(run.config, other.config)
    assert attn_zoo("plot", "lengths", run.path, other.path, *line[3:])[0] == 0
    ((histograms, edges, *_),) = drawn
    expected = [sum(len(pair[0].split()) == n for part in corpus.splits for pair in part) for n in range(7)]
    assert list(histograms) == ["source", "target"] and list(edges) == [n - 0.5 for n in range(8)]
    assert list(histograms["source"]) == expected and list(histograms["target"]) == [0, *expected[:-1]]
    assert attn_zoo("plot", "lengths", run.path, tmp_path / "test.0", "--output", tmp_path / "l.png")[0] == 0
    assert list(drawn[1][0]) == ["run, source", "run, target", "test.0"]


def test_speed_is_measured_and_drawn(attn_zoo, trained, tmp_path):
    line = ("plot", "speed", trained, "--runs", 1, "--output", tmp_path / "s.png")
    status, output, _ = attn_zoo(*line, "--batch-sizes", 2, 4, 2, "--beams", 1, 1)
    assert status == 0 and (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    heading, _, row = output.splitlines()
    assert [cell.strip() for cell in heading.strip("|").split("|")] == ["tokens/s by sentences per batch", "2", "4"]
    assert all(int(cell) > 0 for cell in row.strip("|").split("|")[1:])
    status, output, _ = attn_zoo(*line, "--by", "beam", "--beams", 1, 2, "--batch-sizes", 4)
    assert status == 0 and "tokens/s by beams" in output
    assert "--by beam takes one value of --batch-sizes" in attn_zoo(*line, "--by", "beam", "--batch-sizes", 4, 8)[2]

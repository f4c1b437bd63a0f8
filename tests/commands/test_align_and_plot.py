"""`attn-zoo align` and `attn-zoo plot`."""

import shutil

from keras_attn_zoo.evaluation.alignments import format_alignment
from keras_attn_zoo.experiments.corpora import embedded_corpus
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.files import read_json, write_json, write_text


def test_align_scores_against_gold_of_either_index_base(attn_zoo, trained, tmp_path):
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
    status, output, error = attn_zoo("align", trained, "--bitext", tmp_path / "bitext", "--gold", tmp_path / "gold")
    assert (status, output) == (2, "") and "gold has no links" in error


def test_align_takes_the_gold_of_the_embedded_corpus(attn_zoo, trained, tmp_path, encodings):
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
    status, _, error = attn_zoo("align", run.path, "--gold-reverse")
    assert status == 2 and "text and its gold links: leave out --gold-reverse" in error
    status, _, error = attn_zoo("align", trained)
    assert status == 2 and "give --bitext" in error


def test_a_head_that_is_not_there_is_said_before_anything_is_decoded(attn_zoo, trained, tmp_path):
    (tmp_path / "a").write_text("rot haus\n")
    status, output, error = attn_zoo(
        "align", trained, "--source", tmp_path / "a", "--target", tmp_path / "a", "--heads", 1
    )
    assert (status, output) == (2, "") and "there is no head 1" in error and "aligned" not in error


def test_plots_are_pictures(attn_zoo, trained, tmp_path, encodings):
    own = ("plot", "attention", trained, "rot haus", "--subwords", "--output", tmp_path / "a.png")
    assert attn_zoo(*own)[0] == 0 and attn_zoo(*own, "--layer", "1")[0] == 0
    assert [(sentence, encodings.pop((model, sentence))) for model, sentence in list(encodings)] == [("rot haus", 2)], (
        "once for each picture; what is found never"
    )
    beside = (
        "plot",
        "attention",
        trained,
        "rot haus",
        "--subwords",
        "--beside",
        trained,
        "--output",
        tmp_path / "e.png",
    )
    assert attn_zoo(*beside)[0] == 0
    assert [(sentence, encodings.pop((model, sentence))) for model, sentence in list(encodings)] == [("rot haus", 1)]
    assert (
        attn_zoo("plot", "attention", trained, "rot haus", "--target", "house", "--output", tmp_path / "b.svg")[0] == 0
    )
    assert (
        attn_zoo(
            "plot",
            "attention",
            trained,
            "rot haus",
            "--target",
            "house red",
            "--beside",
            trained,
            "--output",
            tmp_path / "d.png",
        )[0]
        == 0
    )
    assert attn_zoo("plot", "curves", trained, "--output", tmp_path / "c.pdf")[0] == 0
    assert [(tmp_path / n).read_bytes()[:4] for n in ("a.png", "c.pdf")] == [b"\x89PNG", b"%PDF"]
    status, _, error = attn_zoo("plot", "curves", trained, "--output", tmp_path / "c.doc")
    assert status == 2 and ".png" in error

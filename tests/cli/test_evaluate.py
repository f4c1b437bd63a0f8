"""`attn-zoo evaluate`: scores of files and of runs, and the table."""

import shutil

import pytest

from keras_attn_zoo.runs.curves import curves_over_top_k, curves_over_trained_top_k
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import read_json, write_json
from keras_attn_zoo.translators import Translator
from tests.made_runs import make_timing, translate_as
from tests.tiny_run import TINY


def test_evaluate_text_alone(attn_zoo, refused, tmp_path):
    (tmp_path / "a.txt").write_text("the red house is here today\n")
    line = ("evaluate", "--hypotheses", tmp_path / "a.txt", "--references")
    status, output, _ = attn_zoo(*line, tmp_path / "a.txt")
    assert status == 0 and "100.0" in output
    (tmp_path / "b.txt").write_text("one\ntwo\n")
    refused("there are 1 hypotheses but 2 references", *line, tmp_path / "b.txt")


def test_evaluate_a_run_on_other_text(attn_zoo, trained, tmp_path, encodings):
    (tmp_path / "t.tsv").write_text("rot haus\thouse red\nkatze\tcat\n")
    status, output, _ = attn_zoo("evaluate", trained, "--test", tmp_path / "t.tsv", "--name", "other")
    assert set(encodings.values()) == {1} and len(encodings) == 4
    assert status == 0 and "| tiny" in output and "BLEU" in output
    assert RunFolder(trained).read_scores()["other"]["sentences"] == 2
    assert attn_zoo("evaluate", trained, "--name", "other", "--stored") == (0, output, "")


def test_evaluate_says_how_a_preset_is_scored(refused, tmp_path):
    (tmp_path / "task.json").write_text("{}")
    for preset in ("transformer_tatoeba_de_en", tmp_path):
        refused("is a preset, not a run folder: translate the text", "evaluate", preset)


@pytest.mark.parametrize("name", ["../other", "/tmp/other", "a/b", "..", ".", "", "a\nb", "a\\b", "a" * 201])
def test_names_of_test_sets_stay_in_the_run_folder(attn_zoo, trained, tmp_path, capsys, name):
    (tmp_path / "t.tsv").write_text("rot haus\thouse red\n")
    before = {path: path.stat().st_mtime_ns for path in trained.parent.rglob("*")}
    with pytest.raises(SystemExit) as stopped:
        attn_zoo("evaluate", trained, "--test", tmp_path / "t.tsv", "--name", name)
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and "cannot be the name of a test set" in error and error.count("\n") == 1
    run = RunFolder(trained)
    for entrance in (run.hypotheses, run.references, run.alignment, run.picture, lambda name: run.add_scores(name, {})):
        with pytest.raises(UserError, match="cannot be the name of a test set"):
            entrance(name)
    assert before == {path: path.stat().st_mtime_ns for path in trained.parent.rglob("*")}


@pytest.mark.long
def test_evaluate_counts_of_positions_one_row_each(
    attn_zoo, refused, trained, corpus, tmp_path, monkeypatch, encodings
):
    measured, score = [], Translator.score

    def counted(*arguments, **options):
        measured.append(score(*arguments, **options))
        return measured[-1]

    monkeypatch.setattr(Translator, "score", counted)
    run = train_system(TINY.override(output="latent", epochs=1, teacher_forcing=1.0), corpus, tmp_path / "latent")
    (tmp_path / "t.tsv").write_text("rot haus\thouse red\nkatze\tcat\n")
    arguments = ("--test", tmp_path / "t.tsv", "--name", "new", "--top-k", 2, 0, 2)
    encodings.clear()
    status, output, _ = attn_zoo("evaluate", run.path, *arguments)
    assert set(encodings.values()) == {1} and len(encodings) == 4
    rows = [line.split("|") for line in output.splitlines() if line.startswith("| latent")]
    assert status == 0 and [row[2].strip() for row in rows] == ["2", "all"]
    assert {name: scores["search_top_k"] for name, scores in run.read_scores().items()} == {"new-k2": 2, "new-k0": 0}
    assert "K applies to the search" in output and len(measured) == 1
    stored = ("evaluate", run.path, "--stored", "--name", "new-k2")
    refused("--stored translates nothing: leave out --top-k", *stored, "--top-k", 3)
    curves, ticks = curves_over_top_k([run.path], "new", lambda run, name: run.read_scores()[name]["search_top_k"])
    assert ticks == {0: 2, 1: "all"} and curves == {"latent": ([0, 1], [2, 0])}
    picture = tmp_path / "k.png"
    plot = ("plot", "top-k", run.path, "--key", "seconds", "--output", picture)
    assert attn_zoo(*plot, "--name", "new")[0] == 0 and picture.read_bytes().startswith(b"\x89PNG")
    refused("evaluate it with --top-k", *plot)
    # Over the number in training: the run sums over all, a copy that says two over two, the plain one is a level.
    other = shutil.copytree(run.path, tmp_path / "two")
    config = read_json(other / "config.json")
    config["system"]["backbone"] |= {"marginalization": "top_k", "top_k": 2}
    write_json(other / "config.json", config)
    for folder, bleu in ((run.path, 30.0), (other, 20.0), (trained, 10.0)):
        RunFolder(folder).add_scores("drawn", {**run.read_scores()["new-k2"], "bleu": bleu})
    curves, ticks = curves_over_trained_top_k(
        [run.path, other, trained], "drawn", lambda run, name: run.read_scores()[name]["bleu"]
    )
    assert ticks == {0: 2, 1: "all"}
    assert curves == {"latent alignment": ([0, 1], [20.0, 30.0]), "tiny": ([0, 1], [10.0, 10.0])}
    with pytest.raises(UserError, match="two runs were trained with the same number of positions"):
        curves_over_trained_top_k(
            [run.path, shutil.copytree(run.path, tmp_path / "again")], "drawn", lambda run, name: 0
        )
    plot = ("plot", "top-k", run.path, "--name", "new-k2", "--output", picture, "--key", "tokens/s")
    refused("was not timed together", *plot, "--trained")
    make_timing(run)
    assert attn_zoo(*plot, "--trained")[0] == 0
    refused("give --trained", *plot)
    refused("has not been scored", *plot[:2], trained, *plot[3:-2], "--trained")
    before = run.scores.read_bytes()
    refused(f"{trained} has no latent alignment", "evaluate", run.path, trained, *arguments)
    assert run.scores.read_bytes() == before
    # Of subwords, for the model has hardly learned to write a word.
    plot = ("plot", "attention", run.path, "rot haus", "--subwords", "--top-k", 1, "--output", picture)
    encodings.clear()
    assert attn_zoo(*plot, "--beside", trained)[0] == 0
    assert set(encodings.values()) == {1} and len(encodings) == 1, (
        "both have the same subwords, and force what was found"
    )


def test_evaluate_marks_what_differs_from_the_baseline(attn_zoo, refused, trained, tmp_path):
    """The references themselves are better than the baseline; what differs in one sentence of forty is not."""
    references = [f"the {colour} house {number} is here today" for colour in ("red", "blue") for number in range(20)]
    texts = {
        "baseline": [line.replace("house", "dog") for line in references],
        "better": references,
        "alike": [line.replace("house", "dog").replace("red house 7", "house") for line in references],
    }
    runs = [tmp_path / name for name in texts]
    for run, lines in zip(runs, texts.values(), strict=True):
        shutil.copytree(trained, run)
        (run / "references" / "test.txt").write_text("".join(line + "\n" for line in references), encoding="utf-8")
        translate_as(RunFolder(run), lines, bleu=50.0)
    status, output, _ = attn_zoo("evaluate", *runs, "--stored", "--baseline", runs[0])
    bleu = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in output.splitlines() if "|" in line}
    assert status == 0 and bleu["better"].endswith("**")
    assert "*" not in bleu["baseline"] + bleu["alike"] and "differs from baseline" in output
    # Below BLEU 10, no difference means anything.
    translate_as(RunFolder(runs[1]), references, bleu=9.9)
    output = attn_zoo("evaluate", *runs, "--stored", "--baseline", runs[0])[1]
    assert "**" not in output.partition("\n- ")[0] and "no stars for better: BLEU is below 10" in output
    (runs[1] / "references" / "test.txt").write_text("other\n" * len(references), encoding="utf-8")
    translate_as(RunFolder(runs[1]), references)
    refused("scored on different texts", "evaluate", *runs, "--stored", "--baseline", runs[0])
    refused("is not among the runs", "evaluate", runs[0], "--stored", "--baseline", runs[1])
    (runs[1] / "references" / "test.txt").unlink()
    assert "has no references for 'test'" in attn_zoo("evaluate", *runs, "--stored", "--baseline", runs[0])[2]


def test_several_references_and_another_tokeniser_of_files(attn_zoo, trained, tmp_path):
    for name, line in {"h": "我在这里", "a": "我在这儿", "b": "我在这里"}.items():
        (tmp_path / name).write_text(f"{line}\n", encoding="utf-8")
    line = ("evaluate", "--hypotheses", tmp_path / "h", "--references", tmp_path / "a", tmp_path / "b")
    status, output, _ = attn_zoo(*line, "--tokenize", "zh")
    assert status == 0 and "tok:zh" in output and "= 100.00" in output.splitlines()[0]
    assert "tok:13a" in attn_zoo(*line)[1]
    assert "case:lc" in attn_zoo(*line, "--lowercase")[1]
    assert "unknown tokenizer 'zz'" in attn_zoo(*line, "--tokenize", "zz")[2]
    assert "did you mean ja-mecab?" in attn_zoo(*line, "--tokenize", "ja_mecab")[2]
    error = attn_zoo("evaluate", trained, "--stored", "--tokenize", "zh")[2]
    assert "--stored scores nothing: leave out --tokenize" in error

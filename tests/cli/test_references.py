"""References of runs, comparisons, significance tests and pictures: several for a sentence, as they stand in files."""

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import types

import pytest
import sacrebleu

from keras_attn_zoo.cli.options import more_tests
from keras_attn_zoo.corpora.corpus import corpus_from_files
from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.data.words import normalise
from keras_attn_zoo.evaluation.text_scores import check_tokenizer, compare_systems
from keras_attn_zoo.runs.described_corpora import own_test_text
from keras_attn_zoo.runs.finished_run import score_and_draw
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.runs.preparation import check_system
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.scoring import score_again
from keras_attn_zoo.runs.system import SETTINGS
from keras_attn_zoo.studies.scores_by_length import scores_by_length
from keras_attn_zoo.studies.table import read_results
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.training.callbacks import ValidationBLEU
from keras_attn_zoo.translators import Translator
from tests.hard_text import HYPOTHESES, REFERENCES, drawn, write
from tests.made_runs import repeat_text, translate_as

SOURCES = ["rot haus", "katze geht", "blau hund"]
FIRST = ["House-red (1)", "goes cat", "dog blue"]
SECOND = ["the red house", "", "blue dog!"]
# Several references need the first one.
HARD = [one for one in REFERENCES if one.strip()]
HARD_OWN = [hypothesis for hypothesis, one in zip(HYPOTHESES, REFERENCES, strict=True) if one.strip()]
FURTHER = drawn(len(HARD))[1]
HARD_SOURCES = ["rot haus", "katze geht"] * (len(HARD) // 2) + ["blau hund"] * (len(HARD) % 2)


@pytest.fixture
def files(tmp_path):
    for name, lines in {"src": SOURCES, "a": FIRST, "b": SECOND}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [tmp_path / name for name in ("src", "a", "b")]


def bleu_of(run, name, **options):
    hypotheses = run.hypotheses(name).read_text(encoding="utf-8").splitlines()
    metric = sacrebleu.BLEU(**options)
    score = metric.corpus_score(hypotheses, [FIRST, [line or None for line in SECOND]]).score
    return score, str(metric.get_signature())


def test_a_run_is_scored_as_sacrebleu_scores_it(attn_zoo, run, files):
    line = ("evaluate", run.path, "--test", *files, "--name", "news")
    status, output, _ = attn_zoo(*line, "--tokenize", "intl", "--lowercase")
    score, signature = bleu_of(run, "news", tokenize="intl", lowercase=True)
    scores = run.read_scores()["news"]["text"]
    assert status == 0 and signature in output and "nrefs:var" in signature
    assert scores["metrics"]["bleu"]["score"] == pytest.approx(score)
    assert (scores["tokenize"], scores["lowercase"], scores["references"]) == ("intl", True, 2)
    assert run.read_translations("news")[1] == [FIRST, SECOND]
    assert attn_zoo("evaluate", run.path, "--name", "news", "--stored") == (0, output, "")
    error = attn_zoo(*line[:2], "--test", *files, "--reverse")[2]
    assert "in reverse has one reference" in error and error.count("\n") == 1
    files[2].write_text("one\n")
    assert "has 3 lines but" in attn_zoo(*line)[2]


@pytest.mark.parametrize("name", ["Text ü.TSV", "text.tsv.gz"])
def test_a_tsv_file_holds_both_sides_and_further_files_are_references(attn_zoo, run, files, tmp_path, name):
    rows = "".join(f"{source}\t{first}\n" for source, first in zip(SOURCES, FIRST, strict=True))
    (tmp_path / name).write_bytes(gzip.compress(rows.encode()) if name.endswith(".gz") else rows.encode())
    assert attn_zoo("evaluate", run.path, "--test", tmp_path / name, files[2], "--name", "news")[0] == 0
    assert run.read_translations("news")[1] == [FIRST, SECOND]
    assert run.read_scores()["news"]["text"]["metrics"]["bleu"]["score"] == pytest.approx(bleu_of(run, "news")[0])
    pair = (files[0], files[1])
    corpus = corpus_from_files(pair, pair, (tmp_path / name, files[2], files[1]))
    assert corpus.test.references == [FIRST, SECOND, FIRST]


def test_a_tsv_file_in_a_wrong_place_is_named(attn_zoo, refused, run, files, tmp_path):
    tsv = tmp_path / "t.tsv"
    tsv.write_text("rot haus\tred\n\nhaus\thouse\n")
    new = ("train", "--system", "uniform", "--run", tmp_path / "new", "--train")
    test = ("evaluate", run.path, "--name", "news", "--test")
    for line, text in (
        ((*new, tsv, files[1]), "t.tsv is a TSV file, which holds source and target: give it alone"),
        ((*new, files[0], tsv), "t.tsv is a TSV file, which holds source and target: give it alone"),
        ((*new, *files), "--train takes SOURCE TARGET or one TSV file; received 3 files."),
        ((*test, *files, tsv), "t.tsv is a TSV file: give further references one per line"),
        ((*test, tsv, files[1], "--reverse"), "in reverse has one reference"),
        ((*test, tsv, files[1]), "t.tsv line 2 has no target: with several references"),
    ):
        refused(text, *line)
    assert not (tmp_path / "new").exists() and "news" not in run.read_scores()
    tabs = shutil.copy(tsv, tmp_path / "t.txt")
    tabs.write_text("rot haus\tred\n" * 3)
    assert "t.txt has tabs in every line, read as spaces" in attn_zoo(*test, tabs, files[1])[2]


def test_an_empty_side_of_a_pair_is_told(attn_zoo, run, files):
    """With one reference it is no error: published texts have such lines."""
    line = ("evaluate", run.path, "--name", "news", "--test", *files[:2])
    assert "empty side" not in attn_zoo(*line)[2]
    files[1].write_text("House-red (1)\n\ndog blue\n")
    status, _, error = attn_zoo(*line)
    assert status == 0 and f"{files[0]} and {files[1]}: 1 of 3 pairs have an empty side, the first in line 2" in error


def test_an_empty_first_reference_is_found_before_training(refused, files, tmp_path):
    files[1].write_text("House-red (1)\n\ndog blue\n")
    text = ("--train", *files[:2], "--valid", *files[:2], "--test", *files)
    line = ("train", "--system", "uniform", "--run", tmp_path / "new", *text)
    refused(f"{files[1]} line 2 is empty: with several references", *line)
    assert not (tmp_path / "new").exists()


def test_the_references_of_a_run_folder_are_not_taken_for_one_file(attn_zoo, files, tmp_path):
    (tmp_path / "both").write_text("".join(f"{a}\t{b}\n" for a, b in zip(FIRST, SECOND, strict=True)))
    line = ("evaluate", "--hypotheses", files[1], "--references")
    assert "both has tabs in every line" in attn_zoo(*line, tmp_path / "both")[2]
    assert attn_zoo(*line, *files[1:])[2] == ""


def test_a_comparison_scores_anew_with_another_tokeniser_and_translates_nothing(run, corpus, monkeypatch):
    monkeypatch.setattr(Translator, "translate", None)
    run.picture("curves").parent.mkdir()
    run.picture("curves").touch()
    before = run.read_scores()["test"]
    score_and_draw(run.path, corpus.test, keep_scores=True)
    assert run.read_scores()["test"] == before
    score_and_draw(run.path, corpus.test, keep_scores=True, tokenize="char", lowercase=True)
    after = run.read_scores()["test"]
    hypotheses = run.hypotheses("test").read_text(encoding="utf-8").splitlines()
    wanted = sacrebleu.corpus_bleu(hypotheses, [corpus.test.targets], tokenize="char", lowercase=True)
    assert after["text"]["metrics"]["bleu"]["score"] == pytest.approx(wanted.score)
    assert "tok:char" in after["text"]["metrics"]["bleu"]["signature"]
    assert {**after, "text": None} == {**before, "text": None}


def test_significance_is_that_of_all_references_and_of_the_same_tokeniser(attn_zoo, run, files, tmp_path):
    other = RunFolder(shutil.copytree(run.path, tmp_path / "other"))
    line = ("--test", *files, "--tokenize", "char")
    assert attn_zoo("evaluate", run.path, other.path, *line)[0] == 0
    translate_as(other, FIRST)
    attn_zoo("evaluate", run.path, "--stored")
    found = read_results([run.path, other.path], baselines={other.path: run.path})[1].against["bleu"]
    hypotheses = run.hypotheses("test").read_text(encoding="utf-8").splitlines()
    systems = {"a": hypotheses, "b": FIRST}
    wanted = compare_systems("a", systems, FIRST, "bleu", tokenize="char", more_references=[SECOND])
    assert found == wanted["b"]["bleu"] and "nrefs:var" in wanted.signatures["bleu"]
    assert attn_zoo("evaluate", other.path, "--test", *files)[0] == 0
    with pytest.raises(UserError, match="with different tokenisers or case"):
        read_results([run.path, other.path], baselines={other.path: run.path})
    repeat_text(run, 20)
    many = [write(tmp_path / "many", ["rot", "rot haus"] * 30)]
    many += [write(tmp_path / f"many-{file.name}", file.read_text("utf-8").splitlines() * 20) for file in files[1:]]
    picture = ("--name", "many", "--test", *many, "--bounds", 1, "--output", tmp_path / "lengths.png")
    assert attn_zoo("plot", "by-length", run.path, *picture)[0] == 0


def test_validation_bleu_has_its_own_tokeniser():
    found = ["我在这里"]
    model = types.SimpleNamespace(
        encode=lambda texts: texts,
        translate=lambda texts, batch_size: [[types.SimpleNamespace(text=text)] for text in found],
    )
    logs = {}
    callback = ValidationBLEU(["here"], ["我在这里了"], tokenize="zh")
    callback.set_model(model)
    callback.on_train_begin()
    callback.on_epoch_end(0, logs)
    assert logs["val_bleu"] == pytest.approx(sacrebleu.corpus_bleu(found, [["我在这里了"]], tokenize="zh").score)


def test_a_tokeniser_that_cannot_be_used_is_named_before_anything_is_done(refused, files, monkeypatch, tmp_path):
    line = ("train", "--system", "uniform", "--train", *files[:2], "--run", tmp_path / "new")
    for name, said in (("ja_mecab", "did you mean ja-mecab?"), ("zz", "choose one of none, zh"), ("", "choose one of")):
        refused(said, *line, "--tokenize", name)
    assert not (tmp_path / "new").exists()
    assert set(SETTINGS["Training"]["bleu_tokenize"].choices) <= set(sacrebleu.BLEU.TOKENIZERS)
    refused("has no effect without best_by=bleu", *line, "--set", "bleu_tokenize=zh")
    monkeypatch.setitem(sys.modules, "MeCab", None)
    with pytest.raises(UserError, match=r"pip install 'sacrebleu\[ja\]'"):
        check_system(SYSTEMS["uniform"].override(best_by="bleu", bleu_tokenize="ja-mecab"))
    with pytest.raises(UserError, match=r"pip install 'sacrebleu\[ja\]'"):
        check_tokenizer("ja-mecab")


@pytest.fixture
def hard_files(tmp_path):
    return [write(tmp_path / name, lines) for name, lines in (("src", HARD_SOURCES), ("a", HARD), ("b", FURTHER))]


def by_sacrebleu(hypotheses, *references):
    line = ("sacrebleu", *references, "-i", hypotheses, "-m", "bleu", "chrf", "ter", "-w", "10", "--ter-case-sensitive")
    found = subprocess.run([sys.executable, "-m", *map(str, line)], capture_output=True, check=True).stdout
    return {one["name"]: (one["score"], one["signature"]) for one in json.loads(found)}


def stored(run):
    metrics = run.read_scores()["news"]["text"]["metrics"].values()
    return {one["name"]: (round(one["score"], 10), one["signature"]) for one in metrics}


@pytest.mark.long
def test_a_run_is_scored_as_its_files_are_by_sacrebleu(attn_zoo, run, hard_files, tmp_path):
    """Of the user, and in the run folder; also with translations that are not normalised, as no model makes them."""
    assert attn_zoo("evaluate", run.path, "--test", *hard_files, "--name", "news")[0] == 0
    assert stored(run) == by_sacrebleu(run.hypotheses("news"), *hard_files[1:])
    other = RunFolder(shutil.copytree(run.path, tmp_path / "other"))
    translate_as(run, HARD_OWN, "news")
    score_again(run.path, "news", "13a", False)
    translations, references = run.read_translations("news")
    wanted = by_sacrebleu(write(tmp_path / "own", HARD_OWN), *hard_files[1:])
    assert stored(run) == wanted and wanted["BLEU"][0] > 10
    assert by_sacrebleu(run.hypotheses("news"), run.references("news"), "--num-refs", 2) == wanted
    # Significance, and a score by length whose one class holds all sentences.
    found = read_results([other.path, run.path], baselines={run.path: other.path}, names=("news",))[1].against["bleu"]
    systems = {"other": other.read_translations("news")[0], "run": [one.rstrip() for one in HARD_OWN]}
    [first, *more] = [[one.rstrip() for one in lines] for lines in (HARD, FURTHER)]
    assert found == compare_systems("other", systems, first, "bleu", more_references=more)["run"]["bleu"]
    for metric, name in (("bleu", "BLEU"), ("chrf", "chrF2"), ("ter", "TER")):
        by_length = scores_by_length(translations, references[0], [1] * len(HARD_OWN), [1], metric, references[1:])
        assert round(by_length[0].score, 10) == wanted[name][0]


def test_test_and_validation_text_of_every_kind_are_left_as_they_are(hard_files, tmp_path):
    written = [[one.rstrip().replace("\t", " ") for one in lines] for lines in (HARD, FURTHER)]
    pair = tuple(hard_files[:2])
    corpus = corpus_from_files(pair, pair, tuple(hard_files))
    assert corpus.test.references == written and corpus.test.targets == list(map(normalise, HARD))
    assert [target for _, target in corpus.splits.valid] == [one.rstrip() for one in HARD]
    assert [target for _, target in corpus.splits.train] == list(map(normalise, HARD))
    split = corpus_from_files(pair)
    held_out = [target for part in (split.splits.valid, split.splits.test) for _, target in part]
    assert set(held_out) <= {one.rstrip() for one in HARD}
    assert {target for _, target in split.splits.train} <= set(map(normalise, HARD))
    texts = more_tests(argparse.Namespace(more_test=[["news", *map(str, hard_files)]], reverse=False))
    assert texts["news"].references == written
    # In one file, with the source after the references.
    rows = [f"{one.rstrip()}\t{source}" for one, source in zip(written[0], HARD_SOURCES, strict=True)]
    tsv = write(tmp_path / "both.tsv", rows)
    assert corpus_from_files(pair, pair, tsv, reverse=True).test.references == written[:1]


def test_a_run_keeps_its_references_as_they_are(trained, run, hard_files):
    pair = tuple(hard_files[:2])
    corpus = corpus_from_files(pair, pair, tuple(hard_files))
    assert len(corpus.description["test"]) == 3
    with pytest.raises(UserError, match=f"1 references for {len(HARD)} sentences"):
        ParallelText(corpus.splits.test, more_references=[["one"]])
    run.config.unlink()
    run.create(RunFolder(trained).system(), corpus.description, corpus.test.rows())
    assert own_test_text(run).references == corpus.test.references
    assert own_test_text(run).checksum == corpus.test.checksum


def test_commands_take_the_test_texts_of_wmt(attn_zoo, run, tmp_path):
    texts = {"src": ["rot haus", "katze geht"], "ref": ["a house &amp; more", "cat"]}
    for name, lines in texts.items():
        segments = "".join(f'<seg id="{number}">{line}</seg>\n' for number, line in enumerate(lines, 1))
        heading = f'<{name}set setid="t" srclang="de" trglang="en"><doc sysid="a" docid="d">'
        (tmp_path / f"{name}.sgm").write_text(f"{heading}\n{segments}</doc></{name}set>\n")
    documents = "".join(
        f"<{name}><p><seg id='1'>{lines[0]}</seg><seg id='2'>{lines[1]}</seg></p></{name}>"
        for name, lines in texts.items()
    )
    (tmp_path / "wmt.xml").write_text(f"<dataset id='t'><doc id='d'>{documents}</doc></dataset>")
    for test in ([tmp_path / "src.sgm", tmp_path / "ref.sgm"], [tmp_path / "wmt.xml"]):
        assert attn_zoo("evaluate", run.path, "--test", *test, "--name", "news")[0] == 0
        assert run.read_translations("news")[1] == [["a house & more", "cat"]]
    plain = "".join(f"{line}\n" for line in run.read_translations("news")[0])
    for source in ("src.sgm", "wmt.xml"):
        assert attn_zoo("translate", run.path, "--input", tmp_path / source)[:2] == (0, plain)
    corpus = corpus_from_files(test[0], (tmp_path / "src.sgm", tmp_path / "ref.sgm"), test[0])
    pairs = [("rot haus", "a house & more"), ("katze geht", "cat")]
    assert list(corpus.splits.train) == corpus.splits.valid == corpus.test.pairs == pairs

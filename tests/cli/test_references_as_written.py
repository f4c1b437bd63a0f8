"""Runs are scored on references as they stand in the files, whichever way these reach them; test texts of WMT."""

import argparse
import json
import shutil
import subprocess
import sys

import pytest

from keras_attn_zoo.cli.options import more_tests
from keras_attn_zoo.corpora.corpus import corpus_from_files
from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.corpora.relocated_corpus import other_text
from keras_attn_zoo.data.words import normalise
from keras_attn_zoo.evaluation.text_scores import compare_systems
from keras_attn_zoo.runs.described_corpora import own_test_text
from keras_attn_zoo.runs.finished_run import left_to_score, score_and_draw
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.scoring import score_again, score_run
from keras_attn_zoo.studies.scores_by_length import scores_by_length
from keras_attn_zoo.studies.table import read_results
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from tests.hard_text import HYPOTHESES, REFERENCES, drawn, write
from tests.made_runs import translate_as

# Several references need the first one.
FIRST = [one for one in REFERENCES if one.strip()]
OWN = [hypothesis for hypothesis, one in zip(HYPOTHESES, REFERENCES, strict=True) if one.strip()]
SECOND = drawn(len(FIRST))[1]
SOURCES = ["rot haus", "katze geht"] * (len(FIRST) // 2) + ["blau hund"] * (len(FIRST) % 2)


@pytest.fixture
def files(tmp_path):
    return [write(tmp_path / name, lines) for name, lines in (("src", SOURCES), ("a", FIRST), ("b", SECOND))]


def sacrebleu(hypotheses, *references):
    line = ("sacrebleu", *references, "-i", hypotheses, "-m", "bleu", "chrf", "ter", "-w", "10", "--ter-case-sensitive")
    found = subprocess.run([sys.executable, "-m", *map(str, line)], capture_output=True, check=True).stdout
    return {one["name"]: (one["score"], one["signature"]) for one in json.loads(found)}


def stored(run):
    metrics = run.read_scores()["news"]["text"]["metrics"].values()
    return {one["name"]: (round(one["score"], 10), one["signature"]) for one in metrics}


@pytest.mark.long
def test_a_run_is_scored_as_its_files_are_by_sacrebleu(attn_zoo, run, files, tmp_path):
    """Of the user, and in the run folder; also with translations that are not normalised, as no model makes them."""
    assert attn_zoo("evaluate", run.path, "--test", *files, "--name", "news")[0] == 0
    assert stored(run) == sacrebleu(run.hypotheses("news"), *files[1:])
    other = RunFolder(shutil.copytree(run.path, tmp_path / "other"))
    translate_as(run, OWN, "news")
    score_again(run.path, "news", "13a", False)
    translations, references = run.read_translations("news")
    wanted = sacrebleu(write(tmp_path / "own", OWN), *files[1:])
    assert stored(run) == wanted and wanted["BLEU"][0] > 10
    assert sacrebleu(run.hypotheses("news"), run.references("news"), "--num-refs", 2) == wanted
    # Significance, and a score by length whose one class holds all sentences.
    found = read_results([other.path, run.path], baselines={run.path: other.path}, names=("news",))[1].against["bleu"]
    systems = {"other": other.read_translations("news")[0], "run": [one.rstrip() for one in OWN]}
    [first, *more] = [[one.rstrip() for one in lines] for lines in (FIRST, SECOND)]
    assert found == compare_systems("other", systems, first, "bleu", more_references=more)["run"]["bleu"]
    for metric, name in (("bleu", "BLEU"), ("chrf", "chrF2"), ("ter", "TER")):
        by_length = scores_by_length(translations, references[0], [1] * len(OWN), [1], metric, references[1:])
        assert round(by_length[0], 10) == wanted[name][0]


def test_test_and_validation_text_of_every_kind_are_left_as_they_are(files, tmp_path):
    written = [[one.rstrip().replace("\t", " ") for one in lines] for lines in (FIRST, SECOND)]
    pair = tuple(files[:2])
    corpus = corpus_from_files(pair, pair, tuple(files))
    assert corpus.test.references == written and corpus.test.targets == list(map(normalise, FIRST))
    assert [target for _, target in corpus.splits.valid] == [one.rstrip() for one in FIRST]
    assert [target for _, target in corpus.splits.train] == list(map(normalise, FIRST))
    split = corpus_from_files(pair)
    held_out = [target for part in (split.splits.valid, split.splits.test) for _, target in part]
    assert set(held_out) <= {one.rstrip() for one in FIRST}
    assert {target for _, target in split.splits.train} <= set(map(normalise, FIRST))
    texts = more_tests(argparse.Namespace(more_test=[["news", *map(str, files)]], reverse=False))
    assert texts["news"].references == written
    # In one file, with the source after the references.
    rows = [f"{one.rstrip()}\t{source}" for one, source in zip(written[0], SOURCES, strict=True)]
    tsv = write(tmp_path / "both.tsv", rows)
    assert corpus_from_files(pair, pair, tsv, reverse=True).test.references == written[:1]


def test_a_run_keeps_its_references_as_they_are(trained, run, files):
    pair = tuple(files[:2])
    corpus = corpus_from_files(pair, pair, tuple(files))
    assert len(corpus.description["test"]) == 3
    with pytest.raises(UserError, match=f"1 references for {len(FIRST)} sentences"):
        ParallelText(corpus.splits.test, more_references=[["one"]])
    run.config.unlink()
    run.create(RunFolder(trained).system(), corpus.description, corpus.test.rows())
    assert own_test_text(run).references == corpus.test.references
    assert own_test_text(run).checksum == corpus.test.checksum


def test_a_run_of_an_earlier_version_keeps_its_text(run):
    """It is normalised: its scores are known by it, and the run is resumed with the text as it stands."""
    text = ParallelText(zip(SOURCES, FIRST, strict=True), more_references=[SECOND])
    kept = [tuple(map(normalise, row)) for row in zip(SOURCES, FIRST, SECOND, strict=True)]
    run.test.write_bytes("".join("\t".join(row) + "\n" for row in kept).encode())
    run.config.write_text(json.dumps({**json.loads(run.config.read_text()), "corpus": own(run)}))
    earlier = own_test_text(run)
    assert earlier.rows() == kept and earlier.checksum != text.checksum
    scores = {"test": {"text_checksum": earlier.checksum, "sentences": len(kept)}}
    assert left_to_score({"test": earlier}, scores, ()) == left_to_score({"test": text}, scores, ()) == {}
    # Those of a part of it, without pairs that are too long, are not known one by one.
    scores["test"]["sentences"] -= 1
    assert left_to_score({"test": text}, scores, ()) == {"test": text}
    assert other_text(own(run), {**own(run), "test": ["u"]}, run.test, text.rows()) == []


def test_translations_of_an_earlier_version_are_scored_again(run, corpus, files, monkeypatch):
    """On the references as they stand, and nothing is translated."""
    # sacrebleu's command line takes a blank line for a reference.
    further = [one or "nothing" for one in OWN]
    [translations, *normalised] = [list(map(normalise, lines)) for lines in (OWN, FIRST, further)]
    write(files[2], further)
    earlier = ParallelText(zip(SOURCES, normalised[0], strict=True), more_references=normalised[1:])
    score_run(run.path, load_translator(run.path), earlier, "news")
    translate_as(run, translations, "news")
    score_again(run.path, "news", "13a", False)
    before = run.read_scores()["news"]
    wanted = sacrebleu(run.hypotheses("news"), *files[1:])
    assert stored(run) != wanted and before["text_checksum"] == earlier.checksum
    monkeypatch.setattr(Translator, "translate", None)
    run.picture("curves").parent.mkdir()
    run.picture("curves").touch()
    tests = more_tests(argparse.Namespace(more_test=[["news", *map(str, files)]], reverse=False))
    for _ in range(2):
        score_and_draw(run.path, corpus.test, keep_scores=True, tests=tests)
        assert stored(run) == wanted and run.has_translations("news")
    after, changed = run.read_scores()["news"], ("text", "text_checksum", "translations_checksum")
    assert {**after, **dict.fromkeys(changed)} == {**before, **dict.fromkeys(changed)}
    assert after["text_checksum"] == tests["news"].checksum


def own(run):
    return {"train": ["a"], "valid": ["b"], "test": ["c"], "reverse": False}


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

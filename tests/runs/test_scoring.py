"""Scores of a test set, tables and pictures."""

import functools
import json
import re
import shutil

import numpy as np
import pytest
import sacrebleu

from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.evaluation.alignment_scores import alignment_scores
from keras_attn_zoo.evaluation.alignments import read_alignments
from keras_attn_zoo.runs import finished_run
from keras_attn_zoo.runs.curves import curves
from keras_attn_zoo.runs.finished_run import draw_run
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.scoring import score_run, training_summary
from keras_attn_zoo.studies.table import read_results, results_table
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.training.run_log import read_log, read_steps

score_again = functools.partial(finished_run.score_and_draw, pictures=False)


@pytest.mark.every_backend
@pytest.mark.slow_compiled
def test_scores_are_those_of_the_written_files(trained, corpus):
    run = RunFolder(trained)
    scores = run.read_scores()["test"]
    hypotheses = run.hypotheses("test").read_text(encoding="utf-8").splitlines()
    references = [target for _, target in corpus.splits.test]
    assert len(hypotheses) == len(references)
    bleu = sacrebleu.corpus_bleu(hypotheses, [references])
    assert np.isclose(scores["text"]["metrics"]["bleu"]["score"], bleu.score)
    links = read_alignments(run.alignment("test"))
    assert np.isclose(scores["alignment"]["aer"], alignment_scores(links, [gold for *_, gold in corpus.gold]).aer)
    assert np.isclose(scores["perplexity"], np.exp(scores["loss"]), rtol=1e-5)
    assert scores["tokens"] == sum(len(reference.split()) + 1 for reference in references)
    # Of which every score is a ratio.
    sums = json.loads(run.sentence_sums("test").read_text("utf-8"))
    assert list(sums) == ["loss", "accuracy", "free_running_loss", "aer_without_full_stop"]
    assert sums["loss"][1] == sums["accuracy"][1] == [len(reference.split()) + 1 for reference in references]
    ratios = {key: sum(above) / sum(below) for key, (above, below) in sums.items()}
    known = {**scores, **scores["alignment"], "free_running_loss": scores["free_running"]["loss"]}
    wanted = {key: known[key] for key in ratios}
    assert ratios == pytest.approx(wanted, rel=1e-6)


def test_sentences_with_an_empty_side_are_scored_and_counted(run, corpus, caplog):
    (source, target), *others = corpus.splits.test
    text = ParallelText([(source, ""), ("", target), *others])
    assert score_run(run.path, load_translator(run.path), text, name="gaps")["sentences"] == len(text.pairs)
    assert f"2 of {len(text.pairs)} gaps sentences have an empty side" in caplog.text


@pytest.mark.long
def test_translations_that_are_not_those_of_the_scores_are_made_again(run, corpus):
    """Lost ones, and others, as a crash between both files leaves them; nothing is done for those that fit."""
    score_again(run.path, corpus.test)
    before, scores = run.hypotheses("test").read_text("utf-8"), run.scores.read_bytes()
    score_again(run.path, corpus.test, keep_scores=True)
    assert run.scores.read_bytes() == scores
    for harm in (lambda path: path.write_text(before.replace("\n", " too\n", 1), "utf-8"), lambda path: path.unlink()):
        harm(run.hypotheses("test"))
        score_again(run.path, corpus.test, keep_scores=True)
        assert run.hypotheses("test").read_text("utf-8") == before and run.has_translations("test")


@pytest.mark.long
def test_references_are_scored_once_for_several_searches_wherever_the_process_was_killed(trained, corpus, tmp_path):
    text, found = ParallelText(corpus.splits.valid[:4]), []
    for name, killed in (("whole", False), ("killed", True)):
        run = RunFolder(shutil.copytree(trained, tmp_path / name))
        for tests in ({"one": text},) * killed + ({"one": text, "two": text},):
            score_again(run.path, corpus.test, keep_scores=True, tests=tests)
        scores = run.read_scores()
        assert scores["one"]["loss"] == scores["two"]["loss"] and scores["two"]["free_running"]
        found.append({path.relative_to(run.path) for path in run.path.rglob("*")})
    assert found[0] == found[1] and not run.sentence_sums("two").exists()


def test_scores_of_a_run_that_was_then_trained_further_are_made_again(run, corpus):
    score_again(run.path, corpus.test)
    whole = run.read_scores()["test"]
    run.add_scores("test", {**whole, "perplexity": 1.0, "training": {**whole["training"], "steps": 6}})
    score_again(run.path, corpus.test, keep_scores=True)
    again = run.read_scores()["test"]
    assert (again["perplexity"], again["training"]["steps"]) == (whole["perplexity"], whole["training"]["steps"])


def test_a_table_ranked_by_a_score(trained, tmp_path):
    """The last have none, or an infinite one, which is stored as null."""
    folders = [shutil.copytree(trained, tmp_path / name) for name in "abcd"]
    for folder, value in zip(folders, (9.0, None, 3.0, "null"), strict=True):
        scores = {name: one for name, one in RunFolder(folder).read_scores()["test"].items() if name != "free_running"}
        own = {} if value is None else {"free_running": {"perplexity": None if value == "null" else value}}
        RunFolder(folder).add_scores("test", {**scores, **own})

    def rows(**arguments):
        return [name for name, *_ in results_table(read_results(folders), **arguments).rows]

    assert rows() == ["a", "b", "c", "d"]
    assert rows(rank_by=lambda scores: scores["free_running"]["perplexity"]) == ["c", "a", "b", "d"]


def test_curves_of_folders_of_one_name(trained, tmp_path):
    other = shutil.copytree(trained, tmp_path / "other" / trained.name)
    assert list(curves([trained, other])) == [f"{trained.parent.name}/{trained.name}", f"other/{trained.name}"]
    assert list(curves([trained])) == [trained.name]


def test_pictures_stand_in_the_folder_and_empty_sentences_are_not_drawn(run, corpus):
    blank = [("", ""), ("rot haus", ""), (" ", "house")]
    paths = draw_run(run.path, load_translator(run.path), ParallelText([*blank, *corpus.splits.test[:2]]))
    assert [path.name for path in paths] == ["attention-1.png", "attention-2.png", "curves.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") and path.parent == run.path / "pictures" for path in paths)


def test_a_number_that_no_round_has_is_named_with_those_it_has(trained):
    with pytest.raises(UserError, match=r"has no val_lossy: choose one of .*val_loss"):
        curves([trained], "val_lossy")
    # What is logged for each step alone, unlike the shape, which is no number.
    ((steps, values),) = curves([trained], "learning_rate").values()
    assert steps == list(range(1, 13)) and all(value > 0 for value in values)
    with pytest.raises(UserError, match=r"has no shape: choose one of .*learning_rate"):
        curves([trained], "shape")
    assert curves([trained], "loss")[trained.name][0] == [3, 6, 9, 12]


@pytest.mark.parametrize("name", ["environment.json", "log.jsonl", "scores.json"])
def test_a_run_folder_that_is_damaged_is_scored_wholly_or_not_at_all(run, corpus, name):
    (run.path / name).write_text("{}}\n")
    before = sorted(run.path.rglob("*"))
    with pytest.raises(UserError, match=re.escape(name)):
        score_run(run.path, load_translator(run.path), ParallelText(corpus.splits.test), name="other")
    assert sorted(run.path.rglob("*")) == before


def test_table_and_curves_come_from_the_folder(trained):
    table = results_table(read_results([trained]), paper={"tiny": {"BLEU": "17.75"}}).markdown()
    scores = RunFolder(trained).read_scores()["test"]
    assert f" {scores['free_running']['perplexity']:.2f} |" in table
    row = next(line for line in table.splitlines() if line.startswith("| tiny"))
    assert f"{scores['text']['metrics']['bleu']['score']:.1f} (paper: 17.75)" in row
    assert f"{100 * scores['alignment']['aer']:.1f}" in row
    assert scores["text"]["metrics"]["bleu"]["signature"] in table
    ((name, (steps, values)),) = curves([trained]).items()
    assert name == "tiny" and steps == [3, 6, 9, 12] and values[-1] == read_log(trained / "log.jsonl")[-1]["val_loss"]


def test_training_summary_is_that_of_the_log(trained):
    steps = read_steps(trained / "log.jsonl")
    summary = training_summary(RunFolder(trained))
    assert summary["steps"] == 12 and summary["rounds"] == 4
    assert np.isclose(summary["seconds"], sum(line["seconds"] for line in steps))
    first, *rest = (line["seconds"] for line in steps)
    assert np.isclose(summary["compilation_seconds"], max(0, first - np.median(rest)))

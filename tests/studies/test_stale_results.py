"""Scores and times that say nothing of the runs beside them, or of these runs as they are now."""

import json

import pytest

from keras_attn_zoo.runs.curves import curves_over_top_k, titles
from keras_attn_zoo.runs.examples import best_translations
from keras_attn_zoo.runs.score_data import are_scores
from keras_attn_zoo.studies.comparison import Recipe, Run
from keras_attn_zoo.studies.earlier_results import comparable
from keras_attn_zoo.studies.measures import Scored, bleu_key, measure, number
from keras_attn_zoo.studies.paper_tables import Line
from keras_attn_zoo.studies.result_files import over_seeds, write_results
from keras_attn_zoo.studies.table import read_results
from keras_attn_zoo.support.errors import UserError
from tests.made_runs import REFERENCES, WRONG, make_run
from tests.studies.test_paper_tables import ENTRIES, recipe_of, written


def test_a_score_from_before_the_run_was_trained_further_is_left_out(tmp_path, caplog):
    run = make_run(tmp_path / "base", 30.0, names=("test", "news"))
    table = [Line("BLEU", split="news", measure="BLEU")], [Line("Base", entry="base")]
    assert written(tmp_path, recipe_of(*table))[0] == {"Base": ["30.0"]}
    assert comparable([run.path], [run.path], "news") == [run.path]
    scores = run.read_scores()["test"]
    run.add_scores("test", {**scores, "training": {**scores["training"], "steps": 41}})
    assert written(tmp_path, recipe_of(*table))[0] == {"Base": [""]}
    assert comparable([run.path], [run.path], "news") == [] and "trained further since" in caplog.text
    assert comparable([run.path], [run.path], "test") == [run.path]


def test_results_name_the_texts_if_there_are_several(tmp_path):
    runs = []
    for name, text in (("base", "one"), ("new", "two")):
        run = make_run(tmp_path / name)
        config = json.loads(run.config.read_text())
        description = {"train": [f"{text}.de", f"{text}.en"], "reverse": False, "split_seed": 0}
        run.config.write_text(json.dumps({**config, "corpus": description}))
        runs.append(Run(name, name, run.system(), {}))
    recipe = Recipe("A paper", ENTRIES, ("base",))
    said = "Trained on different texts: one.de, one.en (base); two.de, two.en (new)."
    for some in (runs, runs[:1]):
        results = read_results([tmp_path / one.name for one in some])
        assert (said in write_results(tmp_path, recipe, some, results)) == (len(some) == 2)


def test_examples_of_another_text_of_as_many_sentences_are_refused(tmp_path):
    run = make_run(tmp_path / "base")
    assert len(best_translations(run)) == len(REFERENCES)
    run.test.write_text("".join(f"quelle\t{line}\n" for line in WRONG), encoding="utf-8")
    with pytest.raises(UserError, match="was scored on another text than its own"):
        best_translations(run)


def test_bleu_by_steps_is_of_the_tokeniser_of_the_scores(tmp_path):
    run = make_run(tmp_path / "base")
    run.log.write_text(json.dumps({"round": 1, "step": 3, bleu_key(50): 41.0, bleu_key(50, "char", True): 61.0}))
    scores = run.read_scores()["test"]
    found = []
    for how in ({}, {"tokenize": "char", "lowercase": True}, {"tokenize": "char"}):
        one = Scored(run, "test", {**scores, "text": {**scores["text"], **how}})
        found.append(number("BLEU after 50% of the steps", one))
    assert found == [41.0, 61.0, None]


@pytest.mark.parametrize("key", ["environment", "precision"])
def test_times_of_two_backends_or_precisions_have_no_ratio(tmp_path, key):
    run = make_run(tmp_path / "base")
    scores = run.read_scores()["test"]
    name = "training time of a step, relative"
    assert number(name, Scored(run, "test", scores, scores)) == 1.0 and measure(name).unit == "x"
    other = {**scores, "training": {**scores["training"], key: "another"}}
    assert number(name, Scored(run, "test", scores, other)) is None


def test_the_name_of_another_text_is_no_number_of_positions(tmp_path):
    run = make_run(tmp_path / "base", names=("test-k6", "test-kde", "test-kde-k3"))
    for name, count in (("test-k6", 6), ("test-kde", 4), ("test-kde-k3", 3)):
        run.add_scores(name, {**run.read_scores()[name], "search_top_k": count})
    curves, ticks = curves_over_top_k([run.path], "test", lambda scores: scores["search_top_k"])
    assert list(ticks.values()) == [6] and len(curves) == 1


def test_a_folder_that_is_given_twice_is_named():
    assert titles(["runs/a", "runs/b"]) == ["a", "b"]
    assert titles([]) == [] and titles(["/one/a", "/one/a/a", "/a"]) == ["one/a", "a/a", "/a"]
    with pytest.raises(UserError, match="runs/a was given twice"):
        titles(["runs/a", "runs/b", "runs/a"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("search_top_k", 10**400), ("perplexity", 1e308), ("free_running", {"loss": "4.4"})),
        *(("text", {"metrics": {}}), ("sentences", -7), ("translation_seconds", -1.5), ("alignment", {"aer": -0.1})),
    ],
)
def test_scores_that_nothing_can_be_computed_of_are_damaged(tmp_path, key, value):
    run = make_run(tmp_path / "base")
    every = run.read_scores()
    assert are_scores(every)
    assert not are_scores({"test": {**every["test"], key: value}})


def test_seeds_of_another_search_have_a_mean_of_their_own(tmp_path):
    runs = [make_run(tmp_path / name) for name in ("base", "base-seed=2", "base-seed=3")]
    for run in runs:
        config = json.loads(run.config.read_text())
        config["system"]["name"] = "base"
        run.config.write_text(json.dumps(config))
    runs[2].add_scores("test", {**runs[2].read_scores()["test"], "beams": 12})
    known = {run.path.name: Run(run.path.name, "base", run.system(), {}) for run in runs}
    groups = over_seeds(known, read_results([run.path for run in runs]))
    assert {name: len(group) for name, group in groups.items()} == {"base": 2, "base-seed=3": 1}

"""Runs of earlier calls in the results of a later one, which does not know what those calls said."""

import dataclasses
import json

import pytest

from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Entry, Recipe, expand
from keras_attn_zoo.studies.earlier_results import merged_runs, names_of
from tests.made_runs import make_run

ENTRIES = {
    "rnn-own": Entry(System("rnn-own", {})),
    "plain": Entry(System("plain", {}, body="transformer"), baseline="rnn-own"),
}
RECIPE = Recipe("A paper", ENTRIES, ("rnn-own",))


def made(out, runs):
    """Their folders, and their records as an earlier version wrote them, without the baseline."""
    for run in runs:
        make_run(out / run.name, system=run.system)
    records = [
        {"run": run.name, "system": run.entry, "settings": {**run.point, "seed": run.system.seed}} for run in runs
    ]
    (out / "results.json").write_text(json.dumps({"title": "A paper", "runs": records}))


@pytest.mark.parametrize(
    ("settings", "grid", "seeds"),
    [
        ({}, {}, []),
        ({}, {"dropout": [0.1, 0.25], "learning_rate": [1e-05, 1.0]}, [1, 2, 10]),
        ({"seed": 3}, {"dropout": [0.1, 0.3]}, []),
        # Of one of the two.
        ({"hidden_dim": 6}, {"num_heads": [2, 4]}, []),
        # What the system has, or what is valid, only with the settings of the call.
        ({"output": "latent"}, {"search_top_k": [1, 2]}, [1, 2]),
        ({"cross_attention": "local_p"}, {"cross_attention.window": [3, 5]}, []),
        ({"model_type": "unigram"}, {"subword_sampling_nbest": [2, 3]}, []),
        ({"joint": True}, {"tie_embeddings": ["all", "target"]}, []),
        ({"patience": None}, {"budget": ["40steps", None]}, []),
        # Values that the name has a checksum of, or that a run resolves.
        ({}, {"word_vectors_source": ["a/b.txt", "a b.txt"]}, []),
        ({}, {"cross_attention": [{"attention": "gaussian", "sigma": 2.0}, "multi_head"]}, []),
        ({"dropout": 0.3}, {"precision": ["auto", "bfloat16"]}, []),
    ],
)
def test_runs_are_those_that_were_trained(tmp_path, caplog, settings, grid, seeds):
    """From records, and from the names of folders alone."""
    runs = expand(ENTRIES, settings, grid, seeds)
    made(tmp_path, runs)
    assert merged_runs([], tmp_path, RECIPE) == runs
    (tmp_path / "results.json").unlink()
    names = names_of(tmp_path, ENTRIES)
    assert sorted(names) == sorted(run.name for run in runs)
    assert merged_runs([], tmp_path, RECIPE, names) == sorted(runs, key=lambda run: names.index(run.name))
    assert not caplog.records


def test_a_baseline_of_the_results_stays_unless_another_system_is_the_baseline(tmp_path):
    """Nothing else may tell with which seed the call trained it."""
    other = dataclasses.replace(ENTRIES["rnn-own"], system=System("rnn-own", {}, seed=7))
    recipe = dataclasses.replace(RECIPE, entries={**ENTRIES, "rnn-own": other, "third": other})
    runs = expand({"rnn-own": other, "plain": ENTRIES["plain"]}, {}, {"dropout": [0.1]})
    made(tmp_path, runs)
    content = json.loads((tmp_path / "results.json").read_text())
    for system, baseline, expected in (
        ("rnn-own", "rnn-own-dropout=0.1", "rnn-own-dropout=0.1"),
        ("third", "rnn-own-dropout=0.1", "rnn-own-dropout=0.1-seed=1"),
        ("rnn-own", "gone", "rnn-own-dropout=0.1-seed=1"),
        ("rnn-own", ["rnn-own"], "rnn-own-dropout=0.1-seed=1"),
    ):
        content["runs"][1] |= {"baseline_system": system, "baseline": baseline}
        (tmp_path / "results.json").write_text(json.dumps(content))
        assert [run.baseline for run in merged_runs([], tmp_path, recipe)] == [None, expected]


def test_a_baseline_without_the_argument_of_a_grid_has_one_run_for_all_its_values(tmp_path):
    entries = {"bahdanau": Entry(SYSTEMS["bahdanau"], baseline="uniform"), "uniform": Entry(SYSTEMS["uniform"])}
    runs = expand(entries, {}, {"cross_attention.units": [8, 16], "learning_rate": [0.01]})
    made(tmp_path, runs)
    found = merged_runs([], tmp_path, Recipe("A paper", entries, ("bahdanau",)))
    assert {one.name: one.baseline for one in found} == {
        "bahdanau-cross_attention.units=8-learning_rate=0.01": "uniform-learning_rate=0.01",
        "bahdanau-cross_attention.units=16-learning_rate=0.01": "uniform-learning_rate=0.01",
        "uniform-learning_rate=0.01": None,
    }


def test_names_of_scored_runs_are_in_order(tmp_path):
    for name in (
        "b",
        "a-seed=10",
        "a-seed=2",
        "a-dropout=0.3",
        "a-dropout=0.1-seed=2",
        "a-dropout=0.1",
        "a",
        "c",
        "a-b",
    ):
        make_run(tmp_path / name)
    make_run(tmp_path / "b-seed=2").scores.unlink()
    (tmp_path / "a-seed=3").mkdir()
    first = ["a", "a-seed=2", "a-seed=10", "a-dropout=0.1", "a-dropout=0.1-seed=2", "a-dropout=0.3"]
    assert names_of(tmp_path, ["b", "a"]) == ["b", *first]
    assert names_of(tmp_path / "nowhere", ["a"]) == []

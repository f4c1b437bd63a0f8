"""Which runs a comparison has, and what their folders are called."""

import dataclasses
import re

import pytest

from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Entry, expand, parse_grid, run_name
from keras_attn_zoo.support.errors import UserError
from tests.tiny_run import TINY

PLAIN = System("plain", {"width": 8, "num_heads": 2, "ffn_dim": 8}, TINY.data, body="transformer")
RNN = dataclasses.replace(TINY, name="rnn", seed=1)
ENTRIES = {"rnn": Entry(RNN), "plain": Entry(PLAIN, baseline="rnn")}


def test_without_seeds_and_grid_a_run_is_called_as_its_system():
    runs = expand(ENTRIES, {"dropout": 0.3, "hidden_dim": 6})
    assert [(run.name, run.entry, run.baseline, run.point) for run in runs] == [
        ("rnn", "rnn", None, {}),
        ("plain", "plain", "rnn", {}),
    ]
    assert [run.system.sizes["dropout"] for run in runs] == [0.3, 0.3]


def test_every_combination_has_one_run_and_is_compared_with_the_same_one_of_its_baseline():
    runs = expand(ENTRIES, {}, {"num_heads": [1, 2], "dropout": [0.1, 0.2]}, [1, 2, 1])
    found = {run.name: run.baseline for run in runs}
    of_rnn = [f"rnn-dropout={rate}{seed}" for rate in (0.1, 0.2) for seed in ("", "-seed=2")]
    # The RNN has no heads, so it has one run for both numbers of them.
    expected = dict.fromkeys(of_rnn)
    for rate in (0.1, 0.2):
        for heads in (1, 2):
            for seed in ("", "-seed=2"):
                expected[f"plain-dropout={rate}-num_heads={heads}{seed}"] = f"rnn-dropout={rate}{seed}"
    assert found == expected
    for run in runs:
        assert run.system.seed == (2 if run.name.endswith("-seed=2") else 1)
        assert run.system.sizes["dropout"] == run.point["dropout"]
        assert f"dropout={run.system.sizes['dropout']}" in run.name
        if run.entry == "plain":
            assert f"num_heads={run.system.sizes['num_heads']}" in run.name


def test_a_baseline_that_is_not_trained_has_the_name_that_it_would_have():
    (run,) = expand({"plain": Entry(PLAIN, baseline="other")}, {}, {"dropout": [0.5]}, [3])
    assert run.baseline == "other-dropout=0.5-seed=3"


def test_arguments_of_a_mechanism_are_settings_of_the_systems_whose_mechanism_has_them():
    subtracting = PLAIN.override(cross_attention="weight_subtraction", encoder_layers=1, decoder_layers=1)
    several = PLAIN.override(cross_attention=["weight_subtraction", {"attention": "weight_subtraction"}])
    entries = {"plain": Entry(PLAIN), "subtracting": Entry(subtracting), "several": Entry(several)}
    runs = expand(entries, {}, parse_grid(["cross_attention.subtraction=0.5,2"]))
    described = {"attention": "weight_subtraction", "subtraction": 0.5}
    assert [run.name for run in runs] == [
        "plain",
        "subtracting-cross_attention.subtraction=0.5",
        "subtracting-cross_attention.subtraction=2",
        "several-cross_attention.subtraction=0.5",
        "several-cross_attention.subtraction=2",
    ]
    assert runs[0].system == PLAIN
    assert runs[1].system.backbone["cross_attention"] == described
    assert runs[3].system.backbone["cross_attention"] == [described, described]
    with pytest.raises(UserError, match=r"the system plain has no setting 'cross_attention\.subtraction'"):
        expand({"plain": Entry(PLAIN)}, {"cross_attention.subtraction": 1})


@pytest.mark.parametrize(
    ("settings", "grid", "seeds", "text"),
    [
        ({}, {"num_heads": [1]}, [], "the system rnn has no setting 'num_heads'"),
        ({"num_heads": 1}, {}, [1, 2], "the system rnn has no setting 'num_heads'"),
        ({"dropout": 0.1}, {"dropout": [0.2]}, [], "dropout was given twice"),
        ({"budget": "9steps"}, {"epochs": [1.0, 2.0]}, [], "a budget or after epochs: give one of them"),
        ({"epochs": 2.0}, {"budget": ["9steps"]}, [], "a budget or after epochs: give one of them"),
        ({}, {"budget": ["9steps"], "epochs": [2.0]}, [], "a budget or after epochs: give one of them"),
        ({"seed": 2}, {}, [1], "--seeds gives the seeds"),
        ({}, {"seed": [2]}, [], "--seeds gives the seeds"),
        ({}, {"max_words": [0]}, [], "rnn: the setting max_words must be"),
    ],
)
def test_what_cannot_be_compared(settings, grid, seeds, text):
    with pytest.raises(UserError, match=text):
        expand({"rnn": Entry(RNN)}, settings, grid, seeds)


@pytest.mark.parametrize(
    ("settings", "grid", "patience"),
    [
        ({}, {}, [5]),
        ({"budget": "9steps"}, {}, [None]),
        ({"budget": "9steps", "patience": 2}, {}, [2]),
        ({"budget": "9steps"}, {"patience": [1, None]}, [1, None]),
        ({}, {"budget": ["9steps", "5steps"]}, [None, None]),
        ({"epochs": 2.0}, {}, [5]),
        ({"budget": None}, {}, [5]),
    ],
)
def test_a_budget_of_a_comparison_is_spent_whole(settings, grid, patience):
    """Unless a patience is asked for: otherwise runs would differ in length."""
    runs = expand({"rnn": Entry(RNN.override(patience=5))}, settings, grid)
    assert [run.system.training.patience for run in runs] == patience


@pytest.mark.parametrize("grid", [{}, {"epochs": [2.0]}], ids=["settings", "grid"])
def test_epochs_take_the_place_of_the_budget_of_a_system(grid):
    """That of a scale, or of a paper, which would go before them."""
    systems = {"rnn": Entry(RNN.override(budget="9steps", epochs=5.0))}
    (run,) = expand(systems, {} if grid else {"epochs": 2.0}, grid)
    assert (run.system.training.budget, run.system.training.epochs) == (None, 2.0)
    assert expand(systems, {"dropout": 0.3})[0].system.training.budget == "9steps"


def test_names_of_folders_are_stable_and_tell_values_apart():
    """A name is what a stored run is found by: those below may never change."""
    assert run_name("a", {}) == "a"
    assert run_name("a", {"seed": 2, "learning_rate": 5e-4, "joint": True, "clip_norm": None}) == (
        "a-clip_norm=none-joint=true-learning_rate=0.0005-seed=2"
    )
    assert run_name("a", {"learning_rate": 1e-5, "epochs": 3.0}) == "a-epochs=3-learning_rate=1e-05"
    described = [{"attention": "energy_accumulation", "window": size} for size in (3, 5)]
    names = [run_name("a", {"cross_attention": one}) for one in (*described, "x/y", "x y")]
    assert len(set(names)) == 4
    assert all(re.fullmatch(r"[\w.=+-]{1,100}", name, re.ASCII) for name in names)
    assert names[2] == "a-cross_attention=x_y-bd3c90"


def test_a_baseline_of_an_earlier_call_has_the_settings_that_it_knows():
    """Of the grid, it has none: the run that is compared with it has its plain name."""
    entries = {"plain": Entry(PLAIN, baseline="rnn")}
    for baselines, wanted in ((None, "rnn-num_heads=1"), (ENTRIES, "rnn")):
        (run,) = expand(entries, {}, {"num_heads": [1]}, baselines=baselines)
        assert run.baseline == wanted


def test_values_of_a_grid_that_python_takes_for_equal():
    grid = parse_grid(["cross_attention.subtraction=1,True,none,None,null,1"])
    assert [str(value) for value in grid["cross_attention.subtraction"]] == ["1", "True", "None"]
    entries = {"plain": Entry(PLAIN.override(cross_attention="weight_subtraction"))}
    names = [run.name for run in expand(entries, {}, grid)]
    assert names == [f"plain-cross_attention.subtraction={one}" for one in ("1", "true", "none")]
    with pytest.raises(UserError, match=r"the same name, plain-cross_attention\.subtraction=true: leave out one"):
        expand(entries, {}, {"cross_attention.subtraction": [True, "true"]})


def test_a_grid_as_people_type_it():
    mechanisms = 'cross_attention={"attention": "multi_head", "normalizer": "sparsemax"},multi_head'
    assert parse_grid(["learning_rate=1e-3,5e-4,0.001", "clip_norm=none,1", mechanisms]) == {
        "learning_rate": [0.001, 0.0005],
        "clip_norm": [None, 1.0],
        "cross_attention": [{"attention": "multi_head", "normalizer": "sparsemax"}, "multi_head"],
    }
    for items, text in (
        (["dropout"], "--grid takes NAME=VALUE,VALUE; received 'dropout'"),
        (["=1,2"], "--grid takes NAME=VALUE,VALUE; received '=1,2'"),
        (["dropout=0.1", "dropout=0.2"], "--grid has 'dropout' twice"),
        (["dropout=0.1,,0.2"], "the setting dropout must be"),
        (["droput=0.1"], "did you mean dropout"),
    ):
        with pytest.raises(UserError, match=text):
            parse_grid(items)

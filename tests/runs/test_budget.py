"""Training ends when its budget is spent, also if it was resumed."""

import contextlib
import json
import types

import numpy as np
import pytest

from keras_attn_zoo.runs.budget import Budget
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.scoring import training_summary
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.training import run_log
from keras_attn_zoo.training.budget_callback import SpentBudget
from keras_attn_zoo.training.run_log import clock_of, read_log, read_steps
from tests.tiny_run import TINY, interrupted_after


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("40000steps", "40000steps"),
        ("1 step", "1steps"),
        ("20Mtokens", "20000000tokens"),
        ("1.5 ktokens", "1500tokens"),
        ("30min", "30min"),
        ("0.5min", "0.5min"),
        ("1.5h", "90min"),
        ("5minutes", "5min"),
        ("2 hours", "120min"),
        # Binary fractions are not exact.
        ("16.1ksteps", "16100steps"),
        ("1.001ksteps", "1001steps"),
        ("4.35Mtokens", "4350000tokens"),
        ("0.07h", "4.2min"),
    ],
)
def test_budgets_as_people_type_them(typed, value):
    assert Budget().parse(typed) == value
    assert Budget().check(value) == value


@pytest.mark.parametrize("typed", ["", "40000", "steps", "0steps", "-1steps", "1.5steps", "2kmin", "1e5steps", "3days"])
def test_what_is_no_budget(typed):
    with pytest.raises(
        UserError, match=r"^the budget must be a number above 0 with its unit, such as .*, 2h; received"
    ):
        Budget().parse(typed, "the budget")


def steps_of(folder):
    """What the log has of each step, times aside."""
    steps = read_steps(folder / "log.jsonl")
    return [{key: value for key, value in step.items() if key not in ("seconds", "elapsed_seconds")} for step in steps]


def clock():
    """A clock by which the first step takes 90 seconds, of which 80 are compilation, and each of the others ten."""
    times = iter(x for step in range(100) for x in (200.0 * step, 200.0 * step + (10 if step else 90)))
    return types.SimpleNamespace(perf_counter=lambda: next(times))


def test_a_budget_ends_within_a_round_and_a_stopped_run_resumes_within_it(trained, corpus, tmp_path):
    """A round has three steps. Up to its end, the run is one without a budget; the last round is validated and kept."""
    system = TINY.override(budget="7steps", epochs=0.1)
    with interrupted_after(5):
        train_system(system, corpus, tmp_path)
    train_system(system, corpus, tmp_path, resume=True)
    assert steps_of(tmp_path) == steps_of(trained)[:7]
    rounds = [line for line in read_log(tmp_path / "log.jsonl") if "round" in line]
    assert [(line["round"], line["step"]) for line in rounds] == [(1, 3), (2, 6), (3, 7)]
    assert all("val_loss" in line for line in rounds)
    train_system(system, corpus, tmp_path, resume=True)
    assert len(steps_of(tmp_path)) == 7
    with pytest.raises(UserError, match=r"has been trained for 7 steps, which budget=5steps does not exceed"):
        train_system(system.override(budget="5steps"), corpus, tmp_path, resume=True)


def test_tokens_and_minutes_are_counted_as_the_log_has_them(trained, corpus, tmp_path, monkeypatch):
    tokens = np.cumsum([line["tokens"] for line in steps_of(trained)])
    run = train_system(TINY.override(budget=f"{int(tokens[3])}tokens"), corpus, tmp_path / "tokens")
    assert len(steps_of(run.path)) == 4
    monkeypatch.setattr(run_log, "time", clock())
    run = train_system(TINY.override(budget="0.75min"), corpus, tmp_path / "minutes")
    assert len(steps_of(run.path)) == 5


def logged(processes):
    """The lines of steps of one shape that several processes took, by the seconds of each step."""
    for seconds, elapsed in ((own, np.cumsum(own)) for own in processes):
        for one, so_far in zip(seconds, elapsed.tolist(), strict=True):
            yield {"step": 1, "shape": [8, 8], "seconds": one, "elapsed_seconds": so_far, "tokens": 5}


def test_a_budget_in_minutes_counts_no_compilation_however_often_it_was_resumed(tmp_path):
    log = tmp_path / "log.jsonl"
    steps = list(logged(4 * [[60.0] + 600 * [1.0]]))
    log.write_text("".join(json.dumps(line) + "\n" for line in steps))
    budget = SpentBudget(types.SimpleNamespace(path=log), "seconds", 3600)
    budget.on_train_begin()
    assert budget.spent() == pytest.approx(4 * 601)
    # A log of an earlier version does not say where a process began.
    of_earlier = [{name: value for name, value in line.items() if name != "elapsed_seconds"} for line in steps]
    assert clock_of(of_earlier).steady == pytest.approx(4 * 601 + 3 * 59)


def test_the_log_tells_where_a_run_was_resumed(corpus, tmp_path, monkeypatch):
    """Interrupted in the second round, it takes that again; by this clock, the first step of each process compiles."""
    system = TINY.override(budget="9steps", epochs=0.1)
    for interrupted in (True, False):
        monkeypatch.setattr(run_log, "time", clock())
        with interrupted_after(5) if interrupted else contextlib.nullcontext():
            train_system(system, corpus, tmp_path, resume=not interrupted)
    steps = read_steps(tmp_path / "log.jsonl")
    assert [step["step"] for step in steps if step["elapsed_seconds"] == step["seconds"]] == [1, 4]
    assert [step["elapsed_seconds"] for step in steps[:5]] == [90, 210, 410, 90, 210]
    assert (clock_of(steps).compilation, clock_of(steps).steady) == (160, 90)
    assert training_summary(RunFolder(tmp_path))["compilation_seconds"] == 160


@pytest.mark.long
def test_a_budget_that_ends_before_the_encoder_has_grown(corpus, tmp_path, monkeypatch):
    system = TINY.override(encoder_layers=2, pretraining_rounds=1)
    with pytest.raises(UserError, match="only 1 of its 2 layers after 1 rounds: train for longer"):
        train_system(system.override(budget="3steps"), corpus, tmp_path / "known")
    assert not (tmp_path / "known" / "config.json").exists()
    monkeypatch.setattr(run_log, "time", clock())
    unknown = system.override(budget="0.3min")
    for _ in range(2):
        with pytest.raises(UserError, match="only 1 of its 2 layers after 1 rounds: train for longer"):
            train_system(unknown, corpus, tmp_path / "unknown", resume=True)

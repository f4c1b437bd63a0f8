"""`attn-zoo time`, and `--time` of a comparison: what is timed, when, and what is said; the pass itself is a fake."""

import shutil

import pytest

from keras_attn_zoo.runs import timing_pass
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.support.errors import UserError
from tests.cli.test_recipe import recipe  # noqa: F401
from tests.made_runs import make_timing, table_rows


@pytest.fixture
def passes(monkeypatch):
    """A list of the names of the runs of each pass."""
    found = []

    def time_runs(folders, *options):
        found.append([folder.name for folder in folders])
        for folder in folders:
            make_timing(RunFolder(folder), systems=found[-1])

    monkeypatch.setattr(timing_pass, "time_runs", time_runs)
    return found


def test_runs_are_timed_and_their_times_printed(attn_zoo, trained, tmp_path, monkeypatch):
    """With a pass that is real but for the load of the machine."""
    runs = [RunFolder(shutil.copytree(trained, tmp_path / name)) for name in ("a", "b")]
    monkeypatch.setattr(timing_pass, "load_of_others", lambda seconds: 0.31)
    status, output, error = attn_zoo("time", *(run.path for run in runs))
    assert (status, output, error.count("\n")) == (2, "", 1)
    assert "use 31% of this machine" in error and "`attn-zoo time RUN ... --anyway`" in error
    status, output, _ = attn_zoo("time", *(run.path for run in runs), "--anyway", "--rounds", 1)
    heading, *rows = table_rows(output)
    assert status == 0 and heading[:3] == ["system", "step, ms", "relative"]
    assert [row[0] for row in rows] == ["a (beside other work)", "b (beside other work)"]
    assert [run.read_timing()["rounds"] for run in runs] == [1, 1]


def test_a_comparison_times_the_first_seed_of_each_system_once(recipe, passes, tmp_path):  # noqa: F811
    status, output, error, _ = recipe("--seeds", 1, 2, "--time")
    assert status == 0, error
    assert passes == [["rnn-seed=1", "plain"]] and "## Times" in output
    # Nothing has changed.
    assert recipe("--time", "--seeds", 1, 2)[0] == 0 and len(passes) == 1
    make_timing(RunFolder(tmp_path / "out" / "plain"), systems=passes[0], beside_other_work=True)
    assert recipe("--time", "--seeds", 1, 2, "--table-only")[0] == 0 and len(passes) == 2
    assert recipe("--time", "--systems", "plain", "--grid", "dropout=0.1,0.2")[0] == 0
    assert passes[2:] == [["plain-dropout=0.1", "plain-dropout=0.2"]]


def test_a_pass_that_is_refused_leaves_the_tables_and_is_said_at_the_end(recipe, monkeypatch, tmp_path):  # noqa: F811
    def refuse(folders):
        raise UserError("the machine is busy.")

    monkeypatch.setattr(timing_pass, "time_runs", refuse)
    status, output, error, _ = recipe("--time")
    assert status == 2 and "| plain" in output and "## Times" not in output
    assert "the runs were not timed: the machine is busy." in error.splitlines()[-1]


def test_what_was_not_trained_is_not_timed(recipe, passes):  # noqa: F811
    assert recipe("--time", failing={"rnn": UserError("it was NaN.")})[0] == 2
    assert passes == [["plain"]]


def test_a_time_is_of_one_device_and_of_what_is_trained(recipe, passes, monkeypatch):  # noqa: F811
    status, _, error, seen = recipe("--time", "--plan")
    assert (status, seen) == (2, {}) and "--plan trains nothing: leave out --time" in error
    monkeypatch.setattr("keras_attn_zoo.devices.current", lambda: object())
    status, _, error, seen = recipe("--time")
    assert (status, seen, passes) == (2, {}, []) and "--time times one device" in error

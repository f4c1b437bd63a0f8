"""Tests stay as quick as their budgets say; `python -m tests` fails where a folder takes more."""

import types
from pathlib import Path

import pytest

from tests import budgets
from tests.__main__ import BACKENDS, ONE_BACKEND

SECONDS = 480
CORES = 2


def test_budgets_add_up_to_eight_minutes_on_two_cores():
    """Start and collection of six processes, style and types take the rest."""
    assert sum(sum(budgets.BUDGETS[backend].values()) for backend in BACKENDS) <= 0.9 * SECONDS * CORES


def test_every_folder_has_one():
    folders = {path.parent.name for path in Path(__file__).parent.glob("*/test_*.py")}
    assert {*budgets.BUDGETS[ONE_BACKEND]} == {*folders, "*.py"}
    assert all({*of_backend} <= {*folders, "*.py"} for of_backend in budgets.BUDGETS.values())


@pytest.mark.parametrize(
    ("seconds", "kept", "status"), [(63.9, "1", 0), (64.1, "1", 1), (64.1, "", 0)], ids=["within", "over", "not kept"]
)
def test_a_folder_that_takes_more_than_twice_its_budget_and_a_minute_fails_the_run(seconds, kept, status, monkeypatch):
    monkeypatch.setenv(budgets.KEPT, kept)
    monkeypatch.setitem(budgets.BUDGETS, "jax", {"layers": 2})
    plugin, session = budgets.Budgets("jax"), types.SimpleNamespace(exitstatus=0, config=None)
    for share in (1.0, seconds - 1.0):
        properties = [[budgets.NAME, share]]
        plugin.pytest_runtest_logreport(
            types.SimpleNamespace(nodeid="tests/layers/test_a.py::test_b[c]", user_properties=properties)
        )
    plugin.pytest_sessionfinish(session)
    assert session.exitstatus == status
    line = "tests/layers took 64 s of a processor; its budget is 2 s (tests/budgets.py)"
    assert budgets.excess(plugin.spent, {"layers": 2}) == ([line] if seconds > 64 else [])

"""Budgets cover every folder of tests; `python -m tests` names a folder that takes more."""

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


@pytest.mark.parametrize("seconds", [63.9, 64.1])
def test_a_folder_that_takes_more_than_twice_its_budget_and_a_minute_is_named(seconds):
    plugin = budgets.Budgets("jax")
    for share in (1.0, seconds - 1.0):
        properties = [[budgets.NAME, share]]
        plugin.pytest_runtest_logreport(
            types.SimpleNamespace(nodeid="tests/layers/test_a.py::test_b[c]", user_properties=properties)
        )
    line = "tests/layers took 64 s of a processor; its budget is 2 s (tests/budgets.py)"
    assert budgets.excess(plugin.spent, {"layers": 2}) == ([line] if seconds > 64 else [])

"""What the tests of each folder may cost before every commit, in seconds of a processor.

These are what they took on a machine on which `python -m tests` takes nine minutes on two cores. A run names folders
that take more than `FACTOR` times as much, and `GRACE` seconds besides; it does not fail, since a slower processor, or
a busy one, needs as much. Who adds tests that need more makes others cheaper, or moves what a quicker test sees too to
the night (`slow`).
"""

import collections
import os

import pytest

FACTOR = 2.0
# For what a session sets up, whichever folder comes first, and for slower machines.
GRACE = 60.0
BUDGETS = {
    "jax": {
        **{"layers": 115, "runtime": 26, "kernels": 20, "decoding": 16, "training": 16, "matrix": 14, "devices": 10},
        **{"support": 2, "data": 1},
    },
    "tensorflow": {
        **{"layers": 65, "training": 25, "devices": 20, "matrix": 16, "decoding": 6, "kernels": 3, "support": 2},
        **{"data": 1, "runtime": 1},
    },
    "torch": {
        **{"cli": 75, "presets": 52, "layers": 40, "translators": 50, "runs": 65, "strangers": 20, "devices": 15},
        **{"*.py": 33, "unicode": 7, "viewing": 11, "bodies": 11, "evaluation": 10, "corpora": 9, "support": 9},
        **{"hostile": 6, "training": 6, "data": 5, "studies": 10, "checkpoints": 5, "matrix": 9, "earlier": 4},
        **{"runtime": 3, "decoding": 2, "kernels": 2, "onnx": 40, "site": 6},
    },
}
NAME = "processor seconds"
# Set where all tests run: `python -m tests`.
KEPT = "ATTN_ZOO_TESTS_BUDGETS"


def used():
    """Seconds of a processor that this process and those it has waited for have taken."""
    return sum(os.times()[:4])


def excess(spent, budgets):
    """A line for each folder that took more than its budget allows."""
    told = "tests/{} took {:.0f} s of a processor; its budget is {} s (tests/budgets.py)"
    allowed = {folder: budgets.get(folder, 3) for folder in spent}
    over = [folder for folder in spent if spent[folder] > FACTOR * allowed[folder] + GRACE]
    return [told.format(folder, spent[folder], allowed[folder]) for folder in over]


class Budgets:
    """A plugin of pytest that adds up what tests take; workers of pytest-xdist send it with their reports."""

    def __init__(self, backend):
        self.backend, self.spent, self.last = backend, collections.Counter(), used()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self):
        self.last = used()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item):
        report = yield
        now = used()
        if item.get_closest_marker("slow") is None:
            report.user_properties.append((NAME, now - self.last))
        self.last = now
        return report

    def pytest_runtest_logreport(self, report):
        parts = report.nodeid.split("::")[0].split("/")
        folder = parts[1] if len(parts) > 2 else "*.py"
        self.spent[folder] += sum(seconds for name, seconds in report.user_properties if name == NAME)

    def pytest_terminal_summary(self, terminalreporter):
        if os.environ.get(KEPT):
            parts = (f"{folder} {seconds:.0f}" for folder, seconds in self.spent.most_common())
            terminalreporter.section("seconds of a processor by folder")
            terminalreporter.write_line(", ".join(parts))
            for line in excess(self.spent, BUDGETS[self.backend]):
                terminalreporter.write_line(line, red=True)

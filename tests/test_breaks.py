"""Every break of `python -m tests.breaks` finds its place."""

import re

import pytest

from tests.breaks.__main__ import ROOT, what_to_run
from tests.breaks.places import PLACES


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.what)
def test_a_break_stands_in_one_place_and_changes_it(place):
    text = (ROOT / place.file).read_text()
    broken = place.broken(text)
    assert broken != text
    compile(broken, place.file, "exec")
    run = [path for paths in what_to_run(place.file) for path in paths if path.startswith("tests/")]
    assert run and all((ROOT / path).exists() for path in run)


def test_the_tests_in_the_table_of_breaks_are_there():
    rows = re.findall(r"`([\w/]+): (test_\w+)", (ROOT / "docs/results/breaks.md").read_text())
    assert len(rows) >= len(PLACES)
    for file, name in rows:
        assert f"def {name}(" in (ROOT / "tests" / f"{file}.py").read_text(), f"{file}: {name}"

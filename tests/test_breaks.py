"""Every break of `python -m tests.breaks` finds its place."""

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

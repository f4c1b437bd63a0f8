"""The hostile cases: every number gives one, and always the same one."""

import random

from tests.hostile.good_lines import good_lines
from tests.hostile.judging import Case
from tests.hostile.options import options, settings
from tests.hostile.texts import text

SEED = 1
# A weight for every category: of 12 cases, so many.
CATEGORIES = {options: 5, settings: 4, text: 3}
_ORDER = [make for make, count in CATEGORIES.items() for _ in range(count)]


def make_case(number):
    """The case of a number; below zero, a good command line before anything in it is made bad."""
    if number < 0:
        program, arguments = good_lines()[-number - 1]
        return Case("good", " ".join([program, *arguments[:3]]), list(arguments), program=program, expect="accept")
    return _ORDER[number % len(_ORDER)](random.Random(f"{SEED}:{number}"))

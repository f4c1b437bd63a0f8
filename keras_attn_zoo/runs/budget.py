"""The budget of a training run: so many steps, tokens or minutes, whatever the number of epochs."""

import dataclasses
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from keras_attn_zoo.support.setting_types import Setting

if TYPE_CHECKING:
    from keras_attn_zoo.data.batches import TranslationBatches

_WRITTEN = re.compile(r"(\d{1,15}(?:\.\d{1,3})?) ?([kM]?) ?(steps?|tokens?|min|minutes?|h|hours?)", re.ASCII)
_UNITS = {"s": "steps", "t": "tokens", "m": "min", "h": "min"}
_FACTORS = {"": 1, "k": 1_000, "M": 1_000_000}
# Bounds that catch mistyped numbers; the last is two years.
_MOST = {"steps": 1_000_000_000, "tokens": 10**15, "min": 1_000_000}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget(Setting):
    """A setting for a budget, such as `40000steps`, `20Mtokens`, `30min` or `2h`.

    Its value is a string: a number and one of `steps`, `tokens` and `min`.

    Example:
        >>> Budget().parse("20Mtokens"), Budget().parse("1.5h")
        ('20000000tokens', '90min')
    """

    def _values(self):
        return "a number above 0 with its unit, such as 40000steps, 40ksteps, 20Mtokens, 30min, 2h"

    def _fit(self, value):
        found = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
        if not found:
            return None
        number, unit = Decimal(found[1]) * _FACTORS[found[2]], _UNITS[found[3][0]]
        if unit == "min":
            if found[2]:
                return None
            number = round(number * (60 if found[3][0] == "h" else 1), 3)
        whole = number == int(number)
        if not 0 < number <= _MOST[unit] or not (whole or unit == "min"):
            return None
        written = str(int(number)) if whole else f"{number.normalize():f}"
        return f"{written}{unit}"


def amount(budget: str) -> tuple[float, str]:
    """Return the number and the unit, "steps", "tokens" or "min", of a value of a `Budget`.

    Example:
        >>> amount("40000steps")
        (40000.0, 'steps')
    """
    found = _WRITTEN.fullmatch(budget)
    assert found is not None
    return float(found[1]), found[3]


def planned_steps(training: Any, batches: "TranslationBatches") -> int | None:
    """Return how many steps a training will take at most; None if its budget is of time.

    A budget of tokens is converted by the mean number of target tokens in a batch.
    """
    if training.budget is None:
        return max(1, round(training.epochs * batches.batches_per_epoch / len(batches))) * len(batches)
    number, unit = amount(training.budget)
    if unit == "steps":
        return int(number)
    if unit == "tokens":
        # A sentence has an end token too.
        tokens = batches.corpus.tokens("target") + len(batches.corpus)
        return max(1, round(number * batches.batches_per_epoch / tokens))
    return None

"""A score of translations by the length of their sentences."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

from keras_attn_zoo.studies.sampled_scores import SampledScore, sampled_score
from keras_attn_zoo.support.errors import UserError

# How wide classes of length may be, in words, and how many of them a picture should have at least.
_WIDTHS, _FEWEST_CLASSES = (10, 5, 2, 1), 4
# A score of fewer sentences says nothing of a length.
LEAST_SENTENCES = 20


def length_classes(bounds: Sequence[int]) -> list[str]:
    """Return the names of the classes of length between bounds.

    Raises:
        UserError: the bounds are not positive and strictly increasing.

    Example:
        >>> length_classes([10, 20, 21])
        ['≤10', '11-20', '21', '>21']
    """
    if not bounds or any(b <= a for a, b in zip([0, *bounds], bounds, strict=False)):
        raise UserError(f"bounds must be positive and strictly increasing; received {' '.join(map(str, bounds))}.")
    between = [f"{low + 1}-{high}" if high > low + 1 else f"{high}" for low, high in itertools.pairwise(bounds)]
    return [f"≤{bounds[0]}", *between, f">{bounds[-1]}"]


def class_of(length: int, bounds: Sequence[int]) -> int:
    """Return the number of the class of a length.

    Example:
        >>> [class_of(length, [10, 20]) for length in (1, 10, 11, 20, 21)]
        [0, 0, 1, 1, 2]
    """
    return sum(length > bound for bound in bounds)


def joined_bounds(bounds: Sequence[int], texts: Sequence[Sequence[int]]) -> list[int]:
    """Return the bounds that leave no class with fewer than `LEAST_SENTENCES`, joining smaller ones with a neighbour.

    To leave them out would hide the longest sentences, for which such a picture is drawn.

    Args:
        bounds: the longest length of each class but the last.
        texts: the lengths of the sentences of each text, in words.

    Raises:
        UserError: a text has too few sentences for two classes.

    Example:
        >>> joined_bounds([5, 10, 15, 20], [[3] * 9 + [7] * 15 + [12] * 20 + [17] * 2])
        [10]
    """
    return _checked(_joined(bounds, texts))


def _joined(bounds, texts):
    """The same bounds; none if there is one class."""
    kept: list[int] = []

    def left(low, high=math.inf):
        return min(sum(low < length <= high for length in lengths) for lengths in texts)

    for bound in bounds:
        if left(kept[-1] if kept else -1, bound) >= LEAST_SENTENCES:
            kept.append(bound)
    # What is left over joins the class before.
    while kept and left(kept[-1]) < LEAST_SENTENCES:
        kept.pop()
    return kept


def _checked(bounds):
    if not bounds:
        raise UserError(
            f"there are no two classes of length with {LEAST_SENTENCES} sentences each: take a longer test text, or "
            "other bounds."
        )
    return bounds


def usual_bounds(texts: Sequence[Sequence[int]]) -> list[int]:
    """Return bounds of at most seven classes, each ten words wide as in Zeng, §4.6, or narrower for short sentences.

    Of the widths 10, 5, 2 and 1, the first is taken with which `joined_bounds` leaves at least four classes; if there
    is none, the first with which it leaves most.

    Args:
        texts: see `joined_bounds`.

    Raises:
        UserError: see `joined_bounds`.

    Example:
        >>> usual_bounds([[5, 15, 25, 35] * 20]), usual_bounds([[3, 4, 5, 6, 7] * 20])
        ([10, 20, 30], [3, 4, 5, 6])
    """
    every = (_joined([width * i for i in range(1, 7)], texts) for width in _WIDTHS)
    return _checked(max(every, key=lambda bounds: min(_FEWEST_CLASSES, len(bounds) + 1)))


def scores_by_length(
    hypotheses: Sequence[str],
    references: Sequence[str],
    lengths: Sequence[int],
    bounds: Sequence[int],
    metric: str = "bleu",
    more_references: Sequence[Sequence[str]] = (),
    **options: Any,
) -> list[SampledScore]:
    """Return the score of the sentences of each class of length; NaN for a class without any, or without references.

    Args:
        hypotheses, references: one for each sentence.
        lengths: of the sentences, in words.
        bounds: the longest length of each class but the last.
        metric: one of those of `score_text`.
        more_references: further lists of references.
        **options: `tokenize` and `lowercase` of `score_text`.
    """
    classes = [class_of(length, bounds) for length in lengths]
    scores = []
    for number in range(len(bounds) + 1):
        chosen = [i for i, one in enumerate(classes) if one == number]
        of_class = ([lines[i] for i in chosen] for lines in (hypotheses, references, *more_references))
        scores.append(sampled_score(*of_class, metric=metric, **options))
    return scores

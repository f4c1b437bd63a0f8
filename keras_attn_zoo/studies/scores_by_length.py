"""A score of translations by the length of their sentences."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from keras_attn_zoo.evaluation.text_scores import score_text
from keras_attn_zoo.support.errors import UserError

# How wide classes of length may be, in words, and how many of them a picture should have at least.
_WIDTHS, _FILLED_CLASSES = (10, 5, 2, 1), 4


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


def usual_bounds(lengths: Sequence[int]) -> list[int]:
    """Return bounds of seven classes, each ten words wide as in Zeng, §4.6, or narrower for short sentences.

    Of the widths 10, 5, 2 and 1, the first is taken with which at least four classes have one sentence in a hundred;
    if there is none, the first with which most classes have.

    Example:
        >>> usual_bounds([5, 15, 25, 35]), usual_bounds([3, 4, 5, 6, 7, 8, 9])
        ([10, 20, 30, 40, 50, 60], [2, 4, 6, 8, 10, 12])
    """

    def filled(bounds):
        sizes = Counter(class_of(length, bounds) for length in lengths)
        return min(_FILLED_CLASSES, sum(100 * size >= len(lengths) for size in sizes.values()))

    return max(([width * i for i in range(1, 7)] for width in _WIDTHS), key=filled)


def scores_by_length(
    hypotheses: Sequence[str],
    references: Sequence[str],
    lengths: Sequence[int],
    bounds: Sequence[int],
    metric: str = "bleu",
    more_references: Sequence[Sequence[str]] = (),
    **options: Any,
) -> list[float]:
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
        if not any(references[i].strip() for i in chosen):
            scores.append(math.nan)
            continue
        first, *more = ([lines[i] for i in chosen] for lines in (references, *more_references))
        of_class = score_text([hypotheses[i] for i in chosen], first, metric, more_references=more, **options)
        scores.append(of_class[metric].score)
    return scores

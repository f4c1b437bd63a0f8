"""A score of translations by the length of their sentences, and how far it is off by chance."""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keras_attn_zoo.evaluation.significance import SEED
from keras_attn_zoo.evaluation.text_scores import sentence_statistics
from keras_attn_zoo.evaluation.training_comparison import compare_trainings, resampled_scores
from keras_attn_zoo.support.errors import UserError

# How wide classes of length may be, in words, and how many of them a picture should have at least.
_WIDTHS, _FEWEST_CLASSES = (10, 5, 2, 1), 4
# A score of fewer sentences says nothing of a length.
LEAST_SENTENCES = 20
# How many texts are drawn of the sentences of a class, and how sure its interval is.
_SAMPLES, _CONFIDENCE = 1_000, 0.95


@dataclasses.dataclass(frozen=True)
class SampledScore:
    """The score of some sentences, and of texts that are drawn from them with replacement.

    Attributes:
        score: NaN if there are no references.
        drawn: `(samples,)`; those of two systems are of the same texts.
    """

    score: float
    drawn: NDArray


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
        if not any(references[i].strip() for i in chosen):
            scores.append(SampledScore(math.nan, np.full(_SAMPLES, math.nan)))
            continue
        first, *more = ([lines[i] for i in chosen] for lines in (references, *more_references))
        counts, score = sentence_statistics(
            [hypotheses[i] for i in chosen], first, metric, more_references=more, **options
        )
        scores.append(SampledScore(score(counts.sum(0)), resampled_scores(counts, score, _SAMPLES, SEED)))
    return scores


def interval(trainings: Sequence[SampledScore]) -> tuple[float, float]:
    """Return the mean score of several trainings, and how far it is from the ends of its interval of 95 %.

    Its variance is that of texts that are drawn from the sentences; of several trainings, which are then compared with
    nothing by `compare_trainings`, theirs too. With three trainings, it holds the true score in 92 to 94 of 100 cases.

    Example:
        >>> mean, half = interval([SampledScore(30.0, np.array([29.0, 31.0]))])
        >>> mean, round(half, 2)
        (30.0, 2.77)
    """
    scores, drawn = [one.score for one in trainings], [one.drawn for one in trainings]
    mean = statistics.fmean(scores)
    if len(trainings) == 1:
        return mean, _normal_quantile() * float(np.std(drawn[0], ddof=1))
    nothing = [np.zeros_like(one) for one in drawn]
    found = compare_trainings(scores, [0.0] * len(scores), (drawn, nothing), paired=True)
    return mean, found.interval(_CONFIDENCE)[1] - mean


def differ(one: Sequence[SampledScore], other: Sequence[SampledScore]) -> bool:
    """Return whether an interval of 95 % shows a difference between two systems, each trained once or several times.

    If either was trained once, it counts sentences alone.

    Example:
        >>> drawn = np.array([29.0, 31.0])
        >>> [differ([SampledScore(30.0, drawn)], [SampledScore(30.0 + d, drawn + d)]) for d in (0.0, 0.1)]
        [False, True]
    """
    own, its = ([training.score for training in side] for side in (one, other))
    drawn, others = ([training.drawn for training in side] for side in (one, other))
    if min(len(own), len(its)) > 1:
        low, high = compare_trainings(own, its, (drawn, others)).interval(_CONFIDENCE)
        return not low <= 0 <= high
    spread = float(np.std(np.mean(drawn, 0) - np.mean(others, 0), ddof=1))
    return abs(statistics.fmean(own) - statistics.fmean(its)) > _normal_quantile() * spread


def _normal_quantile():
    return statistics.NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)

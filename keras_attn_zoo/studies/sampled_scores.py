"""Scores with what sentences and trainings make of them by chance: intervals, and whether any of them differ."""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keras_attn_zoo.evaluation.significance import SEED
from keras_attn_zoo.evaluation.text_scores import sentence_statistics
from keras_attn_zoo.evaluation.training_comparison import compare_trainings, holm, resampled_scores

# How many texts are drawn of sentences, and how sure an interval is.
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


def sampled_score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *more_references: Sequence[str],
    metric: str = "bleu",
    **options: Any,
) -> SampledScore:
    """Return the score of translations, and of texts that are drawn from their sentences.

    Args:
        hypotheses, references: one for each sentence.
        *more_references: further lists of references.
        metric: one of those of `score_text`.
        **options: its `tokenize` and `lowercase`.

    Example:
        >>> round(sampled_score(["a b c d"], ["a b c d"]).score)
        100
    """
    if not any(line.strip() for line in references):
        return SampledScore(math.nan, np.full(_SAMPLES, math.nan))
    counts, score = sentence_statistics(hypotheses, references, metric, more_references=more_references, **options)
    return SampledScore(score(counts.sum(0)), resampled_scores(counts, score, _SAMPLES, SEED))


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


def any_differ(pairs: Iterable[tuple[Sequence[SampledScore], Sequence[SampledScore]]]) -> bool:
    """Return whether any two systems of several pairs differ, p < 0.05, corrected by Holm's method for their number.

    Args:
        pairs: of each pair, the scores of both systems, each trained once or several times. If either was trained
            once, sentences alone are counted.

    Example:
        >>> drawn = np.array([29.0, 31.0])
        >>> [any_differ([([SampledScore(30.0, drawn)], [SampledScore(30.0 + d, drawn + d)])]) for d in (0.0, 0.1)]
        [False, True]
    """
    return min(holm([_p_value(*pair) for pair in pairs]), default=1.0) < 1 - _CONFIDENCE


def _p_value(one, other):
    own, its = ([training.score for training in side] for side in (one, other))
    drawn, others = ([training.drawn for training in side] for side in (one, other))
    if min(len(own), len(its)) > 1:
        return compare_trainings(own, its, (drawn, others)).p_value
    difference = abs(statistics.fmean(own) - statistics.fmean(its))
    spread = float(np.std(np.mean(drawn, 0) - np.mean(others, 0), ddof=1))
    return math.erfc(difference / (spread * math.sqrt(2))) if spread else float(difference == 0)


def _normal_quantile():
    return statistics.NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)

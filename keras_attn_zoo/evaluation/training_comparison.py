"""Compare two systems by several trainings of each: a test that counts seeds and sentences.

A training has luck of its own, and so has the choice of a test text. The difference of the systems' mean scores varies
with both, as in a crossed design of readers and cases:

    D        = mean_i y_i - mean_j z_j          y_i, z_j scores of the trainings, n and m of them
    e_seeds² = s_y² / n + s_z² / m              s² variances between trainings; freedom as in Welch's test
    e_text²  = Var(D) over texts                of sentences drawn with replacement, the same for all trainings
    D ± √((t e_seeds)² + (z e_text)²)           t, z quantiles of Student's and of the normal distribution

The interval combines those of both parts (the method of variance estimates recovery, Zou and Donner, Statistics in
Medicine, 2008), so that three trainings that happen to be alike are not taken for certain. What a training has with a
sentence in particular is in both parts: then the test errs on the side of no difference, as does the pigeonhole
bootstrap, which draws trainings as well as sentences (Owen, Annals of Applied Statistics, 2007).
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.extras import require

require("scipy", user=__name__)

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtri

# With fewer trainings, nothing is known of how they differ.
LEAST_SEEDS = 3
# How probable it is that a difference as large as `detectable` is found.
_POWER = 0.8
_LEAST_P = 1e-12


@dataclasses.dataclass(frozen=True)
class TrainingComparison:
    """The difference between the mean scores of two systems, with what seeds and sentences make of it.

    Attributes:
        difference: of the first system from the second.
        of_seeds: its standard error over trainings, e_seeds.
        freedom: degrees of freedom of that.
        of_text: its standard error over texts, e_text.
        seeds: trainings of both systems.

    Example:
        >>> found = TrainingComparison(2.0, 0.4, 4.0, 0.3, (3, 3))
        >>> round(found.p_value, 3), round(found.detectable, 1)
        (0.01, 1.7)
    """

    difference: float
    of_seeds: float
    freedom: float
    of_text: float
    seeds: tuple[int, int]

    @property
    def p_value(self) -> float:
        """Probability of a difference at least this large, in either direction, between equally good systems."""
        seen = abs(self.difference)
        if seen <= self._half(1.0) or seen >= self._half(_LEAST_P):
            return float(seen == 0) or _LEAST_P
        return float(brentq(lambda p: self._half(p) - seen, _LEAST_P, 1.0, xtol=1e-15))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the confidence interval of the difference.

        That of 90 % lies between -m and m exactly if two one-sided tests of 5 % show that the systems differ by less.
        """
        half = self._half(1 - confidence)
        return self.difference - half, self.difference + half

    @property
    def detectable(self) -> float:
        """The smallest difference that so many seeds and sentences show, p < 0.05, in about four of five cases."""
        return self.detectable_at(0.05)

    def detectable_at(self, level: float) -> float:
        """Return the same at another level of significance, such as that of many comparisons."""
        return self._half(level) + self._half(2 * (1 - _POWER))

    def _half(self, level):
        """Half the width of the interval outside of which a difference has a probability below `level`."""
        probability = 1 - level / 2
        return math.hypot(stats.t.ppf(probability, self.freedom) * self.of_seeds, ndtri(probability) * self.of_text)


def compare_trainings(
    own: ArrayLike,
    other: ArrayLike,
    resampled: tuple[Sequence[NDArray], Sequence[NDArray]] | None = None,
    paired: bool = False,
) -> TrainingComparison:
    """Compare the scores of several trainings of two systems; see the formula of this module.

    Args:
        own, other: a score for each training.
        resampled: for each training of both systems, its scores on the same drawn texts, see `resampled_scores`; None
            for what is not a score of sentences, such as the lowest loss in training. The test is Welch's then.
        paired: whether scores of the same trainings are compared, in this order: then s² is of their differences.

    Raises:
        UserError: fewer than two trainings of a system; unequal numbers if paired.

    Example:
        >>> round(compare_trainings([31.0, 32.0, 33.0], [30.0, 30.5, 31.0]).p_value, 3)
        0.104
    """
    own, other = np.asarray(own, "float64"), np.asarray(other, "float64")
    seeds = len(own), len(other)
    if min(seeds) < 2 or (paired and len(own) != len(other)):
        raise UserError(f"there are {seeds[0]} and {seeds[1]} trainings: give two or more, equally many if paired.")
    parts = [own - other] if paired else [own, other]
    terms = [(part.var(ddof=1) / len(part), len(part) - 1) for part in parts]
    variance = sum(term for term, _ in terms)
    # Of numbers that only rounding keeps apart.
    if variance < 1e-18 * max(1.0, abs(own).max(), abs(other).max()) ** 2:
        variance = 0.0
    freedom = variance**2 / sum(term**2 / n for term, n in terms) if variance else math.inf
    of_text = 0.0 if resampled is None else np.std(np.subtract(*(np.mean(one, 0) for one in resampled)), ddof=1)
    difference = own.mean() - other.mean()
    return TrainingComparison(float(difference), math.sqrt(variance), float(freedom), float(of_text), seeds)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's method.

    If those below a level are taken for differences, any of them is none with a probability of at most that level.

        p'_(i) = max_{k ≤ i} min(1, (m - k + 1) p_(k))        p_(1) ≤ ... ≤ p_(m)

    Example:
        >>> holm([0.5, 0.25, 0.125])
        [0.5, 0.5, 0.375]

    Source: Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics, 1979.
    """
    order, corrected, last = sorted(range(len(p_values)), key=p_values.__getitem__), [0.0] * len(p_values), 0.0
    for place, number in enumerate(order):
        corrected[number] = last = max(last, min(1.0, (len(p_values) - place) * p_values[number]))
    return corrected


def resampled_scores(statistics: ArrayLike, score: Callable[[NDArray], float], samples: int, seed: int) -> NDArray:
    """Return the scores of a training on texts drawn from the sentences of a test text, with replacement.

    Args:
        statistics: `(sentences, n)`, of which a score is computed from the sums over sentences.
        score: function from these sums, `(n,)`, to the score.
        samples: how many texts are drawn.
        seed: of the random numbers: the same seed draws the same sentences.

    Returns:
        `(samples,)`; NaN or infinite where a drawn text has no score.

    Example:
        >>> edits_and_words = [[1, 4], [3, 4]]
        >>> set(resampled_scores(edits_and_words, lambda sums: sums[0] / sums[1], 50, 1)) == {0.25, 0.5, 0.75}
        True
    """
    statistics = np.asarray(statistics, "float64")
    sentences = len(statistics)
    counts = np.random.default_rng(seed).multinomial(sentences, np.full(sentences, 1 / sentences), size=samples)
    with np.errstate(all="ignore"):
        return np.array([score(sums) for sums in counts @ statistics], "float64")

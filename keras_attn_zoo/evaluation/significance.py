"""Paired significance tests on what scores are sums of: the bootstrap and approximate randomization."""

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keras_attn_zoo.support.extras import require

require("sacrebleu", user=__name__)

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

# How many samples a test takes by default.
TESTS = {"bootstrap": 1_000, "randomization": 10_000}
# Of their random numbers, by default; the same in every comparison.
SEED = 12345

# The environment variable from which sacrebleu reads its seed.
_SEED_VARIABLE = "SACREBLEU_SEED"
# Of scores up to 100: sums in another order differ by less, two texts by more.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class SystemScore:
    """One system's score in a paired test.

    Attributes:
        score: the score on the whole corpus.
        mean: mean score over the resampled corpora; None without a bootstrap.
        ci: half the width of the 95 % confidence interval around `mean`; None without a bootstrap.
        p_value: probability of a difference from the baseline at least this large by chance, with a bootstrap in the
            direction that it has; 1 if there is no difference, None for the baseline.
    """

    score: float
    mean: float | None
    ci: float | None
    p_value: float | None


def paired_tests(
    systems: Mapping[str, Sequence[str]],
    metric: Metric,
    references: Sequence[Sequence[str | None]],
    test: str,
    samples: int,
    seed: int,
) -> tuple[dict[str, SystemScore], str]:
    """Return the scores of systems by name, with the p-values of a test against the first one, and the signature.

    No p-value is below 2^(1-n), where n is the number of sentences that differ: that is the least that the exact
    randomization test can give. A bootstrap of very few sentences would say less.

    Args:
        systems: hypotheses by name, those of the baseline first.
        metric: a metric of sacrebleu.
        references: as sacrebleu takes them.
        test: "bootstrap", sacrebleu's; or "randomization".
        samples: number of resampled corpora or trials.
        seed: positive integer.

    Example:
        >>> from sacrebleu.metrics import BLEU
        >>> texts = {"first": ["a b c d e"], "second": ["a b c d x"]}
        >>> found, _ = paired_tests(texts, BLEU(), [["a b c d e"]], "bootstrap", 100, 1)
        >>> found["second"].p_value
        1.0
    """
    of_test = _bootstrap if test == "bootstrap" else _randomization
    found, signature = of_test(systems, metric, references, samples, seed)
    first = next(iter(systems))
    for name, score in found.items():
        if score.p_value is not None:
            differing = sum(one != other for one, other in zip(systems[name], systems[first], strict=True))
            # For equal scores, sacrebleu returns the smallest possible value.
            p_value = 1.0 if score.score == found[first].score else max(score.p_value, _least(differing))
            found[name] = replace(score, p_value=p_value)
    return found, str(signature)


def _bootstrap(systems, metric, references, samples, seed):
    """Sentences are drawn with replacement; the p-value is one-sided, as in Moses' script and in sacrebleu."""
    with _sacrebleu_seed(seed):
        named = [(name, list(texts)) for name, texts in systems.items()]
        signatures, results = PairedTest(named, {"": metric}, references, test_type="bs", n_samples=samples)()
    (key,) = signatures
    found = {}
    for name, one in zip(systems, results[key], strict=True):
        p_value = None if one.p_value is None else float(one.p_value)
        found[name] = SystemScore(float(one.score), float(one.mean), float(one.ci), p_value)
    return found, signatures[key]


def _randomization(systems, metric, references, samples, seed):
    """In each trial, system and baseline exchange every translation with a probability of 1/2.

    sacrebleu counts trials whose difference is larger than the one that was seen; here those count too where it is
    equal, as the test has it. If few sentences differ, they are many.
    """
    exchanged = np.random.default_rng(seed).integers(2, size=(samples, len(references[0])), dtype=bool)
    statistics = {name: corpus_statistics(metric, texts, references) for name, texts in systems.items()}
    score = functools.partial(score_of_sums, metric)
    baseline = next(iter(statistics))
    whole, found = score(statistics[baseline].sum(0)), {}
    for name, own in statistics.items():
        p_value = None
        if name != baseline:
            seen = abs(score(own.sum(0)) - whole)
            moved = exchanged @ (own - statistics[baseline])
            trials = zip(statistics[baseline].sum(0) + moved, own.sum(0) - moved, strict=True)
            as_large = sum(abs(score(one) - score(other)) >= seen - _ROUNDING for one, other in trials)
            p_value = (as_large + 1) / (samples + 1)
        found[name] = SystemScore(score(own.sum(0)), None, None, p_value)
    signature = metric.get_signature()
    signature.update("seed", str(seed))
    signature.update("ar", samples)
    return found, signature


def corpus_statistics(metric: Metric, texts: Sequence[str], references: Any) -> NDArray:
    """Return what a metric of sacrebleu counts in each sentence, `(sentences, n)`."""
    return np.array(metric._extract_corpus_statistics(texts, references))


def score_of_sums(metric: Metric, sums: NDArray) -> float:
    """Return the score of a text of the sums of its `corpus_statistics`."""
    return float(metric._aggregate_and_compute([sums.tolist()]).score)


def _least(differing):
    """The smallest p-value that so many sentences that differ allow, see `paired_tests`."""
    return min(1.0, 2.0 ** (1 - differing))


@contextlib.contextmanager
def _sacrebleu_seed(seed: int) -> Iterator[None]:
    """Set the seed where sacrebleu reads it, and restore the old one."""
    before = os.environ.get(_SEED_VARIABLE)
    os.environ[_SEED_VARIABLE] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SEED_VARIABLE]
        else:
            os.environ[_SEED_VARIABLE] = before

"""The translation that agrees best with all candidates: minimum Bayes risk."""

from collections.abc import Callable, Sequence

import numpy as np

from keras_attn_zoo.evaluation.text_scores import sentence_bleu, sentence_chrf
from keras_attn_zoo.support.errors import UserError, choice

UTILITIES: dict[str, Callable[[str, str], float]] = {"chrf": sentence_chrf, "bleu": sentence_bleu}


def check_utility(utility: str) -> None:
    """Raise a `UserError`, which names the nearest utility, unless there is one of this name.

    Example:
        >>> check_utility("chrf")
    """
    if not isinstance(utility, str) or utility not in UTILITIES:
        raise UserError(f"there is no utility {utility!r}: {choice(str(utility), UTILITIES)}")


def expected_utilities(
    candidates: Sequence[str], probabilities: Sequence[float] | None = None, utility: str = "chrf"
) -> list[float]:
    """Return how well each candidate agrees with all of them: the best has the minimum Bayes risk.

    Use it to choose from samples, or from an n-best list.

        U(y) = Σ_y' p(y') u(y, y')

    where y is scored as the hypothesis, y' as its reference, and an empty reference scores 0.

    Args:
        candidates: translations of one sentence. Equal ones are scored once, so n that differ take n² scores.
        probabilities: p, which is scaled to sum to 1; by default, all are alike, as they are for samples.
        utility: u, sacrebleu's score of a sentence: "chrf" or "bleu".

    Returns:
        U of each candidate, in percent.

    Raises:
        UserError: an unknown utility.

    Example:
        >>> utilities = expected_utilities(["trees", "a red house", "the red house"])
        >>> utilities.index(min(utilities))
        0

    Source: Kumar and Byrne 2004, equation 2, with 1 - u as the loss; Eikema and Aziz 2020, equation 5, for samples.
    """
    check_utility(utility)
    weights = np.ones(len(candidates)) if probabilities is None else np.asarray(probabilities, "float64")
    texts, places = np.unique(np.array(candidates, dtype=object), return_inverse=True)
    mass = np.bincount(places, weights) / weights.sum()
    score = UTILITIES[utility]
    expected = [sum(p * score(text, other) for other, p in zip(texts, mass, strict=True)) for text in texts]
    return [float(expected[place]) for place in places]

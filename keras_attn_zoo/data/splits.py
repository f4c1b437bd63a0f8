"""The three parts of a corpus."""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from keras_attn_zoo.errors import UserError

# A source sentence and its translation.
Pair: TypeAlias = tuple[str, str]


class Splits(NamedTuple):
    """The three parts of a corpus, each an iterable of (source, target).

    Build it from separate files, or with `random_split`.

    Example:
        >>> splits = Splits(train=[("a", "b")], valid=[("c", "d")], test=[("e", "f")])
        >>> train, valid, test = splits
    """

    train: Iterable[Pair]
    valid: Iterable[Pair]
    test: Iterable[Pair]


def random_split(pairs: Iterable[Pair], ratios: Sequence[float] = (8, 1, 1), seed: int = 0) -> Splits:
    """Divide sentence pairs at random into training, validation and test parts.

    Use it if a corpus is not already split. Every pair goes to exactly one part,
    and each part keeps the order of the corpus.

    Args:
        pairs: iterable of (source, target).
        ratios: relative sizes of the three parts.
        seed: random seed; the split depends only on it and on the number of pairs.

    Returns:
        `Splits` of three lists.

    Raises:
        UserError: a ratio is not positive, or a part would be empty.

    Example:
        >>> train, valid, test = random_split([(str(i), str(i)) for i in range(10)])
        >>> len(train), len(valid), len(test)
        (8, 1, 1)
    """
    if len(ratios) != 3 or min(ratios) <= 0:
        raise UserError(f"ratios={ratios} must be three positive numbers, for training, validation and test.")
    pairs = list(pairs)
    ends = [round(len(pairs) * part / sum(ratios)) for part in itertools.accumulate(ratios)]
    sizes = np.diff([0, *ends])
    if min(sizes) < 1:
        raise UserError(
            f"{len(pairs)} sentence pairs split {ratios[0]}:{ratios[1]}:{ratios[2]} into "
            f"{sizes[0]}, {sizes[1]} and {sizes[2]}: give more text, or a file for each part."
        )
    order = np.random.default_rng(seed).permutation(len(pairs))
    return Splits(*([pairs[i] for i in np.sort(part)] for part in np.split(order, ends[:2])))

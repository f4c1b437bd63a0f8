"""The three parts of a corpus."""

import itertools
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple, TypeAlias

import numpy as np

from keras_attn_zoo.support.errors import UserError

# A source sentence and its translation.
Pair: TypeAlias = tuple[str, str]

# More sentences make scores hardly more precise, and are translated after each training.
MAX_HELD_OUT = 2000


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


def random_split(
    pairs: Iterable[Pair], ratios: Sequence[float] = (8, 1, 1), seed: int = 0, max_held_out: int | None = MAX_HELD_OUT
) -> Splits:
    """Divide sentence pairs at random into training, validation and test parts.

    Use it if a corpus is not already split. Every pair goes to exactly one part,
    and each part keeps the order of the corpus.

    Args:
        pairs: iterable of (source, target).
        ratios: relative sizes of the three parts.
        seed: random seed; the split depends only on it, on the number of pairs and on `max_held_out`.
        max_held_out: maximum pairs of the validation part, and of the test part; all others are for training. None
            for no maximum.

    Returns:
        `Splits` of three lists. If `pairs` is not a list and can be iterated repeatedly, like `ParallelFiles`, the
        training part is read from it each time, and is not kept in memory.

    Raises:
        UserError: a ratio is not positive, or a part would be empty.

    Example:
        >>> train, valid, test = random_split([(str(i), str(i)) for i in range(10)])
        >>> len(train), len(valid), len(test)
        (8, 1, 1)
    """
    if max_held_out is not None and max_held_out < 1:
        raise UserError(f"max_held_out={max_held_out} leaves nothing to validate and test with: give at least 1.")
    streamed = not isinstance(pairs, Sequence) and iter(pairs) is not pairs
    pairs = pairs if streamed else list(pairs)
    count = sum(1 for _ in pairs)
    sizes = split_sizes(count, ratios)
    order = np.random.default_rng(seed).permutation(count)
    valid, test = (set(part[:max_held_out].tolist()) for part in np.split(order, np.cumsum(sizes[:2]))[1:])
    held_out: dict[str, list[Pair]] = {"valid": [], "test": []}
    for number, pair in enumerate(pairs):
        if number in valid or number in test:
            held_out["valid" if number in valid else "test"].append(pair)
    train = _Without(pairs, valid | test, count)
    return Splits(train if streamed else list(train), **held_out)


def split_sizes(count: int, ratios: Sequence[float] = (8, 1, 1)) -> list[int]:
    """Return how many of some sentence pairs `random_split` puts into each part if there is no maximum.

    Args:
        count: number of pairs.
        ratios: relative sizes of the three parts.

    Raises:
        UserError: a ratio is not positive, or a part would be empty.

    Example:
        >>> split_sizes(96)
        [77, 9, 10]
    """
    if len(ratios) != 3 or min(ratios) <= 0:
        raise UserError(f"ratios={ratios} must be three positive numbers, for training, validation and test.")
    ends = [round(count * part / sum(ratios)) for part in itertools.accumulate(ratios)]
    sizes = np.diff([0, *ends]).tolist()
    if min(sizes) < 1:
        raise UserError(
            f"{count} sentence pairs split {ratios[0]}:{ratios[1]}:{ratios[2]} into "
            f"{sizes[0]}, {sizes[1]} and {sizes[2]}: give more text, or a file for each part."
        )
    return sizes


class _Without:
    """Sentence pairs that can be iterated repeatedly, without some of them."""

    def __init__(self, pairs: Iterable[Pair], numbers: Set[int], count: int) -> None:
        self.pairs, self.numbers, self.count = pairs, numbers, count

    def __len__(self) -> int:
        """Count the pairs that are left."""
        return self.count - len(self.numbers)

    def __iter__(self) -> Iterator[Pair]:
        """Yield the pairs that are left."""
        return (pair for number, pair in enumerate(self.pairs) if number not in self.numbers)

"""What rules out next tokens: functions of logits and of the tokens so far, which a search composes."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from keras import ops

from keras_attn_zoo.support.types import Tensor

# The log-probability of the impossible; finite, so that sums and quotients are never NaN.
IMPOSSIBLE = -1e9

# From logits `(rows, vocabulary)`, tokens `(rows, length)` and the position that comes next to logits in which some are
# `IMPOSSIBLE`. Tokens from that position on mean nothing.
LogitsProcessor: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclasses.dataclass(frozen=True)
class MinLength:
    """Rule out the end before a translation has so many tokens.

    Args:
        length: minimum tokens, without the end.
        stops: ids of tokens that end a translation.
        start: its first position.

    Example:
        >>> logits, tokens = np.zeros((1, 3)), np.array([[2, 1, 0]])
        >>> MinLength(2, [0])(logits, tokens, 2).tolist()  # one token so far: no end
        [[-1000000000.0, 0.0, 0.0]]
    """

    length: int
    stops: Sequence[int]
    start: int | Tensor = 1

    def __call__(self, logits: Tensor, tokens: Tensor, index: Tensor) -> Tensor:
        """Return the logits without those of an end that comes too early."""
        ends = np.isin(np.arange(logits.shape[-1]), list(self.stops))
        return ops.where(ops.logical_and(ends, index - self.start < self.length), IMPOSSIBLE, logits)


@dataclasses.dataclass(frozen=True)
class NoRepeatedNgrams:
    """Rule out the tokens that would make an n-gram of a translation appear in it a second time.

    Args:
        n: tokens of an n-gram.
        start: first position of a translation.

    Example:
        >>> logits, tokens = np.zeros((1, 4)), np.array([[2, 1, 3, 1, 0]])
        >>> NoRepeatedNgrams(2)(logits, tokens, 4).tolist()  # 1 3 has been
        [[0.0, 0.0, 0.0, -1000000000.0]]

    Source: Paulus et al. 2018, section 2.5, where n = 3.
    """

    n: int
    start: int | Tensor = 1

    def __call__(self, logits: Tensor, tokens: Tensor, index: Tensor) -> Tensor:
        """Return the logits without those that repeat an n-gram."""
        rows, length = ops.shape(tokens)
        begins = ops.arange(length, dtype="int32")
        # That the tokens from a position on are the last n - 1, and one follows these.
        repeats = ops.logical_and(begins >= self.start, begins + self.n <= index)
        repeats = ops.broadcast_to(repeats[None], (rows, length))
        for i in range(self.n - 1):
            last = tokens_at(tokens, index - self.n + 1 + i)
            repeats = ops.logical_and(repeats, ops.roll(tokens, -i, axis=1) == last[:, None])
        following = ops.cast(ops.roll(tokens, 1 - self.n, axis=1), "int32")
        places = ops.stack([ops.broadcast_to(ops.arange(rows, dtype="int32")[:, None], (rows, length)), following], -1)
        hits = ops.reshape(ops.cast(repeats, "float32"), (-1,))
        found = ops.scatter(ops.reshape(places, (-1, 2)), hits, ops.shape(logits))
        return ops.where(found > 0, IMPOSSIBLE, logits)


@dataclasses.dataclass(frozen=True, eq=False)
class ForbiddenWords:
    """Rule out words, however they are divided into tokens, by an automaton that reads the last tokens.

        s_i = table[s_{i-1}, y_i],    y_{n+1} is impossible where table[s_n, y_{n+1}] < 0

    Args:
        table: the next state, int `(states, vocabulary)`; below 0 for a token that completes a word. State 0 is that
            inside any other word.
        reach: how many tokens it takes to know a state, whatever was before.
        end: id of the end token. At the last position, a token is ruled out if an end behind it would complete a word:
            the translation may be cut there.
        last: the last position, which a search sets; None if nothing is cut.

    Example:
        >>> table = np.array([[0, 1], [0, -1]])  # a second 1 in turn completes a word
        >>> ForbiddenWords(table, 1, end=0)(np.zeros((1, 2)), np.array([[0, 1, 0]]), 2).tolist()
        [[0.0, -1000000000.0]]
    """

    table: np.ndarray
    reach: int
    end: int
    last: int | Tensor | None = None

    def __call__(self, logits: Tensor, tokens: Tensor, index: Tensor) -> Tensor:
        """Return the logits without those that complete a word."""
        vocabulary = self.table.shape[1]
        state = ops.zeros_like(tokens[:, 0], dtype="int32")
        flat = ops.convert_to_tensor(np.maximum(self.table, 0).reshape(-1), "int32")
        for back in range(self.reach, 0, -1):
            token = ops.cast(tokens_at(tokens, index - back), "int32")
            # Before the first position, nothing has been read.
            state = ops.where(index >= back, ops.take(flat, state * vocabulary + token), 0)
        completes = ops.take(ops.convert_to_tensor(self.table < 0), state, axis=0)
        if self.last is not None:
            ends = (self.table < 0) | (self.table[self.table, self.end] < 0)
            completes = ops.where(index == self.last, ops.take(ops.convert_to_tensor(ends), state, axis=0), completes)
        return ops.where(completes, IMPOSSIBLE, logits)


def tokens_at(tokens: Tensor, position: Tensor) -> Tensor:
    """Return the tokens `(rows,)` at a position; those of the first one if it is before that."""
    return ops.take(tokens, ops.maximum(position, 0), axis=1)


def composed(processors: Sequence[LogitsProcessor], tokens: Tensor, index: Tensor) -> Callable[[Tensor], Tensor] | None:
    """Return one function of logits, which runs all processors in turn; None if there are none."""

    def run(logits):
        for processor in processors:
            logits = processor(logits, tokens, index)
        return logits

    return run if processors else None

"""Batches that run at once: what one leaves of the processor, as it waits for its threads, another uses."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import keras
import numpy as np
from keras import tree

from keras_attn_zoo.data.shapes import pad_rows
from keras_attn_zoo.support import threads
from keras_attn_zoo.support.types import TensorTree

# A product of fewer rows takes hardly less time.
_FEWEST_ROWS = 16

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_order(function: Callable[[_Item], _Result], items: Iterable[_Item], count: int) -> Iterator[_Result]:
    """Yield the results of a function of Keras for all items; see `support.threads.in_order`."""
    # Keras keeps the policy by thread.
    policy = keras.config.dtype_policy()
    return threads.in_order(function, items, count, lambda: keras.config.set_dtype_policy(policy))


def in_parts(function: Callable[..., TensorTree], count: Callable[[], int]) -> Callable[..., TensorTree]:
    """Return a function of arrays that computes their rows in several parts at once, if these are not too small.

    Every array of its result must have as many rows as the arguments, or a multiple.

    Args:
        function: function of arrays.
        count: returns how many parts there may be; asked only if there are rows enough.
    """

    def run(*inputs):
        rows = len(tree.flatten(inputs)[0])
        parts = rows // _FEWEST_ROWS
        if parts > 1:
            parts = min(parts, count())
        if parts < 2:
            return function(*inputs)
        size = -(-rows // parts)

        def part(start):
            return tree.map_structure(lambda x: pad_rows(x[start : start + size], size), inputs)

        found = list(in_order(lambda start: function(*part(start)), range(0, rows, size), parts))
        joined = tree.map_structure(lambda *arrays: np.concatenate(arrays), *found)
        return tree.map_structure(lambda x: x[: len(x) * rows // (size * len(found))], joined)

    return run


class FirstCall:
    """Has one thread make the first call of a function, which compiles it, as the others wait.

    Example:
        >>> first_call = FirstCall()
        >>> with first_call.one_at_a_time():
        ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = False

    @contextlib.contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Make a call, the first one alone; one that fails does not count."""
        if not self._done:
            with self._lock:
                if not self._done:
                    yield
                    self._done = True
                    return
        yield

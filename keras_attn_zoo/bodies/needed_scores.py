"""Whose scores are read: a layer without a reader need not compute weights, if its contexts can be had without them."""

import contextlib
import contextvars
from collections.abc import Collection, Iterator

from keras_attn_zoo.layers import AttentionLayer

_READ: contextvars.ContextVar[Collection[AttentionLayer] | None] = contextvars.ContextVar("read", default=None)


@contextlib.contextmanager
def scores_needed_of(layers: Collection[AttentionLayer]) -> Iterator[None]:
    """Declare that, of all attention layers in a body, only the scores of these are read within it.

    It is no argument, since a functional model hands none on to the layers of its graph. Outside, all scores are read.
    """
    token = _READ.set(layers)
    try:
        yield
    finally:
        _READ.reset(token)


def needs_scores(layer: AttentionLayer) -> bool:
    """Return whether the scores of a layer are read."""
    read = _READ.get()
    return read is None or any(layer is one for one in read)

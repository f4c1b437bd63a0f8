"""The axis of target positions: first in a loop over them, third elsewhere, of size 1 if all positions are alike."""

from keras import ops

from keras_attn_zoo.support.types import Tensor


def expand_to_positions(query: Tensor, context: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Broadcast a context and scores that are the same for all to every sentence and target position."""
    (batch, target), known = ops.shape(query)[:2], query.shape[:2]
    if context.shape[1] == 1 != known[1]:
        context = ops.broadcast_to(context, (batch, target, context.shape[2]))
    if (scores.shape[0] == 1 != known[0]) or (scores.shape[2] == 1 != known[1]):
        scores = ops.broadcast_to(scores, (batch, scores.shape[1], target, ops.shape(scores)[3]))
    return context, scores


def empty_result(query: Tensor, source: Tensor, heads: int, width: int | None, dtype: str) -> tuple[Tensor, Tensor]:
    """Return context and scores if there are no target or no source positions."""
    batch, target = ops.shape(query)[0], ops.shape(query)[1]
    context = ops.zeros((batch, target, width), dtype=dtype)
    return context, ops.zeros((batch, heads, target, ops.shape(source)[1]), dtype="float32")


def to_time_major(x: Tensor) -> Tensor:
    """Turn `(batch, heads, target, ...)` into `(target, batch, heads, 1, ...)`: a slice per position, axis kept."""
    return ops.transpose(x, (2, 0, 1, *range(3, len(x.shape))))[:, :, :, None]


def to_batch_major(x: Tensor) -> Tensor:
    """Invert `to_time_major`."""
    return ops.transpose(x[:, :, :, 0], (1, 2, 0, *range(3, len(x.shape) - 1)))


def as_rows(context: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return context `(batch, target, width)` and scores `(batch, heads, target, source)` with a row per position.

    Example:
        >>> [x.shape for x in as_rows(ops.ones((2, 3, 8)), ops.ones((2, 4, 3, 5)))]
        [(6, 8), (6, 4, 5)]
    """
    heads, source = ops.shape(scores)[1], ops.shape(scores)[3]
    scores = ops.reshape(ops.transpose(scores, (0, 2, 1, 3)), (-1, heads, source))
    return ops.reshape(context, (-1, context.shape[-1])), scores

"""Rows of an embedding."""

from keras import ops

from keras_attn_zoo.kernels.forms import operation
from keras_attn_zoo.support.types import Tensor


@operation
def rows(table: Tensor, ids: Tensor) -> Tensor:
    """Return the rows of a table by their ids.

    Args:
        table: `(ids, width)`.
        ids: int32 of any shape.

    Example:
        >>> rows(ops.eye(3), ops.array([2, 0]))  # [[0, 0, 1], [1, 0, 0]]
    """
    return ops.take(table, ids, axis=0)

"""Contexts of a plain softmax in one operation, which does not keep the weights."""

from keras import ops

from keras_attn_zoo.support.types import Tensor


def fused_contexts(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    flash_attention: bool | None = None,
) -> Tensor:
    """Return softmax(query keyᵀ / √width) value by `keras.ops.dot_product_attention`, without the weights.

    A row with nothing to attend to gets the mean of all values, not 0: the caller mends it.

    Args:
        query, key, value: `(batch, heads, target, width)` and twice `(batch, heads, source, width)`.
        mask: bool, broadcastable to `(batch, heads, target, source)`, or None.
        causal: whether a position may attend only to those up to its own; without a mask, kernels skip the others.
        flash_attention: True insists on the kernel called flash attention and raises where the backend has none; None
            leaves the choice of the kernel to the backend.

    Returns:
        `(batch, heads, target, width)`.

    Example:
        >>> x = keras.ops.ones((2, 4, 3, 8))
        >>> fused_contexts(x, x, x, causal=True).shape
        (2, 4, 3, 8)
    """
    if mask is not None:
        # cuDNN, under JAX, takes no mask that leaves out an axis of positions.
        mask = ops.broadcast_to(mask, (*ops.shape(mask)[:2], ops.shape(query)[2], ops.shape(key)[2]))
    query, key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
    contexts = ops.dot_product_attention(
        query, key, value, mask=mask, is_causal=causal, flash_attention=flash_attention
    )
    return ops.transpose(contexts, (0, 2, 1, 3))

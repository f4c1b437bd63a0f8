"""Contexts of a plain softmax in one operation, which does not keep the weights, where a backend has a faster one."""

import keras
from keras import ops

from keras_attn_zoo.support.types import Tensor


def fuses(key: Tensor, value: Tensor, target: int | Tensor, mask: Tensor | None = None) -> bool:
    """Return whether `fused_contexts` is faster than products around a softmax, and keeps the laws of a mask.

    - PyTorch, on a CPU and on a GPU: one of its kernels takes any mask.
    - JAX, on a GPU in 16 bits: cuDNN's kernel, which with a mask has a gradient for even lengths alone. In float32 and
      on a CPU, the operation is made of plain products, slower than ours. On a TPU, Keras' kernel takes the mask of the
      first sentence for all.
    - TensorFlow: never; its operation is made of einsums, slower than our products.

    Args:
        key, value, mask: see `fused_contexts`.
        target: number of target positions.

    Example:
        >>> x = keras.ops.ones((2, 4, 3, 8))
        >>> fuses(x, x, 3)  # doctest: +SKIP
        True
    """
    if key.shape[-1] != value.shape[-1]:
        return False
    if keras.config.backend() == "torch":
        return key.device.type in ("cpu", "cuda")
    if keras.config.backend() != "jax":
        return False
    import jax

    in_16_bits = keras.backend.standardize_dtype(key.dtype) in ("bfloat16", "float16")
    even = mask is None or target % 2 == key.shape[2] % 2 == 0
    return jax.default_backend() == "gpu" and in_16_bits and even


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
    if mask is not None and keras.config.backend() == "jax":
        # cuDNN takes no mask that leaves out an axis of positions.
        mask = ops.broadcast_to(mask, (*mask.shape[:2], query.shape[2], key.shape[2]))
    query, key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
    contexts = ops.dot_product_attention(
        query, key, value, mask=mask, is_causal=causal, flash_attention=flash_attention
    )
    return ops.transpose(contexts, (0, 2, 1, 3))

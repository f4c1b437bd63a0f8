"""The norm of all gradients together, each read once."""

from collections.abc import Iterable

import keras
from keras import ops

from keras_attn_zoo.support.processor import is_jax_on_cpu
from keras_attn_zoo.support.types import Tensor


def global_norm(gradients: Iterable[Tensor | None]) -> Tensor:
    """Return √Σ g² over all gradients, in float32.

    Squares that are written down and read again take as long as the rest of the optimiser's work. TensorFlow and
    PyTorch have an operation for both; JAX's compiler joins the two, but on a CPU only if they are a product.

    Args:
        gradients: tensors; None for a weight that has no gradient.

    Example:
        >>> global_norm([keras.ops.array([3.0, 0.0]), None, keras.ops.array([4.0])])  # 5.0
    """
    found: list[Tensor] = [x for x in gradients if x is not None]
    if not found:
        return ops.zeros(())
    if keras.config.backend() == "torch":
        import torch

        wide = torch.float32
        norms = [torch.linalg.vector_norm(x, dtype=torch.promote_types(x.dtype, wide)).to(wide) for x in found]
        return torch.linalg.vector_norm(torch.stack(norms))
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        return tf.sqrt(2.0 * tf.add_n([tf.nn.l2_loss(tf.cast(x, tf.float32)) for x in found]))
    exact = [ops.cast(x, "float32") for x in found]
    # To flatten a gradient that several devices share would gather it.
    if is_jax_on_cpu() and keras.distribution.distribution() is None:
        return ops.sqrt(sum(ops.dot(flat, flat) for flat in map(ops.ravel, exact)))
    return ops.sqrt(sum(ops.sum(ops.square(x)) for x in exact))

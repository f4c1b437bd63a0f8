"""The norm of all gradients together, each read once."""

from collections.abc import Iterable

import keras
from keras import ops

from keras_attn_zoo.types import Tensor


def global_norm(gradients: Iterable[Tensor | None]) -> Tensor:
    """Return √Σ g² over all gradients, in float32.

    Squares that are written down and read again take as long as the rest of the optimiser's work. JAX's compiler joins
    the two; TensorFlow and PyTorch have an operation for both.

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
    flat = [ops.ravel(ops.cast(x, "float32")) for x in found]
    return ops.sqrt(sum(ops.dot(x, x) for x in flat))

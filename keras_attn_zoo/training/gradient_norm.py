"""The norm of all gradients together."""

from collections.abc import Iterable

from keras import ops

from keras_attn_zoo.support.types import Tensor


def global_norm(gradients: Iterable[Tensor | None]) -> Tensor:
    """Return √Σ g² over all gradients, in float32.

    Args:
        gradients: tensors; None for a weight that has no gradient.

    Example:
        >>> global_norm([keras.ops.array([3.0, 0.0]), None, keras.ops.array([4.0])])  # 5.0
    """
    exact = [ops.cast(x, "float32") for x in gradients if x is not None]
    return ops.sqrt(sum((ops.sum(ops.square(x)) for x in exact), ops.zeros(())))

"""Relative positions of Shaw and others: every distance has a vector, which is added to the key."""

from keras import ops

from keras_attn_zoo.kernels import along_last
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.layers.base.positions.relative_positions import RelativePositions, distances
from keras_attn_zoo.support.types import Shape, Tensor

_REACH = 16


class Shaw(RelativePositions):
    """Add a trained vector to the key, one for each distance.

    Use it where near positions differ in kind, as in translation, for which it was made.

        b_ij^n = (q_i^n)ᵀ a_{clip(j - i)} / √d_k,   clip(x) = max(-16, min(16, x))

    Symbols: q_i^n the projected query of the head n; a `(33, key_dim)`, the same for all heads.

    Example:
        >>> vectors = Shaw(2, 4, "glorot_uniform")
        >>> vectors.build()
        >>> bias = vectors.bias(ops.ones((1, 2, 2, 4)), ops.arange(2), ops.arange(3))  # (1, 2, 2, 3)

    Source: Shaw, Uszkoreit and Vaswani, Self-attention with relative position representations, 2018, equation 4.

    Differences from the paper: it adds such vectors to the values as well, and then finds that those of the keys
    suffice (its table 3).
    """

    def build(self, input_shape: Shape | None = None) -> None:
        """Create a."""
        self.vectors = add_kernel(self, "vectors", (2 * _REACH + 1, self.key_dim))
        super().build(input_shape)

    def bias(self, query: Tensor, target: Tensor, source: Tensor) -> Tensor | None:
        """Multiply the queries by all vectors, then take the product of each distance."""
        products = ops.matmul(query, ops.transpose(ops.cast(self.vectors, query.dtype)))
        places = ops.clip(distances(target, source), -_REACH, _REACH) + _REACH
        places = ops.broadcast_to(places, (*ops.shape(products)[:2], *ops.shape(places)))
        return along_last(ops.cast(products, "float32"), places)

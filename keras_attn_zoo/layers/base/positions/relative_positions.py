"""The base class of positions inside attention."""

from typing import Any

import keras

from keras_attn_zoo.support.types import Initializer, Shape, Tensor


class RelativePositions(keras.layers.Layer):
    """Base class of what the energies of an attention know of the distance j - i from a target to a source position.

    Subclass it for a new kind: turn queries and keys, of which the product then depends on the distance, or return a
    bias that is added to the energies. Neither has a state: a step knows its position.

    Args:
        num_heads, key_dim: number of heads; width of a query's and key's head.
        initializer: of weights.
    """

    def __init__(self, num_heads: int, key_dim: int, initializer: Initializer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.kernel_initializer = initializer

    @classmethod
    def check(cls, layer: Any) -> None:
        """Raise a `ValueError` if the sizes of an attention do not fit."""

    def build(self, input_shape: Shape | None = None) -> None:
        """Create the weights; by default none."""
        self.built = True

    def turned(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return queries or keys `(batch, heads, length, key_dim)` at these positions `(length,)`."""
        return x

    def bias(self, query: Tensor, target: Tensor, source: Tensor) -> Tensor | None:
        """Return what is added to energies `(batch, heads, target, source)`, in float32; by default nothing.

        Args:
            query: the scaled queries, `(batch, heads, target, key_dim)`.
            target: their positions `(target,)`, or a single one for all.
            source: the positions of the keys, `(source,)`.
        """
        return None


def distances(target: Tensor, source: Tensor) -> Tensor:
    """Return j - i of every target position i and source position j.

    Example:
        >>> distances(ops.arange(2), ops.arange(3))  # [[0, 1, 2], [-1, 0, 1]]
    """
    return source[None] - target[:, None]

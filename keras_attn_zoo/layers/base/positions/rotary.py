"""Rotary positions: queries and keys are turned by angles that grow with the position."""

from typing import Any

from keras import ops

from keras_attn_zoo.layers.base.positions.relative_positions import RelativePositions
from keras_attn_zoo.support.types import Tensor

_BASE = 10_000.0


class Rotary(RelativePositions):
    """Turn every pair of elements of queries and keys by an angle that grows with the position.

    Use it where only distances are to count: the products of queries and keys depend
    on nothing else. It has no weights, and any length.

        (x_m, x_{m+d/2}) at position i  ->  (x_m cos iθ_m - x_{m+d/2} sin iθ_m,  x_m sin iθ_m + x_{m+d/2} cos iθ_m)
        θ_m = 10000^(-2m/d),   m = 0 ... d/2 - 1

    Symbols: x a query or a key of one head, after its projection; d their width.

    Raises:
        ValueError: an odd `key_dim`.

    Example:
        >>> Rotary(2, 4, "zeros").turned(ops.ones((1, 2, 3, 4)), ops.arange(3))  # (1, 2, 3, 4)

    Source: Su et al., RoFormer: Enhanced Transformer with rotary position embedding, 2021, equation 34.

    Differences from the paper: it pairs neighbours, x_2m and x_{2m+1}; here, as in Llama, it is the halves that are
    paired. A permutation of the projections makes one of the other.
    """

    @classmethod
    def check(cls, layer: Any) -> None:
        """Raise unless the width of a head is even."""
        if layer.key_dim % 2:
            raise ValueError(
                f"{type(layer).__name__}: rotary positions need an even `key_dim`. Received: key_dim={layer.key_dim}."
            )

    def turned(self, x: Tensor, positions: Tensor) -> Tensor:
        """Turn queries or keys; see `rotated`."""
        return rotated(x, positions)


def rotated(x: Tensor, positions: Tensor) -> Tensor:
    """Return x `(batch, heads, length, width)`, turned by the angles of positions `(length,)`; see `Rotary`."""
    half = x.shape[-1] // 2
    # In float32: bfloat16 has too few digits for the angles of large positions.
    speeds = _BASE ** (-ops.arange(half, dtype="float32") / half)
    angles = ops.cast(positions, "float32")[:, None] * speeds
    cos, sin = ops.cos(angles), ops.sin(angles)
    first, second = ops.split(ops.cast(x, "float32"), 2, axis=-1)
    turned = ops.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)
    return ops.cast(turned, x.dtype)

"""Gaussian attention: fixed weights around an offset from the query's own position."""

import math
from collections.abc import Iterable
from typing import Any

from keras import ops

from keras_attn_zoo.kernels import along_last
from keras_attn_zoo.layers.base.checks import is_integer, is_number
from keras_attn_zoo.layers.base.position_attention import PositionAttention
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Tensor, TensorTree

# Beyond this many standard deviations, a weight is less than 1.6e-8 of the largest one, which is negligible in float32.
_REACH = 6.0


@attention(
    "gaussian",
    source="Zeng §3.1 (HC-SA)",
    places=("encoder", "decoder"),
    year=2020,
    arguments=lambda sizes: {**sizes.heads, "offsets": (-1, 0) if sizes.place == "decoder" else (-1, 1)},
    cost=("1", "I²·d", "σ·d", "values of a window"),
)
class GaussianAttention(PositionAttention):
    """Self-attention with hard-coded weights: a normal distribution around a neighbour.

    Use it in place of self-attention if the neighbourhood is enough: the weights are constant for each length, without
    parameters, and a search keeps only a window, however long the sentence.

        ê_ij^n = -(j - i - o_n)² / 2σ²
        α_ij^n = softmax_j(ê_ij^n)
        c_i    = Σ_n O^n Σ_j α_ij^n (W_v^n x_j) + b

    Symbols: x the input; o_n the offset of head n; σ the standard deviation; W_v
    `(width, heads, value_dim)`, O `(heads, value_dim, width)`.

    Args:
        num_heads, key_dim: number of heads; width of a value's head, unless `value_dim` is given.
        offsets: assigned to the heads in turn. The paper has (-1, 1) in the encoder and (-1, 0) in the decoder.
        sigma: σ.
        **kwargs: see `MultiHeadAttention`.

    Shapes: `(batch, length, width)` in and out; scores `(batch, heads, length, length)`.

    Masking: the weights of the positions that may be attended to are scaled to sum to 1.

    State: the values of a window, `{"value": (batch, heads, window, value_dim), "position": (batch,)}`,
    of six standard deviations, beyond which weights are negligible in float32.

    Raises:
        ValueError: σ that is not positive, offsets that are not integers, steps with an offset that looks
            ahead, a value that is not the query.

    Example:
        >>> layer = GaussianAttention(num_heads=2, key_dim=4, offsets=(-1, 0))
        >>> context = layer(keras.ops.ones((3, 5, 8)), use_causal_mask=True)  # (3, 5, 8)

    Source: Zeng, section 3.1 (HC-SA, of You et al.).

    Differences from the paper: weights sum to 1 even at the borders, where the plain
    density of the distribution would lose some of its mass.
    """

    def __init__(
        self, num_heads: int, key_dim: int, offsets: Iterable[int] = (-1, 1), sigma: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        values = tuple(offsets) if isinstance(offsets, Iterable) else ()
        if not values or not all(map(is_integer, values)):
            raise ValueError(f"GaussianAttention: `offsets` must be one or more integers. Received: offsets={offsets}.")
        if not is_number(sigma) or not 0 < sigma < math.inf:
            raise ValueError(f"GaussianAttention: `sigma` must be a positive number. Received: sigma={sigma}.")
        self.offsets = tuple(map(int, values))
        self.sigma = float(sigma)

    without_looking_ahead = "use offsets of at most 0"

    @property
    def looks_ahead(self) -> bool:  # type: ignore[override]
        """Whether a position attends to later ones, which is impossible in steps."""
        return max(self.offsets) > 0

    @property
    def window(self) -> int:
        """Positions up to the current one that can have weight."""
        return math.ceil(_REACH * self.sigma) - min(self.offsets) + 1

    def _energies(self, distance):
        """Energies of the heads at distances j - i."""
        centres = [self.offsets[n % len(self.offsets)] for n in range(self.num_heads)]
        centres = ops.reshape(ops.convert_to_tensor(centres, dtype="float32"), (-1, *[1] * len(distance.shape)))
        return -((ops.cast(distance, "float32")[None] - centres) ** 2) / (2 * self.sigma**2)

    def position_energies(self, length: int | Tensor) -> Tensor:
        """Return a constant per length."""
        positions = ops.arange(length, dtype="int32")
        return self._energies(positions[None] - positions[:, None])

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
        energies: Tensor | None = None,
    ) -> TensorTree:
        """Project the values; steps may not look ahead."""
        if value is None and self.looks_ahead:
            raise ValueError(
                f"GaussianAttention: steps cannot look ahead; {self.without_looking_ahead}. Received: {self.offsets}."
            )
        return super().prepare(value, key, value_mask, max_length)

    def prepare_rows(self, positions: Tensor, energies: Tensor | None) -> dict[str, Tensor]:
        """Return nothing: each row is computed when it is needed."""
        return {}

    def row(self, memory: TensorTree) -> Tensor:
        """Return the weights of one position."""
        distance = memory["positions"] - memory["index"]
        return self.normalize(self._energies(distance), distance <= 0)

    def room(self, max_length: int) -> int:
        """Return how many values a window has."""
        return self.window

    def keep(self, past: Tensor, projected: Tensor, index: int | Tensor) -> Tensor:
        """Move the window on by one value."""
        return ops.concatenate([past[:, :, 1:], projected], axis=2)

    def weigh(
        self, weights: Tensor, memory: TensorTree, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Return the contexts of all heads, joined; in a step those of the window."""
        if "index" in memory:
            weights = ops.pad(weights, ((0, 0), (0, 0), (0, 0), (self.window - 1, 0)))
            places = memory["index"] + ops.arange(self.window, dtype="int32")
            places = ops.broadcast_to(places, (1, self.num_heads, 1, self.window))
            weights = along_last(weights, places)
        return super().weigh(weights, memory, mask, training)

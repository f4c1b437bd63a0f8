"""Recurrent cross-attention whose energies are smoothed over target positions and a window of source positions."""

from typing import Any

from keras import ops

from keras_attn_zoo.layers.base.checks import is_integer, is_number
from keras_attn_zoo.layers.base.dot_product_attention import DotProductAttention
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Tensor, TensorTree

# Larger than any sentence: a larger window must be a mistake.
_LARGEST_WINDOW = 1000
# An energy that has decayed to this share of its value is negligible in float32.
_NOTHING = 2.0**-30


@attention(
    "energy_accumulation",
    source="Rosendahl 9",
    places=("cross",),
    year=2021,
    arguments=lambda sizes: sizes.heads,
    cost=("log I", "I·J·d + (I·J² + J³)·N·log I", "J·d + J²·N", "N·J energies"),
)
class EnergyAccumulationAttention(DotProductAttention):
    """Multi-head cross-attention with energies mixed with those of the neighbourhood at the previous position.

    Use it as cross-attention of a Transformer's decoder, to encourage weights
    that move smoothly, for mostly monotone alignments.

        å_ij^n = λ ê_ij^n + (1 - λ)/(2k + 1) Σ_{j'=j-k}^{j+k} å_{i-1,j'}^n,   å_0 = 0
        α_ij^n = softmax_j(å_ij^n)

    Symbols: ê the energies of `MultiHeadAttention`; n counts the heads; λ the
    share of the new energies, k the reach of the window.

    Between softmaxes the recurrence is linear, å_i = λ ê_i + P å_{i-1} with a banded matrix P. So all positions are
    computed at once, å = Σ_t P^t λ ê_{i-t}, by doubling, P, P², P⁴ ..., until the decay (1 - λ)^t is negligible.

    Args:
        mixing: λ, in (0, 1].
        window: k, at least 0.
        num_heads, key_dim, **kwargs: see `MultiHeadAttention`.

    Shapes: see `MultiHeadAttention`; a `value` is required.

    Masking: positions outside the sentence and padded positions (`value_mask`) add 0 to a window, which is always
    divided by 2k + 1. All other masks apply only to the softmax.

    State: `{"past": (batch, heads, 1, source)}`, the previous energies.

    Raises:
        ValueError: λ outside (0, 1]; k negative, not an integer, or wider than any sentence.

    Example:
        >>> layer = EnergyAccumulationAttention(num_heads=2, key_dim=4)
        >>> context = layer(keras.ops.ones((3, 5, 8)), keras.ops.ones((3, 7, 8)))  # (3, 5, 8)

    Source: Rosendahl, equation 9; λ = 0.5 and k = 5 from section 5.1.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        mixing: float = 0.5,
        window: int = 5,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        name = "EnergyAccumulationAttention"
        if not is_number(mixing) or not 0 < mixing <= 1:
            raise ValueError(f"{name}: `mixing` must lie in (0, 1]. Received: mixing={mixing}.")
        if not is_integer(window) or not 0 <= window <= _LARGEST_WINDOW:
            raise ValueError(
                f"{name}: `window` must be an integer from 0 to {_LARGEST_WINDOW}. Received: window={window}."
            )
        self.mixing = float(mixing)
        self.window = int(window)

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
    ) -> TensorTree:
        """Project keys and values, and make P, symmetric, and λ, both 0 at padding, once per sentence."""
        memory = super().prepare(value, key=key, value_mask=value_mask)
        real = ops.cast(memory["mask"], "float32")
        positions = ops.arange(ops.shape(real)[1], dtype="int32")
        band = ops.cast(ops.absolute(positions[:, None] - positions[None]) <= self.window, "float32")
        share = (1.0 - self.mixing) / (2 * self.window + 1)
        return {
            **memory,
            "transition": (share * band * real[:, :, None] * real[:, None])[:, None],
            "gain": (self.mixing * real)[:, None, None],
        }

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return a past of 0: there are no energies before the first position."""
        return {"past": self.no_weights(memory)}

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Mix in the energies of the previous position."""
        energies = memory["gain"] * at + ops.matmul(state["past"], memory["transition"])
        return self.normalize(energies, mask), {"past": energies}

    def attend(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend from all target positions at once, by the closed form."""
        positions = ops.arange(ops.shape(query)[1], dtype="int32")
        energies = memory["gain"] * self.ahead(ops.cast(query, self.compute_dtype), memory, positions)
        target = ops.shape(energies)[2]
        power, reach = memory["transition"], 1
        while (not isinstance(query.shape[1], int) or reach < target) and (1 - self.mixing) ** reach > _NOTHING:
            # `energies` holds the sum over the last `reach` positions; add that over the ones before.
            before = ops.pad(energies, ((0, 0), (0, 0), (reach, 0), (0, 0)))[:, :, :target]
            energies = energies + ops.matmul(before, power)
            power, reach = ops.matmul(power, power), 2 * reach
        scores = self.normalize(energies, mask)
        return self.weigh(scores, memory, mask, training), scores

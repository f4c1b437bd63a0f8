"""Recurrent cross-attention that turns away from what has been attended to already."""

from typing import Any

from keras_attn_zoo.layers.base.checks import is_number
from keras_attn_zoo.layers.base.dot_product_attention import DotProductAttention
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Tensor, TensorTree


@attention(
    "weight_subtraction",
    source="Rosendahl 10",
    places=("cross",),
    year=2021,
    arguments=lambda sizes: sizes.heads,
    cost=("I", "I·J·d", "J·d", "N·J weights"),
)
class WeightSubtractionAttention(DotProductAttention):
    """Multi-head cross-attention whose energies fall with the weights so far: coverage without parameters.

    Use it as cross-attention of a Transformer's decoder, to avoid translating words twice.

        å_ij^n = ê_ij^n - λ/√d_k Σ_{i'<i} α_{i'j}^n
        α_ij^n = softmax_j(å_ij^n)

    Symbols: ê the energies of `MultiHeadAttention`; n counts the heads; λ the strength of the coverage.

    Args:
        subtraction: λ, at least 0.
        num_heads, key_dim, **kwargs: see `MultiHeadAttention`.

    Shapes, masking: see `MultiHeadAttention`; a `value` is required. The sum is over the weights before dropout.

    State: `{"past": (batch, heads, 1, source)}`, the sum of the weights so far.

    Raises:
        ValueError: a negative λ, and what `MultiHeadAttention` raises.

    Example:
        >>> layer = WeightSubtractionAttention(num_heads=2, key_dim=4)
        >>> context = layer(keras.ops.ones((3, 5, 8)), keras.ops.ones((3, 7, 8)))  # (3, 5, 8)

    Source: Rosendahl, equation 10; λ = 0.5 from section 5.1.
    """

    def __init__(
        self, num_heads: int, key_dim: int, value_dim: int | None = None, subtraction: float = 0.5, **kwargs: Any
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        if not is_number(subtraction) or not 0 <= subtraction < float("inf"):
            raise ValueError(
                "WeightSubtractionAttention: `subtraction` must be a number of at least 0. "
                f"Received: subtraction={subtraction}."
            )
        self.subtraction = float(subtraction)

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return a past of 0: nothing has been attended to."""
        return {"past": self.no_weights(memory)}

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Subtract the weights so far."""
        weights = self.normalize(at - (self.subtraction * self.key_dim**-0.5) * state["past"], mask)
        return weights, {"past": state["past"] + weights}

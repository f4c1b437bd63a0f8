"""Recurrent cross-attention whose query sees how much of a source position has been attended to so far."""

from keras_attn_zoo.layers.previous_weight_attention import PreviousWeightAttention
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Tensor


@attention(
    "accumulated_weight",
    source="Rosendahl 4",
    places=("cross",),
    year=2021,
    arguments=lambda sizes: sizes.heads,
    cost=("I", "I·J·d", "J·d", "N·J weights"),
)
class AccumulatedWeightAttention(PreviousWeightAttention):
    """Multi-head cross-attention with the sum of all previous weights of a source position concatenated to the query.

    Use it as cross-attention of a Transformer's decoder, to tell each position what has already been covered.

        ê_ij^n = (W_k^n h_j)ᵀ (W_q^n s_i + w^n Σ_{i'<i} α_{i'j}^n) / √d_k
        α_ij^n = softmax_j(ê_ij^n)

    Symbols: s the query, h the key; n counts the heads; [W_q w] is the paper's
    W_q', with one column w `(heads, key_dim)` for the sum, a number for each j.

    Args, shapes, masking, errors: see `MultiHeadAttention`; a `value` is required.
    The sum is over the weights before dropout.

    State: `{"past": (batch, heads, 1, source)}`, the sum of the weights so far.

    Example:
        >>> layer = AccumulatedWeightAttention(num_heads=2, key_dim=4)
        >>> context = layer(keras.ops.ones((3, 5, 8)), keras.ops.ones((3, 7, 8)))  # (3, 5, 8)

    Source: Rosendahl, equation 4.
    """

    def remember(self, past: Tensor, weights: Tensor) -> Tensor:
        """Add the weights of this position."""
        return past + weights

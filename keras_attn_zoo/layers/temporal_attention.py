"""Temporal attention: exponentiated energies divided by those of all previous target positions."""

from keras import ops

from keras_attn_zoo.kernels import EXCLUDED
from keras_attn_zoo.layers.base.attention_layer import AttentionLayer
from keras_attn_zoo.layers.base.dot_product_attention import DotProductAttention
from keras_attn_zoo.layers.luong_attention import LuongAttention
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Tensor, TensorTree


class _OverPastEnergies(AttentionLayer):
    """Mixin before a mechanism without a state: its energies over what they were before."""

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return the logarithm of a sum of 0."""
        return {"past": self.no_weights(memory) + EXCLUDED}

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Divide by the past, in logarithms, and add the present to it."""
        past = state["past"]
        weights = self.normalize(at - ops.where(past > EXCLUDED / 2, past, 0.0), mask)
        now = at if mask is None else ops.where(mask, at, EXCLUDED)
        return weights, {"past": ops.logaddexp(past, now)}


@attention(
    "temporal",
    source="Sankaran",
    places=("cross",),
    year=2016,
    arguments=lambda sizes: {"score": "concat"},
    cost=("I", "I·J·d", "J·d", "J sums"),
)
class TemporalAttention(_OverPastEnergies, LuongAttention):
    """Attention in which a source position has to exceed what its energies were before: coverage without parameters.

    Use it as cross-attention of an RNN decoder, to avoid translating words twice or not at all.

        ê_ij = exp(e_ij) / Σ_{i'<i} exp(e_i'j),   ê_ij = exp(e_ij) where there is no i'
        α_ij = ê_ij / Σ_k ê_ik
        c_i  = Σ_j α_ij h_j

    Symbols: e the energies of `LuongAttention`; h_j encoder state (key and value).

    Args: see `LuongAttention`; "concat" has the network of the paper.

    Shapes, errors: see `LuongAttention`.

    Masking: see `AttentionLayer`. Only energies of positions that might be attended to are part of the sum.

    State: `{"past": (batch, 1, 1, source)}`, the logarithm of the sum, so that nothing overflows.

    Example:
        >>> layer = TemporalAttention(score="concat", units=8)
        >>> context = layer(keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 6)))  # (2, 3, 6)

    Source: Sankaran, Mi, Al-Onaizan and Ittycheriah 2016.

    Differences from the paper: another normaliser than the softmax takes log ê_ij for the energies.
    """


@attention(
    "multi_head_temporal",
    source="Sankaran",
    places=("cross",),
    year=2016,
    arguments=lambda sizes: sizes.heads,
    cost=("I", "I·J·d", "J·d", "N·J sums"),
)
class MultiHeadTemporalAttention(_OverPastEnergies, DotProductAttention):
    """Multi-head cross-attention in which a source position has to exceed what its energies were before.

    Use it as cross-attention of a Transformer's decoder, to avoid translating words twice or not at all.

        å_ij^n = ê_ij^n - log Σ_{i'<i} exp(ê_i'j^n),   å_ij^n = ê_ij^n where there is no i'
        α_ij^n = softmax_j(å_ij^n)

    Symbols: ê the energies of `MultiHeadAttention`; n counts the heads.

    Args, shapes, errors: see `MultiHeadAttention`; a `value` is required.

    Masking: see `TemporalAttention`.

    State: `{"past": (batch, heads, 1, source)}`, the logarithm of the sum.

    Example:
        >>> layer = MultiHeadTemporalAttention(num_heads=2, key_dim=4)
        >>> context = layer(keras.ops.ones((3, 5, 8)), keras.ops.ones((3, 7, 8)))  # (3, 5, 8)

    Source: Sankaran, Mi, Al-Onaizan and Ittycheriah 2016.

    Differences from the paper: several heads, and scaled dot products for energies.
    """

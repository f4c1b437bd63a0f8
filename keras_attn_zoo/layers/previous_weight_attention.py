"""Recurrent cross-attention whose query sees the previous weight of each source position."""

from keras import ops

from keras_attn_zoo.layers.base.dot_product_attention import DotProductAttention
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Shape, Tensor, TensorTree


@attention(
    "previous_weight",
    source="Rosendahl 3",
    places=("cross",),
    year=2021,
    arguments=lambda sizes: sizes.heads,
    cost=("I", "I·J·d", "J·d", "N·J weights"),
)
class PreviousWeightAttention(DotProductAttention):
    """Multi-head cross-attention with the previous weight of each source position concatenated to the query.

    Use it as cross-attention of a Transformer's decoder, to tell each position where the previous one looked.

        ê_ij^n = (W_k^n h_j)ᵀ (W_q^n s_i + w^n α_{i-1,j}^n) / √d_k,   α_0 = 0
        α_ij^n = softmax_j(ê_ij^n)

    Symbols: s the query, h the key; n counts the heads; [W_q w] is the paper's
    W_q', with one column w `(heads, key_dim)` for the weight, a number for each j.
    So the energy is the plain one plus α_{i-1,j} · (k_jᵀ w) / √d_k.

    Args, shapes, masking, errors: see `MultiHeadAttention`; a `value` is required.
    The weights that are fed back are those before dropout.

    State: `{"past": (batch, heads, 1, source)}`, the previous weights.

    Example:
        >>> layer = PreviousWeightAttention(num_heads=2, key_dim=4)
        >>> context = layer(keras.ops.ones((3, 5, 8)), keras.ops.ones((3, 7, 8)))  # (3, 5, 8)

    Source: Rosendahl, equation 3.
    """

    plain_heads = "each head compares its past, without a position, with its keys"

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Make w and the projections."""
        super().build(query_shape, value_shape, key_shape)
        self.weight_kernel = add_kernel(self, "weight_kernel", (self.num_heads, self.key_dim))

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
    ) -> TensorTree:
        """Project keys and values, and make the slopes k_jᵀ w / √d_k, once per sentence."""
        memory = super().prepare(value, key=key, value_mask=value_mask)
        slopes = ops.matmul(memory["key"], self.weight(self.weight_kernel)[..., None])
        return {**memory, "slopes": ops.cast(ops.transpose(slopes, (0, 1, 3, 2)), "float32") * self.key_dim**-0.5}

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return a past of 0: nothing has been attended to."""
        return {"past": self.no_weights(memory)}

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Add the energies from the weights so far."""
        weights = self.normalize(at + state["past"] * memory["slopes"], mask)
        return weights, {"past": self.remember(state["past"], weights)}

    def remember(self, past: Tensor, weights: Tensor) -> Tensor:
        """Return the weights of this position."""
        return weights

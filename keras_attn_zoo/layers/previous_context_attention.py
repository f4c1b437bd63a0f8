"""Recurrent cross-attention whose query sees the previous context."""

from keras import ops

from keras_attn_zoo.layers.base.dot_product_attention import DotProductAttention
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Shape, Tensor, TensorTree


@attention(
    "previous_context",
    source="Rosendahl 2",
    places=("cross",),
    year=2021,
    arguments=lambda sizes: sizes.heads,
    cost=("I", "I·J·d + I·J²·N", "J·d", "N·J weights"),
)
class PreviousContextAttention(DotProductAttention):
    """Multi-head cross-attention with the head's previous context concatenated to the query.

    Use it as cross-attention of a Transformer's decoder, to tell each position what the previous one read.

        ê_ij^n = (W_k^n h_j)ᵀ (W_q^n s_i + W_f^n c_{i-1}^n) / √d_k,   c_0 = 0
        α_ij^n = softmax_j(ê_ij^n),   c_i^n = Σ_j α_ij^n (W_v^n h_j)

    Symbols: s the query, h key and value; n counts the heads; [W_q W_f] is the
    paper's W_q', W_f `(heads, value_dim, key_dim)`; the contexts are joined as in
    `MultiHeadAttention`.

    The loop does not need c_{i-1}, only the weights that produced it:
    (W_f c_{i-1})ᵀ k_j = Σ_j' α_{i-1,j'} v_j'ᵀ W_fᵀ k_j, a matrix of source by source.

    Args, shapes, masking, errors: see `MultiHeadAttention`; a `value` is required.
    With dropout, the context that is fed back is the one after dropout.

    State: `{"past": (batch, heads, 1, source)}`, the previous weights.

    Example:
        >>> layer = PreviousContextAttention(num_heads=2, key_dim=4)
        >>> context = layer(keras.ops.ones((3, 5, 8)), keras.ops.ones((3, 7, 8)))  # (3, 5, 8)

    Source: Rosendahl, equation 2.
    """

    plain_heads = "each head compares its past, without a position, with its keys"

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Make W_f and the projections."""
        super().build(query_shape, value_shape, key_shape)
        self.context_kernel = add_kernel(self, "context_kernel", (self.num_heads, self.value_dim, self.key_dim))

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
    ) -> TensorTree:
        """Project keys and values, and make the matrix v_j'ᵀ W_fᵀ k_j / √d_k, once per sentence."""
        memory = super().prepare(value, key=key, value_mask=value_mask)
        values = ops.matmul(memory["value"], self.weight(self.context_kernel)) * self.key_dim**-0.5
        return {**memory, "context_energies": ops.matmul(values, ops.transpose(memory["key"], (0, 1, 3, 2)))}

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return a past of 0: there is no context yet."""
        return {"past": self.no_weights(memory)}

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Add the previous context's energies, and keep the weights that make the next context."""
        past = ops.cast(state["past"], self.operand_dtype)
        energies = at + ops.cast(ops.matmul(past, memory["context_energies"]), "float32")
        weights = self.normalize(energies, mask)
        return weights, {"past": weights}

    def after_dropout(self, state: TensorTree, dropped: Tensor) -> TensorTree:
        """Keep the weights under dropout: they made the context."""
        return {"past": dropped}

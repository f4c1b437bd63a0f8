"""Forgetting attention: softmax attention whose energies fall with what the gates between two positions forget."""

from keras import ops

from keras_attn_zoo.kernels import without_padding, write
from keras_attn_zoo.layers.base.dot_product_attention import DotProductAttention
from keras_attn_zoo.layers.base.self_attention_steps import ProjectionsSeen
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Shape, Tensor, TensorTree


@attention(
    "forgetting",
    source="Lin §3",
    places=("encoder", "decoder"),
    year=2025,
    arguments=lambda sizes: sizes.heads,
    cost=("1 (a cumulative sum)", "I²·d", "I·d", "I·d keys and values, I sums a head"),
)
class ForgettingAttention(ProjectionsSeen, DotProductAttention):
    """Multi-head self-attention with a forget gate: each position may lower the weights of all that came before.

    Use it in place of a decoder's self-attention if what is far back should fade, by as much as the words say. The
    gates order the positions, so the model needs no position encodings.

        ê_ij = (W_q x_i)ᵀ (W_k x_j) / √d_k + Σ_{j<l≤i} log f_l,   f_l = sigmoid(w x_l + a)
        α_ij = softmax_j(ê_ij),   c_i = O [Σ_j α_ij (W_v x_j)] + b

    Symbols: x the input; f the gate of a head, w `(width,)`; the brackets join the heads.

    Args:
        num_heads, key_dim: number of heads; width of a query's and key's head.
        **kwargs: see `MultiHeadAttention`.

    Shapes: `(batch, length, width)` in and out; scores `(batch, heads, length, length)`.

    Masking: every mask. Padding forgets nothing.

    State: the keys, values and sums of log f so far, `{"key": (batch, heads, max_length, key_dim), "value": ...,
    "sums": (batch, heads, max_length, 1), "total": (batch, heads, 1, 1), "position": (batch,)}`.

    Raises:
        ValueError: sizes that are not positive integers; a value that is not the query.

    Example:
        >>> layer = ForgettingAttention(num_heads=2, key_dim=4)
        >>> context = layer(keras.ops.ones((3, 5, 8)), use_causal_mask=True)  # (3, 5, 8)

    Source: Lin, section 3.

    Differences from the paper: it is causal there. Without a causal mask, as in an encoder, what the gates between two
    positions forget counts in both directions, Σ_{i<l≤j} log f_l for j > i. The norms, the shift and the output gate of
    its "Pro" block are not part of it.
    """

    attends_to = "itself"

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Build the projections and the gate."""
        super().build(query_shape)
        self.add_projection("gate", 1, query_shape)

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
    ) -> TensorTree:
        """Project keys and values, and add up what the positions forget."""
        memory = super().prepare(value, key, value_mask, max_length)
        if value is None:
            return memory
        forgotten = self._forgotten(without_padding(value, memory["mask"]))
        forgotten = ops.where(memory["mask"][:, None, :, None], forgotten, 0.0)
        return {**memory, "sums": ops.cumsum(forgotten, axis=2)}

    def _forgotten(self, x):
        """The logarithms of the gates, float32 `(batch, heads, length, 1)`."""
        return ops.log_sigmoid(ops.cast(self.gate_dense(ops.cast(x, self.compute_dtype)), "float32"))

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return the energies less what is forgotten between two positions."""
        energies = super().ahead(query, memory, positions)
        sums = memory.get("total", memory["sums"])
        return energies - ops.abs(sums - ops.transpose(memory["sums"], (0, 1, 3, 2)))

    def nothing_seen(self, batch_size: int, max_length: int) -> TensorTree:
        """Return empty places, and nothing forgotten."""
        shape = (batch_size, self.num_heads)
        sums = {"sums": ops.zeros((*shape, max_length, 1), "float32"), "total": ops.zeros((*shape, 1, 1), "float32")}
        return {**super().nothing_seen(batch_size, max_length), **sums}

    def see(self, query: Tensor, seen: TensorTree, index: int | Tensor) -> TensorTree:
        """Project the position, and add what it forgets."""
        total = seen["total"] + self._forgotten(query)
        sums = {"sums": write(seen["sums"], total, index, axis=2), "total": total}
        return {**super().see(query, seen, index), **sums}

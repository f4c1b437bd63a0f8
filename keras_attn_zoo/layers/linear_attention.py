"""Linear attention: products of positive features in place of the softmax, so that the past is one matrix."""

from keras import ops

from keras_attn_zoo.layers.base.matrix_state import MatrixStateAttention, divided
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Tensor, TensorTree


@attention(
    "linear",
    source="Katharopoulos 4-7, 16-20",
    places=("encoder", "decoder"),
    year=2020,
    arguments=lambda sizes: {**sizes.heads, "dropout": 0.0},
    cost=("I/32 (chunks)", "I·d²/N", "d²/N", "d²/N"),
)
class LinearAttention(MatrixStateAttention):
    """Self-attention whose weights are products of positive features, without a softmax.

    Use it in place of self-attention if sequences are long: a call costs as much per position whatever their length,
    and a step of a search the same at every position, with a matrix for each head as its state.

        α_ij = φ(q_i)ᵀ φ(k_j) / Σ_l φ(q_i)ᵀ φ(k_l),   φ(x) = elu(x) + 1
        c_i  = O [Σ_j α_ij v_j] + b

        S_i = S_{i-1} + φ(k_i) v_iᵀ,   z_i = z_{i-1} + φ(k_i)                     in steps
        c_i = O [S_iᵀ φ(q_i) / z_iᵀ φ(q_i)] + b

    Symbols: q = W_q x, k = W_k x and v = W_v x of the input x, in every head; the
    brackets join the heads; l runs over what may be attended to.

    Args:
        num_heads, key_dim, value_dim: number of heads; widths of a query's and key's head, and of a value's.
        **kwargs: see `MultiHeadAttention`.

    Shapes: `(batch, length, width)` in and out; scores `(batch, heads, length, length)`.

    Masking: every mask. A call whose scores are asked for, or which has an `attention_mask`, computes all weights.

    State: S and z as one matrix, `{"matrix": (batch, heads, key_dim, value_dim + 1), "position": (batch,)}`; steps
    return scores if `prepare` is asked for them, see `MatrixStateAttention`.

    Raises:
        ValueError: sizes that are not positive integers; a dropout; a value that is not the query.

    Example:
        >>> layer = LinearAttention(num_heads=2, key_dim=4)
        >>> context = layer(keras.ops.ones((3, 5, 8)), use_causal_mask=True)  # (3, 5, 8)

    Source: Katharopoulos, equations 4 to 7 and 16 to 20.

    Differences from the paper: none; its projections have biases here, as in Keras' layer, unless `use_bias=False`.
    """

    softmax_alone = "its weights are products of features, divided by their sum"

    @property
    def state_columns(self) -> int:
        """How many columns the matrix has: the last one is z."""
        return self.value_dim + 1

    def project_part(self, part: str, x: Tensor, positions: Tensor) -> Tensor:
        """Return the features of queries and keys; values with a 1 at the end."""
        found = super().project_part(part, x, positions)
        if part == "value":
            return ops.concatenate([found, ops.ones_like(found[..., :1])], axis=-1)
        # As elu(x) + 1, but above 0 for any x: 1 would swallow small numbers.
        return ops.exp(ops.minimum(found, 0.0)) + ops.maximum(found, 0.0)

    def outputs(self, query: Tensor, memory: TensorTree, causal: bool) -> Tensor:
        """Return sums over all positions; without a causal mask, two products."""
        if causal:
            return super().outputs(query, memory, causal)
        whole = ops.matmul(ops.transpose(memory["key"], (0, 1, 3, 2)), memory["value"])
        return ops.matmul(query, whole)

    def finish(self, outputs: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """Divide by z."""
        return super().finish(divided(outputs[..., :-1], outputs[..., -1:]), x, mask)

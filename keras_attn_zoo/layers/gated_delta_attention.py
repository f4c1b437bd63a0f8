"""Gated delta rule: a matrix that forgets, and in which a key's value replaces the one before."""

from functools import partial

import numpy as np
from keras import ops

from keras_attn_zoo.layers.base.matrix_recurrence import outputs_in_chunks
from keras_attn_zoo.layers.base.matrix_state import MatrixStateAttention
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Shape, Tensor, TensorTree

_EPSILON = 1e-6


@attention(
    "gated_delta",
    source="Yang 10",
    places=("decoder",),
    year=2024,
    arguments=lambda sizes: {**sizes.heads, "dropout": 0.0},
    cost=("I/32 (chunks)", "I·d²/N", "d²/N", "d²/N"),
)
class GatedDeltaAttention(MatrixStateAttention):
    """Decoder self-attention with an associative memory: a matrix that corrects what it holds of a key.

    Use it in place of a decoder's self-attention if sequences are long or a search must be cheap: its state is a matrix
    for each head, which, unlike that of linear attention, can replace what it has stored, and forget.

        S_i = α_i (S_{i-1} - β_i k_i (k_iᵀ S_{i-1})) + β_i k_i v_iᵀ
        c_i = O (silu(W_g x_i) ⊙ [w ⊙ norm(S_iᵀ q_i / √d_k)]) + b
        α_i = exp(-e^A softplus(W_α x_i + t)),   β_i = sigmoid(W_β x_i)

    Symbols: q and k are silu(W_q x) and silu(W_k x) of the input x, divided by their lengths, v = silu(W_v x), in every
    head; α, β, A and t are numbers of a head; norm divides by the root of the mean square, w `(value_dim,)`; the
    brackets join the heads.

    Args:
        num_heads, key_dim, value_dim: number of heads; widths d_k of a query's and key's head, and of a value's.
        **kwargs: see `MultiHeadAttention`.

    Shapes: `(batch, length, width)` in and out; scores `(batch, heads, length, length)`.

    Scores: the factors of the values in S_iᵀ q_i without their signs, divided by their sum.

    Masking: always causal, whatever `use_causal_mask` says. Padding writes nothing and forgets nothing. An
    `attention_mask` hides values from a position, but not what their keys have changed. A call with one, or
    whose scores are asked for, computes all factors.

    State: S, see `MatrixStateAttention`.

    Raises:
        ValueError: sizes that are not positive integers; a dropout; a value that is not the query.

    Example:
        >>> layer = GatedDeltaAttention(num_heads=2, key_dim=4)
        >>> context = layer(keras.ops.ones((3, 5, 8)))  # (3, 5, 8)

    Source: Yang, equation 10; its gates, norms and chunks in sections 3.3 and 3.4.

    Differences from the paper: no short convolutions of queries, keys and values. A and t begin spread evenly over
    the heads, not at random. Biases of all projections but W_α, as in Keras' layer, unless
    `use_bias=False`.
    """

    softmax_alone = "its state is a matrix, without energies"
    always_causal = True

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Build projections, gates and norm."""
        super().build(query_shape)
        for name, width in (("gate", self.value_dim), ("decay", 1), ("rate", 1)):
            # t is the bias of the decay.
            self.add_projection(name, width, query_shape, use_bias=name != "decay")
        # As in Mamba-2: e^A from 1 to 16, and steps softplus(t) from 0.001 to 0.1.
        steps = np.geomspace(0.001, 0.1, self.num_heads)
        begin = {"log_speed": np.log(np.linspace(1, 16, self.num_heads)), "step_bias": np.log(np.expm1(steps))}
        for name, values in begin.items():
            # No assignment: where Keras builds a layer to infer its output, that would be lost.
            first = partial(_as_given, values)
            setattr(self, name, self.add_weight(name=name, shape=values.shape, initializer=first, autocast=False))
        self.scale = self.add_weight(name="scale", shape=(self.value_dim,), initializer="ones", autocast=False)

    def project_part(self, part: str, x: Tensor, positions: Tensor) -> Tensor:
        """Return queries and keys of length 1, and values."""
        found = ops.silu(super().project_part(part, x, positions))
        if part == "value":
            return found
        found = found * ops.rsqrt(ops.sum(found**2, axis=-1, keepdims=True) + _EPSILON)
        return found * self.key_dim**-0.5 if part == "query" else found

    def written(self, x: Tensor, positions: Tensor, real: Tensor | None = None) -> dict[str, Tensor]:
        """Return key, value, log α and β of positions."""
        rate = ops.sigmoid(super().project_part("rate", x, positions))
        return {**super().written(x, positions, real), "rate": rate}

    def log_decay(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Return log α."""
        speed, bias = (ops.convert_to_tensor(w)[:, None, None] for w in (self.log_speed, self.step_bias))
        found = -ops.exp(speed) * ops.softplus(super().project_part("decay", x, None) + bias)
        return found if real is None else ops.where(real[:, None, :, None], found, 0.0)

    def energies(self, query: Tensor, memory: TensorTree) -> Tensor:
        """Return the factors of the values: what is read if each value is a vector of its own."""
        length = ops.shape(query)[1]
        own = ops.broadcast_to(ops.eye(length), (*ops.shape(memory["key"])[:2], length, length))
        projected = self.project_part("query", query, ops.arange(length))
        return outputs_in_chunks(projected, memory["key"], own, memory["log_decay"], memory["rate"])

    def finish(self, outputs: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """Normalise each head, and open the gate."""
        normalized = outputs * ops.rsqrt(ops.mean(outputs**2, axis=-1, keepdims=True) + _EPSILON)
        gate = ops.silu(super().project_part("gate", x, None))
        return super().finish(normalized * ops.convert_to_tensor(self.scale) * gate, x, mask)


def _as_given(values, shape, dtype=None):
    return ops.convert_to_tensor(values, dtype)

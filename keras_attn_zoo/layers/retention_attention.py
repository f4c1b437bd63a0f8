"""Retention: products of queries and keys that decay with the distance, without a softmax."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn_zoo.layers.base.matrix_state import MatrixStateAttention
from keras_attn_zoo.layers.base.positions.rotary import rotated
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Shape, Tensor, TensorTree

_EPSILON = 1e-6


@attention(
    "retention",
    source="Sun 5-8",
    places=("encoder", "decoder"),
    year=2023,
    arguments=lambda sizes: {**sizes.heads, "dropout": 0.0},
    cost=("I/32 (chunks)", "I·d²/N", "d²/N", "d²/N"),
)
class RetentionAttention(MatrixStateAttention):
    """Self-attention whose weights are products that fall with the distance, at another rate in each head.

    Use it in place of a decoder's self-attention if sequences are long or a search must be cheap: its state is a matrix
    for each head. It knows relative positions, so the model needs no position encodings.

        α_ij^n = (R_i q_i)ᵀ (R_j k_j) / √d_k · γ_n^{|i-j|},   γ_n = 1 - 2^{-5-n}
        c_i = O (swish(W_g x_i) ⊙ [norm(Σ_j α_ij^n v_j)]) + b

        S_i = γ_n S_{i-1} + (R_i k_i) v_iᵀ / √d_k                                   in steps

    Symbols: q = W_q x, k = W_k x and v = W_v x of the input x, in every head n, counted from 0; R_i turns two halves of
    a vector, as real and imaginary parts, by i 10000^(-2m/d_k) in dimension m; norm subtracts the mean of a head and
    divides by the standard deviation; the brackets join the heads.

    Args:
        num_heads, key_dim, value_dim: number of heads; widths d_k of a query's and key's head, an even number, and of
            a value's.
        **kwargs: see `MultiHeadAttention`.

    Shapes: `(batch, length, width)` in and out; scores `(batch, heads, length, length)`.

    Scores: |α_ij| / Σ_l |α_il|, as α may be negative and need not sum to 1.

    Masking: every mask. A call whose scores are asked for, or which has an `attention_mask`, computes all weights.

    State: S, see `MatrixStateAttention`.

    Raises:
        ValueError: sizes that are not positive integers; an odd `key_dim`; a dropout; a value that is not the query.

    Example:
        >>> layer = RetentionAttention(num_heads=2, key_dim=4)
        >>> context = layer(keras.ops.ones((3, 5, 8)), use_causal_mask=True)  # (3, 5, 8)

    Source: Sun, equations 5 to 8.

    Differences from the paper: it is causal there; without a causal mask, weights fall alike on both sides. Its three
    factors for the range of numbers are left out but for 1/√d_k, since the norm undoes them. Biases, as in Keras'
    layer, unless `use_bias=False`. A value's head is as wide as a key's by default; there, twice as wide.
    """

    softmax_alone = "its weights are products of queries and keys, which nothing normalises"

    def __init__(self, num_heads: int, key_dim: int, value_dim: int | None = None, **kwargs: Any) -> None:
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        if self.key_dim % 2:
            raise ValueError(
                f"{type(self).__name__}: `key_dim` must be even, as halves of a vector are turned. "
                f"Received: key_dim={self.key_dim}."
            )

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Build the projections and the gate."""
        super().build(query_shape)
        self.add_projection("gate", self.value_dim, query_shape)

    def project_part(self, part: str, x: Tensor, positions: Tensor) -> Tensor:
        """Return queries and keys, turned by their positions, and values."""
        found = super().project_part(part, x, positions)
        if part == "value":
            return found
        turned = rotated(found, positions)
        return turned * self.key_dim**-0.5 if part == "query" else turned

    def log_decay(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Return log γ, the same at all positions."""
        decays = np.log1p(-(2.0 ** (-5 - np.arange(self.num_heads))))
        decays = ops.convert_to_tensor(decays, dtype="float32")[None, :, None, None]
        return ops.broadcast_to(decays, (1, self.num_heads, ops.shape(x)[1], 1))

    def outputs(self, query: Tensor, memory: TensorTree, causal: bool) -> Tensor:
        """Return sums over the positions so far; without a causal mask, over those ahead too."""
        found = super().outputs(query, memory, True)
        if causal:
            return found
        backward = {part: ops.flip(x, axis=2) for part, x in memory.items() if part != "mask"}
        ahead = ops.flip(super().outputs(ops.flip(query, axis=2), backward, True), axis=2)
        # Its own position is in both.
        return found + ahead - ops.sum(query * memory["key"], axis=-1, keepdims=True) * memory["value"]

    def finish(self, outputs: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """Normalise each head, and open the gate."""
        mean, variance = ops.moments(outputs, axes=-1, keepdims=True)
        normalized = (outputs - mean) * ops.rsqrt(variance + _EPSILON)
        return super().finish(normalized * keras.activations.silu(super().project_part("gate", x, None)), x, mask)

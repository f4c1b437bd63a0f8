"""Dense Synthesizer: each position computes its energies alone, without looking at what it attends to."""

import math
from typing import Any

from keras import ops

from keras_attn_zoo.kernels import first
from keras_attn_zoo.layers.base.checks import check_positive
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.layers.base.position_attention import check_length
from keras_attn_zoo.layers.base.self_attention_steps import ProjectionsSeen
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Shape, Tensor, TensorTree


@attention(
    "dense_synthesizer",
    source="Tay §3",
    places=("encoder", "decoder"),
    year=2020,
    arguments=lambda sizes: {**sizes.heads, "max_length": sizes.max_length},
    cost=("1", "I²·d", "I·d", "I·d values"),
)
@attention(
    "factorized_dense_synthesizer",
    source="Tay §3",
    places=("encoder", "decoder"),
    year=2020,
    arguments=lambda sizes: {**sizes.heads, "max_length": sizes.max_length, "factorized": True},
    cost=("1", "I²·d", "I·d", "I·d values"),
)
class DenseSynthesizerAttention(ProjectionsSeen):
    """Self-attention whose energies a network computes from the attending token alone.

    Use it in place of self-attention to see what the comparison of tokens is worth: a token says at which positions it
    looks, whatever stands there. It must know the longest sentence.

        ê_i  = W_2 relu(W_1 x_i + b_1) + b_2,   α_i = softmax(ê_i)
        ê_ij = u_{i,⌊j/B⌋} w_{i,j mod B},   [u_i ; w_i] = W_2 relu(W_1 x_i + b_1) + b_2         `factorized`
        c_i  = O [Σ_j α_ij (W_v x_j)] + b

    Symbols: x the input; in every head, W_1 `(width, key_dim)` and W_2 `(key_dim, max_length)`, or if factorised
    `(key_dim, A + B)`, where A and B are about the root of `max_length`; the brackets of O join the heads.

    Args:
        num_heads, key_dim: number of heads; width of the hidden layer of a head, and of a value's head.
        max_length: the longest sentence.
        factorized: whether energies are products of two shorter vectors, which saves weights.
        **kwargs: see `MultiHeadAttention`.

    Shapes: `(batch, length, width)` in and out; scores `(batch, heads, length, length)`.

    Masking: the softmax runs over the positions that may be attended to.

    State: the values so far, `{"value": (batch, heads, max_length, value_dim), "position": (batch,)}`.

    Raises:
        ValueError: a sentence longer than `max_length`; a value that is not the query.

    Example:
        >>> layer = DenseSynthesizerAttention(num_heads=2, key_dim=4, max_length=10)
        >>> context = layer(keras.ops.ones((3, 5, 8)))  # (3, 5, 8)

    Source: Tay, section 3 (Dense, Factorized Dense).

    Differences from the paper: A B may exceed `max_length`, which need not be a product; what lies beyond is not used.
    Its u and w are two functions of x; here they share W_1.
    """

    attends_to = "itself"

    def __init__(
        self, num_heads: int, key_dim: int, max_length: int = 256, factorized: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        self.longest_sentence = self.max_length = check_positive(self, "max_length", max_length)
        self.factorized = bool(factorized)
        longer = math.isqrt(self.max_length - 1) + 1
        self.factors = longer, -(-self.max_length // longer)

    def build(self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None) -> None:
        """Build the projections and the network."""
        super().build(query_shape)
        self.add_projection("hidden", self.key_dim, query_shape)
        outputs = sum(self.factors) if self.factorized else self.max_length
        self.position_kernel = add_kernel(self, "position_kernel", (self.num_heads, self.key_dim, outputs))
        self.position_bias = self.add_weight(
            name="position_bias", shape=(self.num_heads, 1, outputs), initializer="zeros"
        )

    def check_inputs(
        self, query: Tensor, value: Tensor | None, key: Tensor | None, masks: dict[str, Tensor | None]
    ) -> None:
        """Raise if shapes do not fit, or a sentence is too long."""
        super().check_inputs(query, value, key, masks)
        check_length(self, query.shape[1], self.max_length)

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
    ) -> TensorTree:
        """Project the values; for steps, check their length."""
        memory = super().prepare(value, key, value_mask, max_length)
        if value is None:
            check_length(self, max_length, self.max_length)
            return memory
        return {**memory, "value": self.value_dense(memory["value"])}

    def energies(self, query: Tensor, memory: TensorTree) -> Tensor:
        """Run the network, whose first outputs are the positions of the sentence."""
        length = ops.shape(memory["positions" if "index" in memory else "mask"])[-1]
        length = check_length(self, length, self.max_length)
        kernel, bias = self.weight(self.position_kernel), self.weight(self.position_bias)
        if not self.factorized:
            kernel, bias = (first(x, length, axis=2) for x in (kernel, bias))
        found = ops.matmul(ops.relu(self.hidden_dense(query)), kernel) + bias
        if not self.factorized:
            return found
        outer, inner = found[..., : self.factors[0], None], found[..., None, self.factors[0] :]
        return first(ops.reshape(outer * inner, (*ops.shape(found)[:3], math.prod(self.factors))), length, axis=3)

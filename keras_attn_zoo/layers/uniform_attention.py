"""Uniform attention: every real source token has the same weight."""

from keras import ops

from keras_attn_zoo.kernels import equal_weights
from keras_attn_zoo.layers.base.attention_layer import AttentionLayer
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.support.types import Tensor, TensorTree


@attention("uniform", source="Hiemsch §4", places=("cross",), year=2023, cost=("1", "I·J·d", "J·d", "none"))
class UniformAttention(AttentionLayer):
    """Attention with fixed, equal weights: the ablation that shows what learned weights are worth.

    Use it as a baseline for a learned attention, with everything else unchanged.

        α_ij = 1 / |{j : j is a real source token}|
        c_i  = Σ_j α_ij h_j

    Symbols: h_j the values, α the weights, c the context. There are no parameters; the query only determines the number
    of target positions, and `key` is ignored.

    Shapes, masking, errors: see `AttentionLayer`. State: none.

    Example:
        >>> layer = UniformAttention()
        >>> context = layer(keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 6)))  # (2, 3, 6)

    Source: Hiemsch, "Incorporating Attention Mechanisms in RNN-based
    Encoder-Decoder Models", section 4 (the model with fixed uniform weights).
    """

    has_fixed_weights = True
    softmax_alone = "its weights are equal whatever the energies"

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
    ) -> TensorTree:
        """Compute weights and context, which are the same at every target position, once per sentence."""
        memory = super().prepare(value, key=key, value_mask=value_mask)
        scores = equal_weights(memory["mask"])[:, None, None]
        return {**memory, "scores": scores, "context": super().weigh(scores, memory)}

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return the result of `prepare`, as there are no energies."""
        return memory["scores"]

    def observe(
        self, query: Tensor, memory: TensorTree, state: TensorTree
    ) -> tuple[TensorTree, Tensor | None, TensorTree]:
        """Return the whole source: no further mask applies in a step."""
        return memory, None, state

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Return equal weights, the same for all target positions unless a mask distinguishes them."""
        # A mask may have one column for all source positions.
        return at if mask is None else equal_weights(ops.logical_and(mask, memory["mask"][:, None, None])), state

    def weigh(
        self, weights: Tensor, memory: TensorTree, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Return the mean of the values."""
        return memory["context"] if mask is None else super().weigh(weights, memory)

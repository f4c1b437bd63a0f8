"""Uniform attention: every real source token weighs the same."""

from keras import ops

from keras_attn_zoo.layers.common.attention_layer import AttentionLayer
from keras_attn_zoo.layers.registry import attention
from keras_attn_zoo.types import Shape, Tensor, TensorTree


@attention(
    "uniform",
    source="Hiemsch §4",
    places=("cross",),
    year=2023,
    cost=("1", "I·J·d", "J·d", "none"),
)
class UniformAttention(AttentionLayer):
    """Attention with fixed, equal weights: the ablation that shows what learned weights are worth.

    Use it as a baseline for a learned attention, with everything else unchanged.

        α_ij = 1 / |{j : j is a real source token}|
        c_i  = Σ_j α_ij h_j

    Symbols: h_j the values, α the weights, c the context. There are no
    parameters; the query says only how many target positions there are, and
    `key` is ignored.

    Shapes, masking, errors: see `AttentionLayer`. State: none.

    Example:
        >>> layer = UniformAttention()
        >>> context = layer(keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 6)))  # (2, 3, 6)

    Source: Hiemsch, "Incorporating Attention Mechanisms in RNN-based
    Encoder-Decoder Models", section 4 (the model with fixed uniform weights).
    """

    softmax_alone = "its weights are equal whatever the energies"

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Nothing to build: the mechanism has no weights."""
        self.built = True

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
    ) -> TensorTree:
        """The weights and the context are the same at every target position: once per sentence will do."""
        memory = super().prepare(value, value_mask=value_mask)
        scores = _equal(memory["mask"])[:, None]
        return {**memory, "scores": scores, "context": self.weigh(scores[:, None], memory)[:, 0]}

    def energies(self, query: Tensor, memory: TensorTree) -> Tensor:
        """Equal ones."""
        batch, source = ops.shape(memory["mask"])
        return ops.zeros((batch, 1, ops.shape(query)[1], source))

    def step(
        self, query: Tensor, memory: TensorTree, state: TensorTree, noise: TensorTree | None = None
    ) -> tuple[Tensor, Tensor, TensorTree]:
        """Return what `prepare` found, for every row of a sentence."""
        sentences = ops.shape(memory["mask"])[0]
        each = ops.shape(query)[0] // sentences

        def spread(x):
            shape = ops.shape(x)[1:]
            return ops.reshape(ops.broadcast_to(x[:, None], (sentences, each, *shape)), (sentences * each, *shape))

        return spread(memory["context"]), spread(memory["scores"]), state

    def attend(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend from all target positions, without a softmax; once for all if no mask tells them apart."""
        if mask is None:
            scores, context = memory["scores"][:, None], memory["context"][:, None]
        else:
            # A mask may have one column for all source positions.
            scores = _equal(ops.logical_and(mask, memory["mask"][:, None, None]))
            context = self.weigh(scores, memory)
        batch, source = ops.shape(memory["mask"])
        target = ops.shape(query)[1]
        context = ops.broadcast_to(context, (batch, target, ops.shape(context)[-1]))
        return context, ops.broadcast_to(scores, (batch, 1, target, source))


def _equal(mask):
    """Equal float32 weights where a mask is true; 0 in a row where it is true nowhere."""
    real = ops.cast(mask, "float32")
    return real / ops.maximum(ops.sum(real, axis=-1, keepdims=True), 1.0)

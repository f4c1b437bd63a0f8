"""What the attentions by position share: weights that do not depend on tokens."""

from typing import Any

import keras
from keras import ops

from keras_attn_zoo.layers.common.headed_attention import HeadedAttention
from keras_attn_zoo.layers.common.loops import at_most, write
from keras_attn_zoo.layers.common.self_attention_steps import SelfAttentionSteps
from keras_attn_zoo.types import Tensor, TensorTree


class PositionAttention(SelfAttentionSteps, HeadedAttention):
    """Base class of self-attention whose energies depend only on positions.

        α^n = softmax(Ê^n),   c_i = Σ_n O^n Σ_j α_ij^n (W_v^n x_j) + b

    A subclass defines `position_energies`. There is no projection of query or key,
    and if no mask differs by sentence, one softmax serves the whole batch.

    State: the values so far, `{"value": (batch, heads, max_length, value_dim), "position": (batch,)}`;
    the memory of the steps holds the softmaxed rows, made once per search.
    """

    attends_to = "itself"
    max_length: int | None = None

    def position_energies(self, length: int | Tensor) -> Tensor:
        """Energies `(heads, length, length)` in float32."""
        raise NotImplementedError

    def check_inputs(
        self, query: Tensor, value: Tensor | None, key: Tensor | None, masks: dict[str, Tensor | None]
    ) -> None:
        """Raise if shapes do not fit, or a sentence is too long."""
        super().check_inputs(query, value, key, masks)
        if self.max_length is not None:
            check_length(self, query.shape[1], self.max_length)

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
    ) -> TensorTree:
        """Project the values; for steps, soften the rows of a causal call instead."""
        self.check_built()
        length = self.positions(max_length).shape[0] if value is None else ops.shape(value)[1]
        return self.prepare_from(self.position_energies(length), value, value_mask, max_length)

    def prepare_from(
        self, energies: Tensor, value: Tensor | None, value_mask: Tensor | None, max_length: int | None
    ) -> TensorTree:
        """Return the memory of given energies."""
        if value is None:
            positions = self.positions(max_length)
            return {"weights": self.normalize(energies, positions[:, None] >= positions[None])}
        memory = super().prepare(value, value_mask=value_mask)
        return {**memory, "value": self.value_dense(memory["value"]), "energies": energies}

    def ahead(self, query: Tensor, memory: TensorTree) -> TensorTree:
        """Energies that all sentences share, `(1, heads, length, length)`."""
        return memory["energies"][None]

    def weigh(
        self, weights: Tensor, memory: TensorTree, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Contexts of all heads, joined."""
        if self.dropout and training:
            # Dropout differs from sentence to sentence, the weights need not.
            weights = ops.broadcast_to(weights, (ops.shape(memory["value"])[0], *ops.shape(weights)[1:]))
        return super().weigh(weights, memory, mask, training)

    def attend(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Weigh the values of all positions, with one softmax for all sentences if no mask tells them apart."""
        context, scores = super().attend(query, memory, mask, training)
        return context, ops.broadcast_to(scores, (ops.shape(query)[0], *ops.shape(scores)[1:]))

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return empty places for the values."""
        if "value" in memory:
            return {}
        position = self.first_position(batch_size)
        shape = (batch_size, self.num_heads, memory["weights"].shape[-1], self.value_dim)
        return {"value": ops.zeros(shape, dtype=self.compute_dtype), "position": position}

    def step(
        self, query: Tensor, memory: TensorTree, state: TensorTree, noise: TensorTree | None = None
    ) -> tuple[Tensor, Tensor, TensorTree]:
        """Add the value of one position, and weigh those so far."""
        value = self.value_dense(ops.cast(query, self.compute_dtype)[:, None])
        length = memory["weights"].shape[-1]
        index = self.index_of_step(state["position"], length)
        state = {"value": write(state["value"], value, index, axis=2), "position": state["position"] + 1}
        row = index if isinstance(index, int) else ops.minimum(index, length - 1)
        row = ops.take(memory["weights"], row, axis=1)[None]
        weights = ops.cast(row, self.compute_dtype)
        if keras.config.backend() == "jax":
            # As weights of all sentences alike, a product of matrices would have XLA copy the values first.
            context = ops.sum(weights[..., None] * state["value"], axis=2, keepdims=True)
        else:
            context = ops.matmul(weights[:, :, None], state["value"])
        scores = ops.broadcast_to(row, (ops.shape(query)[0], *row.shape[1:]))
        return self.within(self.merge(context, None)[:, 0], index, length), scores, state


def check_length(layer: Any, length: int | Tensor, max_length: int) -> int | Tensor:
    """Return the length of a sentence; raise if it is longer than the matrices of a layer.

    A length that is unknown until the layer runs, as in TensorFlow, is checked then.
    """
    return at_most(
        length,
        max_length,
        f"{type(layer).__name__}: a sentence of {{}} positions is longer than `max_length`={max_length}: "
        "make the layer with a larger one, or cut the sentence.",
    )

"""The base class of attention by position, whose weights do not depend on tokens."""

from typing import Any

from keras import ops

from keras_attn_zoo.kernels import at_most
from keras_attn_zoo.layers.base.rematerialization import may_be
from keras_attn_zoo.layers.base.self_attention_steps import ProjectionsSeen
from keras_attn_zoo.support.types import Tensor, TensorTree


class PositionAttention(ProjectionsSeen):
    """Base class of self-attention whose energies depend only on positions.

        α^n = softmax(Ê^n),   c_i = Σ_n O^n Σ_j α_ij^n (W_v^n x_j) + b

    A subclass defines `position_energies`. There is no projection of query or key,
    and if no mask differs by sentence, one softmax serves the whole batch.

    State: the values so far, `{"value": (batch, heads, max_length, value_dim), "position": (batch,)}`, with
    `beams_share` a list of their parts; the memory of the steps holds the weights of all rows, computed once
    per search.
    """

    attends_to = "itself"
    by_position = True
    max_length: int | None = None

    @property
    def longest_sentence(self) -> int | None:  # type: ignore[override]
        """The length that the weights are made for."""
        return self.max_length

    def position_energies(self, length: int | Tensor) -> Tensor:
        """Return energies `(heads, length, length)` in float32."""
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
        energies: Tensor | None = None,
    ) -> TensorTree:
        """Project the values and add the energies, by default `position_energies`; for steps, prepare their rows."""
        memory = super().prepare(value, value_mask=value_mask, max_length=max_length)
        if value is None:
            return {**memory, **self.prepare_rows(memory["positions"], energies)}
        if energies is None:
            energies = self.position_energies(ops.shape(value)[1])
        return {**memory, "value": self.value_dense(memory["value"]), "energies": energies}

    def prepare_rows(self, positions: Tensor, energies: Tensor | None) -> dict[str, Tensor]:
        """Return what `row` needs, once per search: the weights of a causal call."""
        if energies is None:
            energies = self.position_energies(positions.shape[0])
        return {"rows": self.normalize(energies, positions[:, None] >= positions[None])}

    def row(self, memory: TensorTree) -> Tensor:
        """Return the weights `(heads, max_length)` of a step at the position "index"."""
        index = memory["index"]
        # One that is known is in range; another one may lie beyond, where contexts are NaN.
        row = index if isinstance(index, int) else ops.minimum(index, memory["positions"][-1])
        return ops.take(memory["rows"], row, axis=1)

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return energies that all sentences share, `(1, heads, length, length)`; in a step its weights."""
        if "index" not in memory:
            return memory["energies"][None]
        row = self.row(memory)[None, :, None]
        if "visible" in memory:
            row = ops.where(memory["visible"], ops.repeat(row, memory["visible"].shape[2], axis=-1), 0.0)
        return row

    def mask_of_step(self, memory: TensorTree, position: Tensor) -> Tensor | None:
        """Return None: the rows are those of a causal call."""
        return None

    def advance(
        self, at: TensorTree, memory: TensorTree, mask: Tensor | None, state: TensorTree
    ) -> tuple[Tensor, TensorTree]:
        """Return the weights of energies; in a step they are weights already."""
        return (at, state) if state else super().advance(at, memory, mask, state)

    def weigh(
        self, weights: Tensor, memory: TensorTree, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Return the contexts of all heads, joined."""
        if self.dropout and may_be(training):
            # Unlike the weights, dropout differs from sentence to sentence.
            weights = ops.broadcast_to(weights, (ops.shape(memory["value"])[0], *ops.shape(weights)[1:]))
        return super().weigh(weights, memory, mask, training)


def check_length(layer: Any, length: int | Tensor, max_length: int) -> int | Tensor:
    """Return the length of a sentence; raise if it exceeds the matrices of a layer.

    A length that is unknown until the layer runs, as in TensorFlow, is checked then.
    """
    return at_most(
        length,
        max_length,
        f"{type(layer).__name__}: a sentence of {{}} positions is longer than `max_length`={max_length}: "
        "create the layer with a larger one, or shorten the sentence.",
    )

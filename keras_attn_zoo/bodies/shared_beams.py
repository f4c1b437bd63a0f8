"""What the beams of a sentence share in a search: one state of self-attention, and who descends from whom in it.

A position of that state has a place for each beam. When hypotheses change their beam, it stays as it is; only the table
of ancestors, the beam that each hypothesis had at each position, is reordered with the hypotheses.
"""

from collections.abc import Sequence

import keras
from keras import ops

from keras_attn_zoo.support.types import Tensor, TensorTree

# Energies are computed for the places of all beams, so the work grows with their square; with more than about these, a
# copy of the state costs less.
MOST_BEAMS = 16


def shared_states(
    layers: Sequence[keras.layers.Layer], memories: Sequence[TensorTree], batch_size: int, beams: int
) -> list[TensorTree]:
    """Return the state that all beams share of each self-attention layer; empty if they cannot.

    Args:
        layers: self-attention layers.
        memories: their memories.
        batch_size: number of sentences.
        beams: number of hypotheses of each; a single one shares nothing, nor do more than `MOST_BEAMS`.
    """
    if not 1 < beams <= MOST_BEAMS:
        return [{} for _ in layers]
    states = [
        layer.shared_state(memory, batch_size, beams) if hasattr(layer, "shared_state") else None
        for layer, memory in zip(layers, memories, strict=True)
    ]
    return [{} if state is None else state for state in states]


def descend(ancestors: Tensor, position: Tensor, beams: int) -> tuple[Tensor, Tensor]:
    """Return the table of ancestors with one position more, and the places that each hypothesis descends from.

    Args:
        ancestors: int32 `(batch * beams, max_length)`; of the positions so far, the beam that a hypothesis had there.
        position: int32 scalar, the position of this step, at which a hypothesis has its present beam.
        beams: number of beams.

    Returns:
        The table, and a bool tensor `(batch, 1, beams, max_length * beams)`.
    """
    length = ancestors.shape[1]
    places, positions = ops.arange(beams, dtype="int32"), ops.arange(length, dtype="int32")
    ancestors = ops.reshape(ancestors, (-1, beams, length))
    ancestors = ops.where(positions == position, places[:, None], ancestors)
    visible = ops.logical_and(ancestors[..., None] == places, (positions <= position)[:, None])
    return ops.reshape(ancestors, (-1, length)), ops.reshape(visible, (-1, 1, beams, length * beams))

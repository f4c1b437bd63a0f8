"""What the recurrent cross-attentions share: one small loop over target positions, everything else before it."""

from keras import ops

from keras_attn_zoo.layers.common.loops import scan
from keras_attn_zoo.layers.common.masks import masked_softmax
from keras_attn_zoo.layers.multi_head_attention import MultiHeadAttention


class RecurrentCrossAttention(MultiHeadAttention):
    """Base of multi-head cross-attention whose weights depend on those of the positions before.

    All projections and energies of all positions are products of matrices
    before the loop, and all contexts one after it. Inside stand the recurrence
    and the softmax, on `(batch, heads, source)`: a subclass gives

    - `recall(memory)`: what its recurrence needs of keys and values, once a sentence;
    - `recur(past, energies, memory)`: the energies of a position from plain ones and the past;
    - `remember(past, energies, scores, weights)`: the next past; `weights` are the scores under dropout.

    State: `{"past": (batch, heads, source)}` in float32, 0 before the first position.

    Shapes, masking, errors: see `MultiHeadAttention`; a `value` is needed.
    """

    attends_to = "value"

    def recall(self, memory):
        """Nothing, unless a mechanism says otherwise."""
        return {}

    def recur(self, past, energies, memory):
        """Energies of one position `(batch, heads, source)`."""
        raise NotImplementedError

    def remember(self, past, energies, scores, weights):
        """The next past."""
        raise NotImplementedError

    def prepare(self, value=None, key=None, value_mask=None, max_length=None):
        """Project keys and values, once a sentence."""
        memory = super().prepare(value, key=key, value_mask=value_mask)
        return {**memory, **self.recall(memory)}

    def initial_state(self, memory, batch_size=None):
        """Nothing has been attended to."""
        return {"past": ops.zeros(ops.shape(memory["key"])[:3], dtype="float32")}

    def step(self, query, memory, state, noise=None):
        """Attend from one target position."""
        energies = self.energies(ops.cast(query, self.compute_dtype)[:, None], memory)[:, :, 0]
        mask = memory["mask"][:, None]
        at = {"energies": ops.cast(energies, "float32"), **({} if noise is None else {"noise": noise})}
        state, scores = self._advance(state, at, mask, memory)
        weights = (ops.cast(scores, self.compute_dtype) * at.get("noise", 1))[:, :, None]
        return self.merge(ops.matmul(weights, memory["value"]), mask[:, :, None])[:, 0], scores, state

    def attend(self, query, memory, mask, training=None):
        """Attend from all target positions."""
        energies = ops.cast(self.energies(ops.cast(query, self.compute_dtype), memory), "float32")
        steps = {"energies": _positions_first(energies)}
        if mask is not None and mask.shape[2] != 1:
            steps["mask"] = _positions_first(mask)
        if self.dropout and training:
            # Random numbers are drawn before the loop.
            steps["noise"] = self._noise(ops.shape(steps["energies"]))
        shared = None if mask is None else mask[:, :, 0]
        _, scores = scan(
            lambda state, at: self._advance(state, at, at.get("mask", shared), memory),
            self.initial_state(memory),
            steps,
        )
        weights = ops.cast(scores, self.compute_dtype) * steps.get("noise", 1)
        scores, weights = (ops.transpose(x, (1, 2, 0, 3)) for x in (scores, weights))
        return self.merge(ops.matmul(weights, memory["value"]), mask), scores

    def _advance(self, state, at, mask, memory):
        """The next state, and the scores `(batch, heads, source)` of one position."""
        energies = self.recur(state["past"], at["energies"], memory)
        scores = masked_softmax(energies, mask)
        weights = scores * ops.cast(at["noise"], "float32") if "noise" in at else scores
        return {"past": self.remember(state["past"], energies, scores, weights)}, scores


def _positions_first(x):
    return ops.transpose(x, (2, 0, 1, 3))

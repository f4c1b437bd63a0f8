"""RNN decoder with attention, in Bahdanau's and in Luong's order."""

from typing import Any

import keras
from keras import ops, tree

from keras_attn_zoo.bodies.nested_layers import build_once, deserialize_layers, serialize_layer
from keras_attn_zoo.bodies.recurrent_layers import Recurrence
from keras_attn_zoo.kernels import master_weight, operand_dtype, scan, weighted_sum
from keras_attn_zoo.layers import AttentionLayer, LatentAlignmentHead
from keras_attn_zoo.layers.base.checks import check_choice, check_positive
from keras_attn_zoo.layers.base.dropout import Dropout
from keras_attn_zoo.layers.base.rematerialization import Rematerialized, may_be, where_training
from keras_attn_zoo.support.choices import ATTENTION_QUERIES, CELLS
from keras_attn_zoo.support.types import Config, Shape, Tensor, TensorTree

_LAYER_OF_CELL = dict(zip(CELLS, (keras.layers.GRUCell, keras.layers.LSTMCell), strict=True))
# Arguments that are layers.
_LAYERS = ("attention", "target_embedding", "readout", "output_projection", "posterior_head")
STATES_OF_CELL = {"gru": 1, "lstm": 2}


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class RNNDecoder(Rematerialized):
    """A stack of GRU or LSTM cells that attends once per target position.

    With `attention_query="previous_state"` (Bahdanau) attention comes before the cells, and its context is their input:

        c_i = attention(s_{i-1}, h),  s_i = cells([e(y_{i-1}) ; c_i], s_{i-1}),  t_i = readout(s_i, c_i, e(y_{i-1}))

    With `attention_query="current_state"` (Luong) it comes after them:

        s_i = cells([e(y_{i-1}) ; t_{i-1}], s_{i-1}),  c_i = attention(s_i, h),  t_i = readout(s_i, c_i)

    where t_{i-1} is there only with `input_feeding`. With `posterior_head`, posterior attention, its place is that of
    the source that the previous token turned out to come from:

        s_i = cells([e(y_{i-1}) ; c̃_{i-1}], s_{i-1}),  p_i(j) = attention(s_i, h),  t_i = readout(s_i, c_i)
        c̃_i = Σ_j q_i(j) h_j,   q_i(j) ∝ p_i(j) p(y_i|t_i, h_j),   c̃_0 = 0

    with p(y_i|t_i, h_j) the lexicon of the head, whose normalisers the loop computes once more. In all, y_{i-1} is the
    gold token under teacher forcing, and otherwise the decoder's own prediction.

    Args:
        attention: an `AttentionLayer`.
        target_embedding: layer from token ids to embeddings.
        readout: a `Readout`.
        output_projection: layer from readouts to logits, for the decoder's own predictions; None without them.
        posterior_head: the `LatentAlignmentHead` whose posterior is fed into the cells; None for no such feeding.
        embedding_dim, encoder_dim: widths of an embedding and of an encoder output.
        cell: "gru" or "lstm".
        hidden_dim: width of a state.
        num_layers: number of cells.
        attention_query: "previous_state" or "current_state".
        input_feeding: whether the previous readout is fed into the cells.
        readout_embedding: whether the readout includes the embedding of the previous token.
        dropout: rate on embeddings, between layers, and on the readout.

    Shapes:
        token_ids `(batch, target)`, encoder_outputs `(batch, source, encoder_dim)`,
        initial_states a list of `(batch, hidden_dim)`, all states of the first layer first;
        out: readouts `(batch, target, readout_dim)`, scores `(batch, heads, target, source)`.

    State of a step: `{"cells": list of states, "attention": its state}`, and
    `"fed"`, the previous readout, with input feeding. With `posterior_head`, a step
    is given the `"posterior"` of the previous one, `(batch, source)`, among its state.

    Raises:
        ValueError: an unknown cell or query; sizes that are not positive integers.

    Source of posterior attention: Shankar and Sarawagi, Posterior Attention Models for Sequence to Sequence Learning,
    2019, whose exact posterior this is; their priors may depend on the posterior too, which is not here, and their sums
    are over the best positions.
    """

    def __init__(
        self,
        attention: AttentionLayer,
        target_embedding: keras.layers.Layer,
        readout: keras.layers.Layer,
        output_projection: keras.layers.Layer | None,
        embedding_dim: int,
        encoder_dim: int,
        cell: str = "gru",
        hidden_dim: int = 512,
        num_layers: int = 1,
        attention_query: str = "previous_state",
        input_feeding: bool = False,
        readout_embedding: bool = True,
        dropout: float = 0.0,
        posterior_head: LatentAlignmentHead | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice(self, "cell", cell, CELLS)
        check_choice(self, "attention_query", attention_query, ATTENTION_QUERIES)
        num_layers = check_positive(self, "num_layers", num_layers)
        self.attention = attention
        self.target_embedding = target_embedding
        self.readout = readout
        self.output_projection = output_projection
        self.posterior_head = posterior_head
        self.embedding_dim = check_positive(self, "embedding_dim", embedding_dim)
        self.encoder_dim = check_positive(self, "encoder_dim", encoder_dim)
        self.hidden_dim = check_positive(self, "hidden_dim", hidden_dim)
        self.attention_query = attention_query
        self.attends_first = attention_query == "previous_state"
        self.input_feeding = input_feeding
        self.readout_embedding = readout_embedding
        self.states_of_cell = STATES_OF_CELL[cell]
        self.cell = cell
        self.cells = [
            _LAYER_OF_CELL[cell](self.hidden_dim, dtype=self.dtype_policy, name=f"cell_{i}") for i in range(num_layers)
        ]
        self.embedding_dropout = Dropout(dropout, dtype=self.dtype_policy)
        self.layer_dropout = Dropout(dropout, dtype=self.dtype_policy)
        self.readout_dropout = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, token_ids_shape: Shape, encoder_outputs_shape: Shape, initial_states_shape: Any = None) -> None:
        """Build the cells, the attention, the readout and what they share."""
        build_once(self.target_embedding, token_ids_shape)
        build_once(self.attention, (None, None, self.hidden_dim), (None, None, self.encoder_dim))
        context_dim = self.attention.compute_output_shape(
            (None, None, self.hidden_dim), (None, None, self.encoder_dim)
        )[-1]
        parts = [(None, self.hidden_dim), (None, context_dim)]
        if self.readout_embedding:
            parts.append((None, self.embedding_dim))
        build_once(self.readout, parts)
        self.readout_dim = self.readout.compute_output_shape(parts)[-1]
        if self.output_projection is not None:
            build_once(self.output_projection, (None, self.readout_dim))
        width = self.embedding_dim
        if self.attends_first:
            width += context_dim
        if self.input_feeding:
            width += self.readout_dim
        if self.posterior_head is not None:
            states, encoded = (None, None, self.readout_dim), (None, None, self.encoder_dim)
            build_once(self.posterior_head, (None, None, None), (None, None, self.embedding_dim), states, encoded)
            width += self.encoder_dim
        for cell in self.cells:
            cell.build((None, width))
            width = self.hidden_dim
        self.built = True

    @property
    def _loop_type(self):
        return operand_dtype(self.compute_dtype)

    # The step, which search uses.

    def prepare(self, encoder_outputs: Tensor, encoder_mask: Tensor | None = None) -> TensorTree:
        """Compute what depends only on the source: the memory of `step`."""
        memory = self.attention.prepare(encoder_outputs, value_mask=encoder_mask)
        if self.posterior_head is not None:
            memory = {**memory, "encoded": encoder_outputs}
        return self._for_loop(memory)

    def _for_loop(self, arrays):
        """Arrays of the compute type in `operand_dtype`, as a loop needs them."""
        return tree.map_structure(
            lambda x: ops.cast(x, self._loop_type) if _has_type(x, self.compute_dtype) else x, arrays
        )

    def initial_state(self, memory: TensorTree, initial_states: list[Tensor]) -> TensorTree:
        """Return the state before the first target position, from a flat list of cell states."""
        n = self.states_of_cell
        state = {
            "cells": [self._for_loop(initial_states[i * n : (i + 1) * n]) for i in range(len(self.cells))],
            "attention": self.attention.initial_state(memory),
            "position": ops.zeros(ops.shape(initial_states[0])[:1], dtype="int32"),
        }
        if self.input_feeding:
            batch = ops.shape(initial_states[0])[0]
            state["fed"] = ops.zeros((batch, self.readout_dim), dtype=self._loop_type)
        return state

    def step(self, token_ids: Tensor, memory: TensorTree, state: TensorTree) -> tuple[Tensor, Tensor, TensorTree]:
        """Advance by one position from the previous tokens `(batch,)`: readouts, scores, state."""
        embedded, position = self.target_embedding(token_ids), state["position"]
        at = {"embedded": embedded, "position": position[0], "posterior": state.get("posterior")}
        output, context, scores, state = self._advance(at, memory, state, self._recurrences())
        readout = state["fed"] if self.input_feeding else self._read(output, context, embedded)
        return ops.cast(readout, self.compute_dtype), scores, {**state, "position": position + 1}

    def _read(self, output, context, embedded):
        return self.readout([output, context, embedded] if self.readout_embedding else [output, context])

    def _recurrences(self, training=False):
        return [Recurrence(cell, training) for cell in self.cells]

    def _known(self, steps, training):
        """Return the cells of a loop over known tokens, and the steps with what the first cell makes of them."""
        cells = self._recurrences(training)
        return cells, {**steps, "ahead": cells[0].ahead(steps["embedded"])}

    def _run_cells(self, inputs, at, states, cells):
        """Run the cells on a list of the first one's inputs, without those in `at["ahead"]`."""
        x, ahead = ops.concatenate(inputs, axis=-1) if inputs else None, at.get("ahead")
        new_states = []
        for i, (cell, state) in enumerate(zip(cells, states, strict=True)):
            if i > 0 and at.get("noise"):
                x = x * at["noise"][i - 1]
            new_states.append(cell(x, state, ahead if i == 0 else None))
            x = new_states[-1][0]
        return x, new_states

    def _advance(self, at, memory, state, cells):
        """Return output, context and scores of one position, and the next state.

        `at` holds the embedding of the previous token and the number of the position; with `posterior_head` the
        posterior of the one before; in a loop also "ahead", if the cells have multiplied it before; and in training the
        noise that was drawn before the loop.
        """
        embedded, attention_state = at["embedded"], state["attention"]
        position, noise = at["position"], at.get("attention_noise")
        inputs = [] if "ahead" in at else [embedded]
        if self.attends_first:
            query = state["cells"][-1][0]
            context, scores, attention_state = self.attention.step(query, memory, attention_state, noise, position)
            inputs.append(context)
        if self.input_feeding:
            inputs.append(state["fed"])
        if self.posterior_head is not None:
            inputs.append(weighted_sum(at["posterior"][:, None], memory["encoded"])[:, 0])
        output, cells = self._run_cells(inputs, at, state["cells"], cells)
        if not self.attends_first:
            context, scores, attention_state = self.attention.step(output, memory, attention_state, noise, position)
        # A mechanism may compute in another type than that of the arrays of a loop.
        kept = tree.map_structure(
            lambda new, old: ops.cast(new, old.dtype) if hasattr(old, "dtype") else new,
            attention_state,
            state["attention"],
        )
        state = {"cells": cells, "attention": kept}
        if self.input_feeding:
            state["fed"] = ops.cast(self._read(output, context, embedded), self._loop_type)
        return output, context, scores, state

    # All positions, for training and for forced decoding.

    def call(
        self,
        token_ids: Tensor,
        encoder_outputs: Tensor,
        initial_states: list[Tensor],
        encoder_mask: Tensor | None = None,
        padding_mask: Tensor | None = None,
        teacher_forcing_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Decode with given tokens as input; where `teacher_forcing_mask` is false, with the decoder's predictions."""
        memory = self.prepare(encoder_outputs, encoder_mask)
        state = self.initial_state(memory, initial_states)
        # The loops count.
        del state["position"]
        embedded = self.embedding_dropout(self.target_embedding(token_ids), training=training)
        positions = ops.arange(ops.shape(token_ids)[1], dtype="int32")
        steps = {
            "embedded": _time_major(embedded),
            "position": positions,
            "noise": self._draw_noise(embedded, training),
        }
        feeds = self.input_feeding or self.posterior_head is not None
        in_turn = self.attends_first or feeds or teacher_forcing_mask is not None
        if may_be(training) and in_turn:
            noise = self.attention.draw_noise(memory, ops.shape(token_ids)[1])
            steps |= {} if noise is None else {"attention_noise": where_training(training, noise, 1.0)}
        if teacher_forcing_mask is not None:
            readouts, scores = self._run_with_guesses(steps, teacher_forcing_mask, memory, state, training)
        elif self.posterior_head is not None:
            readouts, scores = self._run_with_posteriors(steps, token_ids, memory, state, training)
        elif in_turn:
            readouts, scores = self._run_in_turn(steps, embedded, memory, state, training)
        else:
            readouts, scores = self._run_attention_last(steps, embedded, memory, state, training)
        if padding_mask is not None:
            scores = ops.where(ops.cast(padding_mask, "bool")[:, None, :, None], scores, 0.0)
        return self.readout_dropout(readouts, training=training), scores

    def _run_attention_last(self, steps, embedded, memory, state, training):
        """Cells first, then attention and readout for all positions at once: nothing is fed back."""

        cells, steps = self._known(steps, training)

        def step(states, at):
            output, states = self._run_cells([], at, states, cells)
            return states, output

        _, outputs = scan(step, state["cells"], steps, weights=self._weights(cells, memory, training))
        outputs = _batch_major(outputs)
        context, scores = self.attention.attend(outputs, memory, memory["mask"][:, None, None, :], training=training)
        return self._read(outputs, context, embedded), scores

    def _run_in_turn(self, steps, embedded, memory, state, training):
        """One position after the other; the readout waits until after the loop unless it is fed back."""

        cells, steps = self._known(steps, training)

        def step(state, at):
            output, context, scores, state = self._advance(at, memory, state, cells)
            return state, (state["fed"], scores) if self.input_feeding else (output, context, scores)

        _, (*outputs, scores) = scan(step, state, steps, weights=self._weights(cells, memory, training))
        outputs = [ops.cast(_batch_major(x), self.compute_dtype) for x in outputs]
        readouts = outputs[0] if self.input_feeding else self._read(*outputs, embedded)
        return readouts, _batch_major_scores(scores)

    def _run_with_posteriors(self, steps, token_ids, memory, state, training):
        """One position after the other, with the posterior of the one before, which knows the present token."""

        head, (cells, steps) = self.posterior_head, self._known(steps, training)
        lexicon = head.prepare(memory["encoded"], memory["mask"])
        # As the head sees it, without dropout.
        steps |= {"token": _time_major(token_ids), "seen": _time_major(self.target_embedding(token_ids))}

        def step(carry, at):
            state, aligned = carry
            posterior = head.posterior(at["token"], lexicon, aligned)
            output, context, scores, state = self._advance({**at, "posterior": posterior}, memory, state, cells)
            readout = self._read(output, context, at["embedded"])
            aligned = head.align(ops.mean(scores, axis=1), at["seen"], readout, lexicon)
            return (state, aligned), (readout, scores)

        carry = state, head.unaligned(ops.shape(token_ids)[0], lexicon)
        _, (readouts, scores) = scan(step, carry, steps, weights=self._weights(cells, memory, training))
        return ops.cast(_batch_major(readouts), self.compute_dtype), _batch_major_scores(scores)

    def _run_with_guesses(self, steps, teacher_forcing_mask, memory, state, training):
        """One position after the other, with the decoder's own predictions where `teacher_forcing_mask` is false."""
        first = ops.zeros(ops.shape(steps["embedded"])[1:2], dtype="int32")
        cells = self._recurrences(training)

        def step(carry, at):
            state, guess = carry
            embedded = ops.where(at["forced"][:, None], at["embedded"], self.target_embedding(guess))
            output, context, scores, state = self._advance({**at, "embedded": embedded}, memory, state, cells)
            readout = state["fed"] if self.input_feeding else self._read(output, context, embedded)
            logits = self.output_projection(ops.stop_gradient(ops.cast(readout, self.compute_dtype)))
            guess = ops.cast(ops.argmax(logits, axis=-1), "int32")
            return (state, guess), (readout, scores)

        # The first position is the start token, for which there is no prediction.
        forced = ops.cast(teacher_forcing_mask, "bool")
        forced = ops.concatenate([ops.ones_like(forced[:, :1]), forced[:, 1:]], axis=1)
        steps = {**steps, "forced": _time_major(forced)}
        _, (readouts, scores) = scan(step, (state, first), steps, weights=self._weights(cells, memory, training))
        return ops.cast(_batch_major(readouts), self.compute_dtype), _batch_major_scores(scores)

    def _weights(self, cells, memory, training):
        """In training, the matrices that a position multiplies by, as `loops.scan` takes them."""
        if not may_be(training):
            return []
        layers = [*self.attention.trainable_variables, *self.readout.trainable_variables]
        matrices = [master_weight(weight, self.compute_dtype) for weight in layers if len(weight.shape) == 2]
        value = memory.get("value") if isinstance(memory, dict) else None
        values = [value] if len(getattr(value, "shape", ())) == 3 else []
        return [weight for cell in cells for weight in cell.weights] + matrices + values

    def _draw_noise(self, embedded, training):
        """Draw the dropout between the layers, before the loop: (target, batch, hidden_dim) per layer."""
        if not may_be(training) or self.layer_dropout.rate == 0:
            return []
        batch, target = ops.shape(embedded)[0], ops.shape(embedded)[1]
        ones = ops.ones((target, batch, self.hidden_dim), dtype=self.compute_dtype)
        return self._for_loop([self.layer_dropout(ones, training=training) for _ in self.cells[1:]])

    def compute_output_spec(
        self, token_ids: Tensor, encoder_outputs: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Return shapes and types without running the loop."""
        readouts = keras.KerasTensor((*token_ids.shape, self.readout_dim), self.compute_dtype)
        shape = (token_ids.shape[0], self.attention.num_heads, token_ids.shape[1], encoder_outputs.shape[1])
        return readouts, keras.KerasTensor(shape, "float32")

    @classmethod
    def from_config(cls, config: Config) -> "RNNDecoder":
        """Create a layer from the result of `get_config`."""
        return cls(**deserialize_layers(config, *_LAYERS))

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {
            **super().get_config(),
            **{name: serialize_layer(getattr(self, name)) for name in _LAYERS},
            "embedding_dim": self.embedding_dim,
            "encoder_dim": self.encoder_dim,
            "cell": self.cell,
            "hidden_dim": self.hidden_dim,
            "num_layers": len(self.cells),
            "attention_query": self.attention_query,
            "input_feeding": self.input_feeding,
            "readout_embedding": self.readout_embedding,
            "dropout": self.embedding_dropout.rate,
        }


def _has_type(x, name):
    return hasattr(x, "dtype") and keras.backend.standardize_dtype(x.dtype) == name


def _time_major(x):
    return ops.transpose(x, (1, 0, *range(2, len(x.shape))))


_batch_major = _time_major


def _batch_major_scores(scores):
    """Turn scores (target, batch, heads, source) into (batch, heads, target, source)."""
    return ops.transpose(scores, (1, 2, 0, 3))

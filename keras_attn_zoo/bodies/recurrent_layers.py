"""GRU and LSTM: Keras' own, with everything that does not depend on the previous position computed before the loop."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops, tree

from keras_attn_zoo.kernels import linear, master_weight, operand_dtype, recurrent_layer, scan
from keras_attn_zoo.layers.base.rematerialization import may_be
from keras_attn_zoo.support.types import Tensor, TensorTree


def gru_step(inputs: Tensor, products: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    """Return the next state of a GRU.

        z, r = σ(a_zr + b_zr),  h̃ = tanh(a_h + r ∘ b_h),  h' = z ∘ h + (1 - z) ∘ h̃

    Args:
        inputs: a = x W + b, `(batch, 3 units)`.
        products: b = h U + b', `(batch, 3 units)`.
        states: h, `(batch, units)`.
    """
    (h,) = states
    gates = 2 * h.shape[-1]
    update, reset = ops.split(ops.sigmoid(inputs[:, :gates] + products[:, :gates]), 2, axis=-1)
    candidate = ops.tanh(inputs[:, gates:] + reset * products[:, gates:])
    return [update * h + (1 - update) * candidate]


def lstm_step(inputs: Tensor, products: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    """Return the next output and cell state of an LSTM.

        i, f, g, o = a + b,  c' = σ(f) ∘ c + σ(i) ∘ tanh(g),  h' = σ(o) ∘ tanh(c')

    Args:
        inputs: a = x W + b, `(batch, 4 units)`.
        products: b = h U, `(batch, 4 units)`.
        states: h and c, `(batch, units)`.
    """
    _, c = states
    write, keep, candidate, read = ops.split(inputs + products, 4, axis=-1)
    c = ops.sigmoid(keep) * c + ops.sigmoid(write) * ops.tanh(candidate)
    return [ops.sigmoid(read) * ops.tanh(c), c]


class Recurrence:
    """The positions of a GRU or LSTM cell, whose weights are converted to the compute type once for all.

    States are of `operand_dtype`: under JAX on a CPU, XLA converts each result of bfloat16 number by number.

    Args:
        cell: a built `keras.layers.GRUCell` or `LSTMCell` with Keras' default options.
        training: whether gradients of the weights are wanted; `loops.scan` then takes `weights`.

    Example:
        >>> cell = keras.layers.GRUCell(4)
        >>> cell.build((None, 3))
        >>> Recurrence(cell)(ops.ones((2, 3)), [ops.zeros((2, 4))])  # a list of one state, (2, 4)
    """

    def __init__(self, cell: keras.layers.Layer, training: bool | None = False) -> None:
        is_gru = isinstance(cell, keras.layers.GRUCell)
        self._step = gru_step if is_gru else lstm_step
        self._compute_dtype, self.state_type = cell.compute_dtype, operand_dtype(cell.compute_dtype)
        converted = master_weight if may_be(training) else ops.cast
        self._kernel, self._recurrent_kernel = (
            converted(weight, self._compute_dtype) for weight in (cell.kernel, cell.recurrent_kernel)
        )
        bias = ops.cast(cell.bias, self.state_type)
        self._bias: Tensor = bias[0] if is_gru else bias
        self._recurrent_bias: Tensor = bias[1] if is_gru else None

    @property
    def weights(self) -> list[Tensor]:
        """The matrices that a position multiplies by."""
        return [self._kernel, self._recurrent_kernel]

    def ahead(self, known: Tensor) -> Tensor:
        """Return what inputs that are known for all positions add to a = x W + b; from then on, positions get the rest.

        Args:
            known: the first columns of x, `(length, batch, width)`.
        """
        width = known.shape[-1]
        found = linear(known, self._kernel[:width], self._bias, compute_dtype=self._compute_dtype)
        found = ops.cast(found, self.state_type)
        self._kernel, self._bias = self._kernel[width:], None
        return found

    def __call__(self, inputs: Tensor | None, states: Sequence[Tensor], ahead: Tensor | None = None) -> list[Tensor]:
        """Return the next states, of which the first is the output.

        Args:
            inputs: x, `(batch, width)`, after `ahead` without the columns that were known; None if all were.
            states: `(batch, units)` each.
            ahead: the position's part of what `ahead` returned.
        """
        found = ahead
        if inputs is not None:
            found = linear(inputs, self._kernel, self._bias, compute_dtype=self._compute_dtype)
            found = found if ahead is None else found + ahead
        products = linear(states[0], self._recurrent_kernel, self._recurrent_bias, compute_dtype=self._compute_dtype)
        return self._step(found, products, states)


def _run(layer, sequences, initial_state, mask, training):
    """The loop of a Keras layer: last output, all, and last states; a masked position keeps the states before it."""
    recurrence = Recurrence(layer.cell, training)
    steps = {"ahead": recurrence.ahead(ops.transpose(sequences, (1, 0, 2)))}
    if mask is not None:
        steps["mask"] = ops.expand_dims(ops.transpose(mask), -1)

    def step(states, at):
        new = recurrence(None, states, at["ahead"])
        if mask is None:
            return new, new[0]
        kept = [ops.where(at["mask"], one, old) for one, old in zip(new, states, strict=True)]
        # `keras.layers.Bidirectional` asks for zeros.
        return kept, ops.where(at["mask"], new[0], 0) if layer.zero_output_for_mask else kept[0]

    states = list(initial_state) if isinstance(initial_state, list | tuple) else [initial_state]
    states = [ops.cast(state, recurrence.state_type) for state in states]

    def loop():
        weights = recurrence.weights if may_be(training) else ()
        return scan(step, states, steps, reverse=layer.go_backwards, weights=weights)

    cell, weights = (
        ("gru" if isinstance(layer, GRU) else "lstm"),
        [ops.convert_to_tensor(x) for x in layer.cell.weights],
    )
    found = recurrent_layer(cell, sequences, states, mask, weights, layer.go_backwards, loop)
    states, outputs = tree.map_structure(lambda x: ops.cast(x, layer.compute_dtype), found)
    outputs = ops.transpose(outputs, (1, 0, 2))
    # Keras returns the outputs in the order in which they were computed.
    return states[0], ops.flip(outputs, axis=1) if layer.go_backwards else outputs, states


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class GRU(keras.layers.GRU):
    """`keras.layers.GRU` that multiplies all inputs at once, before its loop.

    Use it as an encoder that returns all outputs, with Keras' other options left as they are.

        h_j = GRU(x_j, h_{j-1}): see `gru_step`

    Example:
        >>> GRU(4, return_sequences=True)(ops.ones((2, 5, 3)))  # (2, 5, 4)
    """

    def inner_loop(
        self, sequences: Tensor, initial_state: Any, mask: Tensor | None, training: bool | None = False
    ) -> TensorTree:
        """Return what Keras' loop does."""
        return _run(self, sequences, initial_state, mask, training)


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class LSTM(keras.layers.LSTM):
    """`keras.layers.LSTM` that multiplies all inputs at once, before its loop.

    Use it as an encoder that returns all outputs, with Keras' other options left as they are.

        h_j, c_j = LSTM(x_j, h_{j-1}, c_{j-1}): see `lstm_step`

    Example:
        >>> LSTM(4, return_sequences=True)(ops.ones((2, 5, 3)))  # (2, 5, 4)
    """

    def inner_loop(
        self, sequences: Tensor, initial_state: Any, mask: Tensor | None, training: bool | None = False
    ) -> TensorTree:
        """Return what Keras' loop does."""
        return _run(self, sequences, initial_state, mask, training)

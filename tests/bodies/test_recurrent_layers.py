"""The recurrent layers compute what Keras' own do, with the same gradients, whatever is padded."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.bodies.recurrent_layers import GRU, LSTM, Recurrence
from tests.layers.calls import assert_close, compiled, to_numpy, value_and_gradients
from tests.layers.cases import numbers
from tests.weights import fill_weights

OURS = {"gru": (GRU, keras.layers.GRU), "lstm": (LSTM, keras.layers.LSTM)}
BATCH, LENGTH, WIDTH, UNITS = 3, 5, 4, 6


def built(layer_class, bidirectional, policy="float32"):
    # Weights are filled by their paths.
    layer = layer_class(UNITS, return_sequences=True, return_state=True, dtype=policy, name="encoder")
    layer = keras.layers.Bidirectional(layer, dtype=policy, name="encoder") if bidirectional else layer
    layer.build((None, None, WIDTH))
    fill_weights(layer)
    return layer


def stopped(outputs):
    return [ops.stop_gradient(x) for x in outputs]


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("masked", [False, True], ids=["without_mask", "with_mask"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize("cell", OURS)
def test_outputs_states_and_gradients_are_those_of_keras(cell, bidirectional, masked, training):
    # The second sentence has a hole, the third ends early.
    mask = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 1, 1], [1, 1, 0, 0, 0]], "bool") if masked else None
    inputs = {"x": numbers("x", BATCH, LENGTH, WIDTH)}
    layers = [built(layer_class, bidirectional) for layer_class in OURS[cell]]

    def call(layer, x):
        return layer(x, mask=mask, training=training)

    ours, theirs = (compiled(lambda x, layer=layer: stopped(call(layer, x)))(inputs["x"]) for layer in layers)
    assert len(ours) == len(theirs) == 1 + (1 + bidirectional) * {"gru": 1, "lstm": 2}[cell]
    for found, wanted in zip(ours, theirs, strict=True):
        assert np.any(wanted)
        assert_close(found, wanted, "float32")

    def loss_of(layer):
        of_outputs = numbers("outputs", BATCH, LENGTH, UNITS * (1 + bidirectional))

        def loss(inputs):
            outputs, *states = call(layer, inputs["x"])
            return ops.sum(ops.multiply(outputs, of_outputs)) + sum(ops.sum(ops.square(state)) for state in states)

        return loss

    (_, ours, of_x), (_, theirs, of_their_x) = (value_and_gradients(layer, loss_of(layer), inputs) for layer in layers)
    assert ours.keys() == theirs.keys()
    for name, wanted in {**theirs, **of_their_x}.items():
        assert np.any(wanted), name
        assert_close({**ours, **of_x}[name], wanted, "float32", name)


@pytest.mark.parametrize("cell", OURS)
def test_a_position_is_that_of_a_keras_cell_whatever_is_known_ahead(cell):
    theirs = {"gru": keras.layers.GRUCell, "lstm": keras.layers.LSTMCell}[cell](UNITS)
    theirs.build((None, WIDTH))
    fill_weights(theirs)
    x = numbers("x", LENGTH, BATCH, WIDTH)
    states = [numbers(f"state {i}", BATCH, UNITS) for i in range({"gru": 1, "lstm": 2}[cell])]
    for i in range(LENGTH):
        wanted = to_numpy(stopped(theirs(x[i], [ops.convert_to_tensor(state) for state in states])[1]))
        for known in (0, 3, WIDTH):
            recurrence = Recurrence(theirs)
            ahead = recurrence.ahead(ops.convert_to_tensor(x[..., :known]))[i] if known else None
            rest = ops.convert_to_tensor(x[i, :, known:]) if known < WIDTH else None
            found = to_numpy(stopped(recurrence(rest, [ops.convert_to_tensor(state) for state in states], ahead)))
            for one, its in zip(found, wanted, strict=True):
                assert_close(one, its, "float32", f"{known} columns known")
        states = wanted


@pytest.mark.parametrize("cell", OURS)
def test_mixed_precision_is_close(cell):
    x = numbers("x", BATCH, LENGTH, WIDTH)
    exact, mixed = (built(OURS[cell][0], True, policy) for policy in ("float32", "mixed_bfloat16"))
    (outputs, *_), (wanted, *_) = stopped(mixed(x)), stopped(exact(x))
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    assert_close(to_numpy(outputs), to_numpy(wanted), "mixed_bfloat16")


@pytest.mark.one_backend
@pytest.mark.parametrize("cell", OURS)
def test_weights_of_keras_fit(cell):
    ours, theirs = (built(layer_class, True) for layer_class in OURS[cell])
    assert [v.path for v in ours.weights] == [v.path for v in theirs.weights]
    again = type(ours).from_config(ours.get_config())
    assert type(again.forward_layer) is type(again.backward_layer) is OURS[cell][0]

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.kernels import scan
from tests.layers.calls import BACKEND, compiled, of_unknown_sizes

TOLERANCE = 1e-6


def recurrence(inputs):
    """A state of two parts, an output of two parts: h ← tanh(h/2 + x), n ← n + 1."""

    def step(state, at):
        hidden = ops.tanh(0.5 * state["hidden"] + at["x"])
        state = {"hidden": hidden, "count": state["count"] + 1}
        return state, {"hidden": hidden, "product": hidden * at["y"]}

    state = {"hidden": ops.zeros_like(inputs["x"][0]), "count": ops.zeros((), dtype="int32")}
    return scan(step, state, inputs)


def numpy_recurrence(inputs):
    hidden, hiddens, products = np.zeros_like(inputs["x"][0]), [], []
    for x, y in zip(inputs["x"], inputs["y"], strict=True):
        hidden = np.tanh(0.5 * hidden + x)
        hiddens.append(hidden)
        products.append(hidden * y)
    return hidden, np.stack(hiddens), np.stack(products)


def inputs_of(length):
    rng = np.random.default_rng(length)
    return {part: rng.normal(size=(length, 2, 3)).astype("float32") for part in "xy"}


def test_state_and_outputs_at_lengths_unknown_when_traced():
    run = of_unknown_sizes(recurrence, inputs_of(1))
    for length in (1, 2, 5):
        state, outputs = run(inputs_of(length))
        hidden, hiddens, products = numpy_recurrence(inputs_of(length))
        assert state["count"] == length
        np.testing.assert_allclose(state["hidden"], hidden, atol=TOLERANCE)
        np.testing.assert_allclose(outputs["hidden"], hiddens, atol=TOLERANCE)
        np.testing.assert_allclose(outputs["product"], products, atol=TOLERANCE)


class Recurrence(keras.layers.Layer):
    """The sum of all outputs of the recurrence, from inputs `(batch, length, width)` times a weight."""

    def build(self, shape):
        self.scale = self.add_weight(name="scale", shape=(shape[-1],), initializer="ones")

    def call(self, x):
        x = ops.transpose(x * self.scale, (1, 0, 2))
        _, outputs = recurrence({"x": x, "y": ops.ones_like(x)})
        return ops.sum(outputs["hidden"], axis=(0, 2))


@pytest.mark.parametrize("jit_compile", {"jax": [True], "tensorflow": [False, True], "torch": [False]}[BACKEND])
def test_gradient_in_a_compiled_fit(jit_compile):
    """Against central differences; on TensorFlow with XLA too, where the loop of Keras has no gradient."""
    x = inputs_of(5)["x"].transpose(1, 0, 2)
    inputs = keras.Input((None, 3))
    model = keras.Model(inputs, Recurrence()(inputs))
    model.compile(keras.optimizers.SGD(1.0), loss=lambda y, prediction: y * prediction, jit_compile=jit_compile)
    coefficients = np.array([2.0, -6.0])
    model.fit(x, coefficients, batch_size=2, shuffle=False, verbose=0)

    def loss(scale):
        scaled = (x * scale).astype("float64").transpose(1, 0, 2)
        _, hiddens, _ = numpy_recurrence({"x": scaled, "y": scaled})
        # Keras takes the mean over the batch.
        return np.mean(coefficients * hiddens.sum(axis=(0, 2)))

    difference = 1e-4 * np.eye(3)
    gradient = [(loss(1 + d) - loss(1 - d)) / 2e-4 for d in difference]
    scale = ops.convert_to_numpy(model.trainable_variables[0].value)
    np.testing.assert_allclose(1 - scale, gradient, atol=1e-5)


def test_compiles_in_one_piece():
    """A loop inside a loop, as attention inside a decoder."""

    def outer(x):
        def step(total, row):
            _, outputs = scan(lambda s, y: (s + y, s + y), ops.zeros(()), row)
            return total + ops.sum(outputs), outputs

        return scan(step, ops.zeros(()), x)

    x = np.arange(6, dtype="float32").reshape(2, 3)
    total, outputs = compiled(outer)(x)
    np.testing.assert_array_equal(outputs, np.cumsum(x, axis=1))
    assert total == np.cumsum(x, axis=1).sum()


def test_in_reverse_the_last_slice_comes_first():
    last, outputs = scan(
        lambda s, x: (2 * s + x, s), ops.zeros(()), ops.convert_to_tensor([1.0, 2.0, 3.0]), reverse=True
    )
    assert float(last) == 17.0
    assert ops.convert_to_numpy(outputs).tolist() == [8.0, 3.0, 0.0]

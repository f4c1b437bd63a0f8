"""Layer normalisation against Keras' own and against its equation: in which type, with which options."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.layers.base.layer_normalization import LayerNormalization
from tests.layers.calls import BACKEND, eager_gradients, to_numpy
from tests.layers.cases import numbers

X = 1000 + 3 * np.random.default_rng(0).standard_normal((4, 6))


@pytest.mark.parametrize("given", ["float32", "bfloat16", "float64", "int32"])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16", "float64"])
def test_types_are_those_of_keras(policy, given):
    if BACKEND == "jax" and "float64" in (policy, given):
        pytest.skip("JAX has no float64 unless it is told so")
    ours, theirs = (kind(dtype=policy) for kind in (LayerNormalization, keras.layers.LayerNormalization))
    x = keras.ops.cast(X, given)
    found, wanted = ours(x, training=True), theirs(x)
    assert found.dtype == wanted.dtype
    # Keras rounds its result to the type of the inputs first.
    exact = {"bfloat16": 0.02, "float64": 1e-9}.get(given, 2e-4) if policy in ("float32", "float64") else 0.02
    exact = max(exact, 2e-4) if policy == "float32" else exact
    np.testing.assert_allclose(
        *(keras.ops.convert_to_numpy(keras.ops.cast(y, "float64")) for y in (found, wanted)), atol=exact
    )


@pytest.mark.parametrize(
    "options", [{"scale": False}, {"center": False}, {"axis": 1}, {"axis": (1, 2)}, {"rms_scaling": True}], ids=str
)
@pytest.mark.filterwarnings("ignore:You passed `rms_scaling")
def test_options_are_those_of_keras(options):
    if BACKEND == "torch" and options == {"axis": 1}:
        pytest.skip("Keras' own layer fails there")
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    found = LayerNormalization(**options)(x, training=True)
    wanted = keras.layers.LayerNormalization(**options)(x)
    np.testing.assert_allclose(*map(keras.ops.convert_to_numpy, (found, wanted)), atol=1e-5)


def test_the_equation_and_its_gradient():
    """In NumPy's float64, with the gradient by differences of the sum of the outputs' squares."""
    x, gamma, beta = 3 + 2 * numbers("x", 4, 5), 1 + numbers("gamma", 5), numbers("beta", 5)

    def equation(x):
        x = x.astype("float64")
        return gamma * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.1) + beta

    layer = LayerNormalization(epsilon=0.1)
    layer.build(x.shape)
    layer.set_weights([gamma, beta])
    np.testing.assert_allclose(to_numpy(layer(x, training=True)), equation(x), atol=1e-5)
    loss = lambda given: keras.ops.sum(keras.ops.square(layer(given["x"], training=True)))  # noqa: E731
    found = to_numpy(eager_gradients(loss, {"x": x}))["x"]
    for place in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[place] = 1e-5
        wanted = (np.square(equation(x + step)).sum() - np.square(equation(x - step)).sum()) / 2e-5
        np.testing.assert_allclose(found[place], wanted, atol=2e-4)

"""Products of few and of many rows with a matrix, and their gradients, against NumPy in float64."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.layers.common.products import Dense, product, repeated
from tests.layers.calls import compiled

# One row, few rows as in a search, and more than those.
ROWS = (1, 2, 64, 65)


@pytest.fixture(autouse=True, params=[False, True], ids=["once", "repeated"])
def used(request):
    """Both outside and inside the body of a loop."""
    if not request.param:
        yield
        return
    with repeated():
        yield


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@pytest.mark.parametrize("rows", ROWS)
def test_product(rows):
    x, kernel = numbers(0, rows, 5), numbers(1, 5, 7)
    np.testing.assert_allclose(compiled(product)(x, kernel), x.astype("float64") @ kernel, rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", [*((rows, 5) for rows in ROWS), (2, 3, 5)], ids=str)
@pytest.mark.parametrize("use_bias", [True, False])
def test_dense(shape, use_bias):
    layer = Dense(7, activation="tanh", use_bias=use_bias, bias_initializer="ones")
    layer.build((None, 5))
    x = numbers(0, *shape)
    kernel = keras.ops.convert_to_numpy(layer.kernel).astype("float64")
    np.testing.assert_allclose(compiled(layer)(x), np.tanh(x @ kernel + use_bias), rtol=0, atol=1e-5)


@pytest.mark.parametrize("rows", ROWS)
def test_gradient_of_a_fit(rows):
    """The loss is the mean of squares, half of whose gradient is xᵀ x W / (7 rows)."""
    model = keras.Sequential([keras.Input((5,)), Dense(7, use_bias=False)])
    model.compile(keras.optimizers.SGD(0.5), "mean_squared_error", jit_compile=False)
    x, before = numbers(0, rows, 5), model.get_weights()[0].astype("float64")
    model.fit(x, np.zeros((rows, 7), "float32"), batch_size=rows, verbose=0)
    gradient = x.T.astype("float64") @ (x @ before) / (7 * rows)
    np.testing.assert_allclose(before - model.get_weights()[0], gradient, rtol=0, atol=1e-5)

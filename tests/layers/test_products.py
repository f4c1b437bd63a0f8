"""Products of few and of many rows with a matrix, and their gradients, against NumPy in float64."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.layers.common import products
from keras_attn_zoo.layers.common.products import Dense, operand_type, product, repeated
from tests.layers.calls import BACKEND, compiled, value_and_gradients

# One row, few rows as in a search, and more than those.
ROWS = (1, 2, 64, 65)


# Under the others there is one form.
USES = {"once": None, "repeated": False, "repeated_on_intel": True} if BACKEND == "jax" else {"once": None}


@pytest.fixture(autouse=True, params=USES.values(), ids=USES)
def used(request, monkeypatch):
    """Both outside and inside the body of a loop, there in both forms."""
    if request.param is None:
        yield
        return
    monkeypatch.setattr(products, "is_intel", lambda: request.param)
    with repeated():
        yield


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("transposed", [False, True])
def test_product(rows, transposed):
    x, kernel, bias = numbers(0, rows, 5), numbers(1, 5, 7), numbers(2, 7)
    given = kernel.T if transposed else kernel

    def of(x, kernel, bias=None):
        return product(x, kernel, bias, transposed)

    wanted = x.astype("float64") @ kernel
    np.testing.assert_allclose(compiled(of)(x, given), wanted, rtol=0, atol=1e-5)
    np.testing.assert_allclose(compiled(of)(x, given, bias), wanted + bias, rtol=0, atol=1e-5)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("outputs", [80, 48])
def test_product_in_bfloat16(rows, transposed, outputs):
    """Sums of a few -1, 0 and 1 are exact. XLA might join it with the transpositions around it, if it is not small."""
    rng = np.random.default_rng(0)
    x, kernel, bias, upstream = (
        rng.integers(-1, 2, shape).astype("float32")
        for shape in ((rows, 64), (64, outputs), (outputs,), (rows, outputs))
    )

    def of(x, kernel, bias):
        x, kernel, bias = (keras.ops.cast(part, "bfloat16") for part in (keras.ops.transpose(x), kernel, bias))
        found = product(x, keras.ops.transpose(kernel) if transposed else kernel, bias, transposed)
        return keras.ops.cast(keras.ops.transpose(found), "float32")

    np.testing.assert_array_equal(compiled(of)(x.T, kernel, bias).T, x @ kernel + bias)
    found = value_and_gradients(
        keras.layers.Identity(),
        lambda given: keras.ops.sum(of(**given) * keras.ops.convert_to_tensor(upstream.T)),
        {"x": x.T, "kernel": kernel, "bias": bias},
    )[-1]
    np.testing.assert_array_equal(found["x"], kernel @ upstream.T)
    np.testing.assert_array_equal(found["kernel"], x.T @ upstream)
    np.testing.assert_array_equal(found["bias"], upstream.sum(0))


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


def test_small_products_are_never_less_precise():
    assert [operand_type(name) for name in ("float16", "float32", "float64")] == ["float16", "float32", "float64"]
    assert operand_type("bfloat16") == ("float32" if BACKEND == "jax" else "bfloat16")

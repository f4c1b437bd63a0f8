"""Products of few and of many rows with a matrix, and their gradients, against NumPy in float64."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.kernels import jax_cpu
from keras_attn_zoo.kernels.known_weights import inference
from keras_attn_zoo.kernels.portable.linear_maps import linear, operand_dtype
from keras_attn_zoo.layers.base.dense import Dense
from keras_attn_zoo.layers.base.heads import HeadMerge
from tests.layers.calls import BACKEND, compiled, of_unknown_sizes, value_and_gradients

# One row, few rows as in a search, of which some are filled up, and more than those.
ROWS = (1, 5, 17, 64, 65)
# The forms, by whether small batches gain from a transposed kernel: other backends have one.
FORMS = {"plain": False, "small_batches": True} if BACKEND == "jax" else {"plain": False}


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def small_batches(request, monkeypatch):
    """Whether the processor is one that gains from transposed kernels."""
    monkeypatch.setattr(jax_cpu, "is_intel", lambda: request.param)
    monkeypatch.setattr(jax_cpu, "is_amd", lambda: False)


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("transposed", [False, True])
def test_linear(rows, transposed, small_batches):
    x, kernel, bias = numbers(0, rows, 5), numbers(1, 5, 7), numbers(2, 7)
    given = kernel.T if transposed else kernel

    def of(x, kernel, bias=None):
        return linear(x, kernel, bias, transposed)

    wanted = x.astype("float64") @ kernel
    # In inference, a transposed kernel is as good as a prepared one.
    for run in (of, inference()(of)) if transposed else (of,):
        np.testing.assert_allclose(compiled(run)(x, given), wanted, rtol=0, atol=1e-5)
        np.testing.assert_allclose(compiled(run)(x, given, bias), wanted + bias, rtol=0, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 5, 64, 65])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("outputs", [80, 48])
def test_linear_in_bfloat16(rows, transposed, outputs, small_batches):
    """Sums of a few -1, 0 and 1 are exact. XLA might join it with the transpositions around it, if it is not small."""
    rng = np.random.default_rng(0)
    x, kernel, bias, upstream = (
        rng.integers(-1, 2, shape).astype("float32")
        for shape in ((rows, 64), (64, outputs), (outputs,), (rows, outputs))
    )

    def of(x, kernel, bias):
        x, kernel, bias = (keras.ops.cast(part, "bfloat16") for part in (keras.ops.transpose(x), kernel, bias))
        found = linear(x, keras.ops.transpose(kernel) if transposed else kernel, bias, transposed)
        return keras.ops.cast(keras.ops.transpose(found), "float32")

    for run in (of, inference()(of)) if transposed else (of,):
        np.testing.assert_array_equal(compiled(run)(x.T, kernel, bias).T, x @ kernel + bias)
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
    assert [operand_dtype(name) for name in ("float16", "float32", "float64")] == ["float16", "float32", "float64"]
    assert operand_dtype("bfloat16") == ("float32" if BACKEND == "jax" else "bfloat16")


@pytest.mark.skipif(BACKEND != "jax", reason="others round the gradient to bfloat16")
def test_the_gradient_of_a_kernel_in_bfloat16_is_not_rounded():
    layer = Dense(2, dtype="mixed_bfloat16")
    layer.build((None, 3))
    x = np.ones((257, 3), "float32")
    _, by_weight, _ = value_and_gradients(layer, lambda given: keras.ops.sum(layer(given["x"])), {"x": x})
    # bfloat16 has 256 and 258.
    np.testing.assert_array_equal(by_weight["kernel"], np.full((3, 2), 257))


def test_heads_of_an_unknown_number_are_joined():
    layer = HeadMerge(4, bias_initializer="ones")
    layer.build((None, 2, None, 3))
    contexts = np.random.default_rng(0).normal(size=(5, 2, 7, 3)).astype("float32")
    joined = of_unknown_sizes(lambda inputs: layer(inputs["contexts"]), {"contexts": contexts}, ("contexts",))
    wanted = np.einsum("bhld,hdw->blw", contexts, ops.convert_to_numpy(layer.kernel)) + 1
    np.testing.assert_allclose(joined({"contexts": contexts}), wanted, atol=1e-5)

"""Backward passes written by hand give the gradients that the backend derives from the plain form beside each."""

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.kernels.gradients import (
    fused_token_losses,
    log_normalizer,
    plain_log_normalizer,
    plain_token_losses,
)
from keras_attn_zoo.kernels.pair_recurrence import pair_recurrence, plain_pair_recurrence
from keras_attn_zoo.kernels.product_gradients import bfloat16_product, plain_product
from keras_attn_zoo.kernels.transformer_gradients import (
    dropped_relu,
    layer_normalized,
    plain_dropped_relu,
    plain_layer_normalized,
)
from keras_attn_zoo.layers.base.layer_normalization import LayerNormalization
from tests.layers.calls import BACKEND, compiled, eager_gradients, to_numpy
from tests.layers.cases import numbers

TARGET, BATCH, HEADS, KEY, VALUE = 5, 2, 3, 2, 4


def assert_alike(by_hand, plain, inputs, atol):
    """Results and gradients of two functions of a dict of arrays to one array; every input has a gradient."""
    of_result = numbers("result", *np.shape(compiled(plain)(inputs)))

    def loss(function):
        return lambda inputs: ops.sum(ops.multiply(function(inputs), of_result))

    np.testing.assert_allclose(compiled(by_hand)(inputs), compiled(plain)(inputs), atol=atol)
    found, wanted = (to_numpy(eager_gradients(loss(function), inputs)) for function in (by_hand, plain))
    for name in inputs:
        assert np.any(wanted[name]), f"{name} has no gradient to compare with"
        np.testing.assert_allclose(found[name], wanted[name], atol=atol, err_msg=name)


@pytest.mark.skipif(BACKEND != "jax", reason="of JAX alone")
@pytest.mark.parametrize("transposed", [False, True])
def test_bfloat16_product(transposed):
    inputs = {"x": numbers("x", 6, 5), "kernel": numbers("kernel", 5, 7), "bias": numbers("bias", 7)}
    if transposed:
        inputs["kernel"] = inputs["kernel"].T

    def of(function):
        def in_bfloat16(given):
            given = {name: ops.cast(value, "bfloat16") for name, value in given.items()}
            return ops.cast(function(**given, transposed=transposed), "float32")

        return in_bfloat16

    def plain(x, kernel, bias, transposed):
        return plain_product(x, kernel, transposed) + bias

    assert_alike(of(bfloat16_product), of(plain), inputs, atol=0.05)


@pytest.mark.skipif(BACKEND != "jax", reason="of JAX alone")
@pytest.mark.parametrize("transposed", [False, True])
def test_the_gradient_of_a_float32_kernel_is_not_rounded(transposed):
    """The sum over rows of exact products: 1 + 2⁻¹⁰ is no bfloat16."""
    x, upstream = np.ones((2, 1), "float32"), np.array([[1.0], [2.0**-10]], "float32")

    def loss(given):
        x, bias = (ops.cast(part, "bfloat16") for part in (given["x"], np.zeros(1)))
        found = bfloat16_product(x, given["kernel"], bias, transposed)
        return ops.sum(ops.cast(found, "float32") * upstream)

    gradients = to_numpy(eager_gradients(loss, {"x": x, "kernel": np.full((1, 1), 3.0, "float32")}))
    assert gradients["kernel"].dtype == np.float32 and gradients["kernel"].item() == 1 + 2.0**-10


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_dropped_relu(kind):
    x = numbers("x", 6, 5)
    kept = np.random.default_rng(0).random((6, 5)) < 0.6
    assert all((kept & (x > 0) == wanted).any() for wanted in (False, True))
    of = [
        lambda given, form=form: ops.cast(form(ops.cast(given["x"], kind), kept, 0.6), "float32")
        for form in (dropped_relu, plain_dropped_relu)
    ]
    assert_alike(*of, {"x": x}, atol=1e-6)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(6, 5), (2, 3, 5)], ids=["rows", "sequences"])
def test_layer_normalized(shape, kind):
    inputs = {"x": 3 + 2 * numbers("x", *shape), "gamma": 1 + numbers("gamma", 5), "beta": numbers("beta", 5)}
    of = [
        lambda given, form=form: form(ops.cast(given["x"], kind), given["gamma"], given["beta"], 1e-5)
        for form in (layer_normalized, plain_layer_normalized)
    ]
    assert_alike(*of, inputs, atol=1e-5 if kind == "float32" else 0.03)


def test_layer_normalized_of_the_equation():
    """In NumPy's float64, with the gradient by differences of the sum of the outputs' squares."""
    x, gamma, beta = 3 + 2 * numbers("x", 4, 5), 1 + numbers("gamma", 5), numbers("beta", 5)

    def equation(x):
        x = x.astype("float64")
        return gamma * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.1) + beta

    layer = LayerNormalization(epsilon=0.1)
    layer.build(x.shape)
    layer.set_weights([gamma, beta])
    np.testing.assert_allclose(to_numpy(layer(x, training=True)), equation(x), atol=1e-5)
    loss = lambda given: ops.sum(ops.square(layer(given["x"], training=True)))  # noqa: E731
    found = to_numpy(eager_gradients(loss, {"x": x}))["x"]
    for place in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[place] = 1e-5
        wanted = (np.square(equation(x + step)).sum() - np.square(equation(x - step)).sum()) / 2e-5
        np.testing.assert_allclose(found[place], wanted, atol=2e-4)


@pytest.mark.parametrize("distance", [1, 200], ids=["by_products", "guarded"])
def test_log_normalizer(distance):
    """Also where the largest logits stand so far apart that the product of matrices cannot be trusted."""
    left, right = numbers("left", 2, 3, 37), numbers("right", 2, 4, 37)
    left[:, :, 0] += distance
    right[:, :, 1] += distance
    inputs = {"left": left, "right": right}
    assert_alike(
        lambda x: log_normalizer(x["left"], x["right"]),
        lambda x: plain_log_normalizer(x["left"], x["right"]),
        inputs,
        atol=1e-5 * max(1, distance / 10),
    )


@pytest.mark.parametrize("by_heads", [False, True], ids=["of_all_heads", "by_heads"])
@pytest.mark.parametrize("noisy", [False, True], ids=["without_noise", "with_noise"])
def test_pair_recurrence(noisy, by_heads):
    """Positions with nothing to attend to stand at the start and in between; dropout drops the pair or doubles it."""
    real = np.ones((TARGET, HEADS, 1, BATCH), dtype=bool)
    real[0, ..., 0] = real[2, ..., 1] = real[3, 1, :, 0] = False
    closed = {"real": real}
    if noisy:
        closed["noise"] = np.random.default_rng(1).choice([0.0, 2.0], real.shape).astype("float32")
    shape = (HEADS, VALUE, KEY + VALUE) if by_heads else (HEADS * VALUE, HEADS * (KEY + VALUE))
    inputs = {
        "query": numbers("query", TARGET, HEADS, KEY, BATCH),
        "context": numbers("context", TARGET, HEADS, VALUE, BATCH),
        "normalizer": numbers("normalizer", TARGET, HEADS, 1, BATCH),
        "kernel": numbers("kernel", *shape) / 4,
        "bias": numbers("bias", HEADS, KEY + VALUE),
        "first": numbers("first", HEADS, KEY + VALUE),
    }

    def of(form):
        def run(x):
            steps = {name: x[name] for name in ("query", "context", "normalizer")}
            steps |= {name: ops.convert_to_tensor(value) for name, value in closed.items()}
            return ops.concatenate(form(steps, x["kernel"], x["bias"], x["first"]), axis=2)

        return run

    assert_alike(of(pair_recurrence), of(plain_pair_recurrence), inputs, atol=2e-5)


def random_pair_recurrence():
    """Inputs of `pair_recurrence` with a gradient, and those without."""
    steps = {"query": numbers("q", TARGET, HEADS, KEY, BATCH), "context": numbers("c", TARGET, HEADS, VALUE, BATCH)}
    steps["normalizer"] = numbers("n", TARGET, HEADS, 1, BATCH)
    weights = {"kernel": numbers("k", HEADS, VALUE, KEY + VALUE), "bias": numbers("b", HEADS, KEY + VALUE)}
    constants = {"real": numbers("r", TARGET, HEADS, 1, BATCH) > -1, "noise": numbers("d", TARGET, HEADS, 1, BATCH)}

    def of(function, given, constants):
        steps = {name: given[name] for name in ("query", "context", "normalizer")}
        return function({**steps, **constants}, given["kernel"], given["bias"], given["bias"])[0]

    return {**steps, **weights}, constants, of, (pair_recurrence, plain_pair_recurrence)


def random_relu():
    """The same of `dropped_relu`."""

    def of(function, given, constants):
        return function(given["x"], constants["kept"], 0.6)

    return {"x": numbers("x", 6, 5)}, {"kept": numbers("kept", 6, 5) > 0}, of, (dropped_relu, plain_dropped_relu)


def random_losses():
    """The same of the loss per token."""

    def of(function, given, constants):
        return function(given["logits"], constants["labels"], 0.1)[0]

    given = {"logits": numbers("logits", 4, 7)}
    return given, {"labels": np.array([1, 0, 6, 2])}, of, (fused_token_losses, plain_token_losses)


@pytest.mark.skipif(BACKEND != "jax", reason="JAX alone traces a part of a program by itself")
@pytest.mark.parametrize("made", [random_pair_recurrence, random_relu, random_losses])
def test_no_gradient_outlives_its_trace(made):
    """Computed again for the backward pass, all values of the function belong to another trace, masks among them."""
    import jax

    given, constants, of, functions = made()

    def gradient(function):
        def loss(given, constants):
            found = of(function, given, constants)
            return ops.sum(found * numbers("result", *found.shape))

        return jax.jit(jax.grad(jax.checkpoint(loss)))(given, constants)

    by_hand, plain = (to_numpy(gradient(function)) for function in functions)
    for name, wanted in plain.items():
        assert np.any(wanted)
        np.testing.assert_allclose(by_hand[name], wanted, atol=1e-5, err_msg=name)

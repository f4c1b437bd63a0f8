"""Backward passes written by hand give the gradients that the backend derives from the plain form beside each."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.kernels import log_normalizer, pair_recurrence, token_losses
from keras_attn_zoo.kernels.forms import plain
from tests.layers.calls import BACKEND, compiled, to_numpy, value_and_gradients
from tests.layers.cases import numbers

TARGET, BATCH, HEADS, KEY, VALUE = 5, 2, 3, 2, 4


def assert_alike(by_hand, plain, inputs, atol):
    """Results and gradients of two functions of a dict of arrays to one array; every input has a gradient."""
    of_result = numbers("result", *np.shape(compiled(plain)(inputs)))

    def loss(function):
        return lambda inputs: ops.sum(ops.multiply(function(inputs), of_result))

    np.testing.assert_allclose(compiled(by_hand)(inputs), compiled(plain)(inputs), atol=atol)
    nothing = keras.layers.Identity()
    found, wanted = (value_and_gradients(nothing, loss(function), inputs)[-1] for function in (by_hand, plain))
    for name in inputs:
        assert np.any(wanted[name]), f"{name} has no gradient to compare with"
        np.testing.assert_allclose(found[name], wanted[name], atol=atol, err_msg=name)


@pytest.mark.parametrize("distance", [1, 200], ids=["by_products", "guarded"])
def test_log_normalizer(distance):
    """Also where the largest logits stand so far apart that the product of matrices cannot be trusted."""
    left, right = numbers("left", 2, 3, 37), numbers("right", 2, 4, 37)
    left[:, :, 0] += distance
    right[:, :, 1] += distance
    inputs = {"left": left, "right": right}
    assert_alike(
        lambda x: log_normalizer(x["left"], x["right"]),
        lambda x: plain(log_normalizer)(x["left"], x["right"]),
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

    assert_alike(of(pair_recurrence), of(plain(pair_recurrence)), inputs, atol=2e-5)


def random_pair_recurrence():
    """Inputs of `pair_recurrence` with a gradient, and those without."""
    steps = {"query": numbers("q", TARGET, HEADS, KEY, BATCH), "context": numbers("c", TARGET, HEADS, VALUE, BATCH)}
    steps["normalizer"] = numbers("n", TARGET, HEADS, 1, BATCH)
    weights = {"kernel": numbers("k", HEADS, VALUE, KEY + VALUE), "bias": numbers("b", HEADS, KEY + VALUE)}
    constants = {"real": numbers("r", TARGET, HEADS, 1, BATCH) > -1, "noise": numbers("d", TARGET, HEADS, 1, BATCH)}

    def of(function, given, constants):
        steps = {name: given[name] for name in ("query", "context", "normalizer")}
        return function({**steps, **constants}, given["kernel"], given["bias"], given["bias"])[0]

    return {**steps, **weights}, constants, of, (pair_recurrence, plain(pair_recurrence))


def random_losses():
    """The same of the loss per token."""

    def of(function, given, constants):
        return function(given["logits"], constants["labels"], 0.1)[0]

    given = {"logits": numbers("logits", 4, 7)}
    return given, {"labels": np.array([1, 0, 6, 2])}, of, (token_losses, plain(token_losses))


@pytest.mark.skipif(BACKEND != "jax", reason="JAX alone traces a part of a program by itself")
@pytest.mark.parametrize("made", [random_pair_recurrence, random_losses])
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

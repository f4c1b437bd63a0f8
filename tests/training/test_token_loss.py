"""The sums of the loss against a literal float64 loop."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.kernels import token_losses
from keras_attn_zoo.kernels.forms import plain
from keras_attn_zoo.training.token_loss import token_sums
from tests import tiny
from tests.layers.calls import value_and_gradients


def literal(logits, labels, weights, smoothing):
    sums = {"loss": 0.0, "nll": 0.0, "correct": 0.0, "tokens": 0.0}
    for b, i in np.ndindex(*labels.shape):
        z, y, w = logits[b, i].astype("float64"), labels[b, i], weights[b, i]
        log_p = z - np.log(np.exp(z).sum())
        sums["nll"] += w * -log_p[y]
        target = np.full(len(z), smoothing / len(z))
        target[y] += 1 - smoothing
        sums["loss"] += w * -(target * log_p).sum()
        sums["correct"] += w * (np.argmax(z) == y)
        sums["tokens"] += w
    return sums


def random_case(seed=0):
    rng = np.random.default_rng(seed)
    logits = 3 * rng.standard_normal((3, 5, 7)).astype("float32")
    labels = rng.integers(0, 7, (3, 5)).astype("int32")
    labels[0, :3] = logits[0, :3].argmax(-1)
    return logits, labels, (rng.random((3, 5)) < 0.7).astype("float32")


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("fractions", [False, True])
def test_equals_the_literal_sum(smoothing, fractions):
    logits, labels, weights = random_case()
    if fractions:
        weights *= np.random.default_rng(1).random(weights.shape).astype("float32")
    sums = tiny.as_numpy(token_sums(ops.convert_to_tensor(logits), labels, weights, smoothing))
    expected = literal(logits, labels, weights, smoothing)
    assert sums.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(sums[name], value, rtol=1e-6, err_msg=name)
    assert 0 < sums["correct"] < sums["tokens"]


@pytest.mark.parametrize("form", [plain(token_losses), token_losses])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_equals_that_of_the_equation(form, smoothing):
    """Softmax minus target, for each token by its weight, also where the logits are far apart."""
    logits, labels, weights = random_case()
    logits[1] *= 20

    def loss(inputs):
        of_tokens, *_ = form(inputs["logits"], ops.convert_to_tensor(labels), smoothing)
        return ops.sum(of_tokens * ops.convert_to_tensor(weights))

    value, _, gradients = value_and_gradients(keras.layers.Identity(), loss, {"logits": logits})
    exact = logits.astype("float64")
    probabilities = np.exp(exact - exact.max(-1, keepdims=True))
    probabilities /= probabilities.sum(-1, keepdims=True)
    target = (1 - smoothing) * np.eye(7)[labels] + smoothing / 7
    np.testing.assert_allclose(gradients["logits"], weights[..., None] * (probabilities - target), atol=1e-6)
    np.testing.assert_allclose(value, literal(logits, labels, weights, smoothing)["loss"], rtol=1e-5)


def test_padding_counts_for_nothing():
    logits, labels, weights = random_case()
    expected = tiny.as_numpy(token_sums(ops.convert_to_tensor(logits), labels, weights, 0.1))
    logits[weights == 0] = 1e4
    labels[weights == 0] = 0
    assert tiny.as_numpy(token_sums(ops.convert_to_tensor(logits), labels, weights, 0.1)) == expected


def test_large_logits_and_low_precision_are_summed_in_float32():
    logits, labels, weights = random_case()
    low = ops.cast(ops.convert_to_tensor(logits * 100), "bfloat16")
    sums = token_sums(low, labels, weights)
    assert {keras.backend.standardize_dtype(value.dtype) for value in sums.values()} == {"float32"}
    exact = tiny.as_numpy(ops.cast(low, "float32"))
    shifted = exact - exact.max(-1, keepdims=True)
    expected = literal(shifted, labels, weights, 0.0)
    np.testing.assert_allclose(tiny.as_numpy(sums["nll"]), expected["nll"], rtol=1e-5)

"""Dropout: rates, independence of its draws, gradients."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.bodies.transformer_layers import TransformerEncoderLayer
from keras_attn_zoo.layers import MultiHeadAttention
from keras_attn_zoo.layers.base.dropout import ActivationDropout, Dropout
from tests.layers.calls import value_and_gradients

SHAPE = (64, 50, 40)
SIZES = {"width": 8, "ffn_dim": 16, "normalization": "post", "dropout": 0.0, "activation_dropout": 0.0}


def kept(layer, count=1):
    """Masks of so many calls in training."""
    return [ops.convert_to_numpy(layer(ops.ones(SHAPE), training=True)) > 0 for _ in range(count)]


def correlation(a, b):
    """Of two arrays of draws, in standard deviations of what chance gives."""
    a, b = a.ravel() - a.mean(), b.ravel() - b.mean()
    return abs((a * b).mean() / (a.std() * b.std())) * np.sqrt(a.size)


def test_draws_are_independent():
    layer = Dropout(0.3, seed=5)
    masks = kept(layer, 4)
    for i in range(4):
        for shift in [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 32)]:
            assert correlation(masks[i], np.roll(masks[i], shift, (0, 1, 2))) < 4.5
        # One call's seed is the last one's and one.
        for j in range(i):
            assert correlation(masks[i], masks[j]) < 4.5
    other = kept(Dropout(0.3, seed=6))[0]
    assert all(correlation(mask, other) < 4.5 for mask in masks)
    # No row, column or position is dropped more often than another.
    for axis in [(0, 1), (0, 2), (1, 2)]:
        share = np.mean(masks, axis=(0, *(a + 1 for a in axis)))
        draws = len(masks) * np.prod([SHAPE[a] for a in axis])
        assert abs(share - 0.7).max() < 4.5 * np.sqrt(0.21 / draws)


def test_a_seed_fixes_the_draws():
    first, second = (np.stack(kept(Dropout(0.5, seed=7), 2)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (first[0] != first[1]).any()


def test_the_gradient_is_the_mask():
    x = np.random.default_rng(0).standard_normal((3, 5)).astype("float32") + 3
    layer = Dropout(0.4, seed=1)
    value, _, gradients = value_and_gradients(
        layer, lambda inputs: ops.sum(layer(inputs["x"], training=True)), {"x": x}
    )
    assert set(np.unique(gradients["x"])) <= {0, np.float32(1 / 0.6)}
    np.testing.assert_allclose(value, (gradients["x"] * x).sum(), rtol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_an_activation_before_it(activation):
    """Of the activated inputs the mask is dropout's own, with the same seed; gradients are those of both together."""
    x = np.random.default_rng(0).standard_normal((40, 50)).astype("float32")
    joined, alone = ActivationDropout(0.4, activation, seed=1), Dropout(0.4, seed=1)
    value, _, gradients = value_and_gradients(
        joined, lambda inputs: ops.sum(ops.square(joined(inputs["x"], training=True))), {"x": x}
    )
    mask = ops.convert_to_numpy(alone(np.ones(x.shape, "float32"), training=True))
    active, slope = (np.maximum(x, 0), x > 0) if activation == "relu" else (np.tanh(x), 1 - np.tanh(x) ** 2)
    np.testing.assert_allclose(value, np.square(active * mask).sum(), rtol=1e-5)
    np.testing.assert_allclose(gradients["x"], 2 * active * mask * slope * mask, atol=1e-5)
    np.testing.assert_allclose(ops.convert_to_numpy(joined(x)), active, atol=1e-6)
    assert isinstance(copy := keras.layers.deserialize(keras.layers.serialize(joined)), ActivationDropout)
    assert copy.get_config()["activation"] == activation
    with pytest.raises(ValueError, match="snake"):
        ActivationDropout(0.1, "snake")


@pytest.mark.skipif(keras.config.backend() == "tensorflow", reason="Keras recomputes nothing there")
def test_activations_that_are_computed_again():
    with keras.RematScope(mode="activations"):
        layer = TransformerEncoderLayer(MultiHeadAttention(2, 4), **SIZES)
    layer.build((None, None, 8))
    assert layer.get_config()["activation"] == "relu"
    x = np.random.default_rng(0).standard_normal((2, 3, 8)).astype("float32")
    mask = np.ones((2, 3), bool)
    value, _, gradients = value_and_gradients(
        layer, lambda inputs: ops.sum(layer(inputs["x"], mask, training=True)[0] ** 3), {"x": x}
    )
    layer.activation_dropout.activation = keras.activations.relu
    wanted = ops.convert_to_numpy(ops.sum(layer(x, mask, training=True)[0] ** 3))
    np.testing.assert_allclose(value, wanted, rtol=1e-5)
    assert np.isfinite(gradients["x"]).all() and np.any(gradients["x"])


def test_nothing_is_dropped_outside_training():
    x = np.ones((2, 3), "float32")
    assert np.array_equal(Dropout(0.9)(x), x)
    assert np.array_equal(Dropout(0.0)(x, training=True), x)
    assert np.array_equal(Dropout(1.0)(x, training=True), 0 * x)


def test_types_and_the_noise_shape_of_keras():
    half = Dropout(0.5, dtype="bfloat16")(ops.ones((8, 8)), training=True)
    assert keras.backend.standardize_dtype(half.dtype) == "bfloat16"
    rows = ops.convert_to_numpy(Dropout(0.5, noise_shape=(None, 1))(ops.ones((64, 5)), training=True))
    assert (rows == rows[:, :1]).all() and 0 < rows.mean() < 2
    assert isinstance(keras.layers.deserialize(keras.layers.serialize(Dropout(0.5))), Dropout)

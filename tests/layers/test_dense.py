"""Linear maps of layers: what is prepared of them for inference."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.kernels import jax_cpu
from keras_attn_zoo.layers.base.dense import Dense
from keras_attn_zoo.layers.base.heads import HeadMerge, HeadProjection
from tests.layers.calls import BACKEND, to_numpy
from tests.layers.cases import numbers
from tests.weights import fill_weights

SEEDED = {"kernel_initializer": keras.initializers.GlorotUniform(seed=7)}


@pytest.mark.parametrize("quantized", [False, True])
def test_a_kernel_with_lora_is_not_prepared(quantized, monkeypatch):
    """What LoRA adds would be missing; without it, JAX prepares kernels on a processor that gains from it."""
    monkeypatch.setattr(jax_cpu, "is_intel", lambda: True)
    monkeypatch.setattr(jax_cpu, "integers_are_slow", lambda: True)
    layer = Dense(4)
    layer.build((None, 6))
    if quantized:
        layer.quantize("int8")
    assert layer.preparation(rows=8) == ("transposed" if BACKEND == "jax" else None)
    layer.enable_lora(2)
    assert layer.preparation(rows=8) is None


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(Dense(4), (None, 6)), (HeadProjection(2, 3), (None, None, 6)), (HeadMerge(5), (None, 2, None, 3))],
    ids=["dense", "projection", "merge"],
)
def test_the_matrix_of_a_kernel_in_int8_is_the_one_that_was_quantized(layer, shape):
    layer.build(shape)
    fill_weights(layer)
    wanted = to_numpy(layer.kernel).reshape(6, -1)
    layer.quantize("int8")
    half_a_step = np.abs(wanted).max(0) / 127 / 2
    assert (np.abs(to_numpy(layer.own_matrix()) - wanted) <= 1.01 * half_a_step).all()
    layer.enable_lora(2, lora_alpha=6)
    layer.lora_kernel_b.assign(numbers("lora", *layer.lora_kernel_b.shape))
    added = 6 / 2 * (to_numpy(layer.lora_kernel_a) @ to_numpy(layer.lora_kernel_b)).reshape(6, -1)
    assert (np.abs(to_numpy(layer.own_matrix()) - wanted) <= 1.01 * half_a_step).all()
    if not isinstance(layer, Dense):
        assert (np.abs(to_numpy(layer.matrix()) - wanted - added) <= 1.01 * half_a_step + 1e-6).all()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(HeadProjection(2, 3, **SEEDED), (None, None, 6)), (HeadMerge(5, **SEEDED), (None, 2, None, 3))],
    ids=["projection", "merge"],
)
def test_kernels_are_drawn_with_the_fans_of_their_shape(layer, shape):
    """Not with those of the equation, as in Keras' layer: all published figures used these."""
    layer.build(shape)
    drawn = keras.initializers.GlorotUniform(seed=layer.kernel_initializer.seed)(layer.kernel.shape)
    np.testing.assert_array_equal(to_numpy(layer.kernel), to_numpy(drawn))
    config = layer.get_config()["kernel_initializer"]
    assert keras.initializers.deserialize(config).get_config() == layer.kernel_initializer.get_config()

"""Two virtual devices of TensorFlow give the numbers of one."""

import keras
import numpy as np
import pytest

from tests.devices.law import check, numbers

if keras.config.backend() != "tensorflow":
    pytest.skip("of TensorFlow", allow_module_level=True)

from keras_attn_zoo.devices import devices_of, using
from keras_attn_zoo.layers.common.dropout import Dropout


def test_two_replicas_give_the_numbers_of_one():
    devices = devices_of(2)
    assert devices.parts == 2
    check(numbers(devices, parts=2), numbers(None, parts=2))


def test_replicas_draw_their_own_dropout():
    devices = devices_of(2)
    ones = np.ones((3, 50), "float32")
    with using(devices):
        inputs = keras.Input((50,))
        model = keras.Model(inputs, Dropout(0.5, seed=1)(inputs))
        replicas = devices.strategy.experimental_local_results
        alike = replicas(devices.strategy.run(lambda: model(ones, training=True)))
        np.testing.assert_array_equal(*alike)
        devices.separate_noise(model)
        first, second = replicas(devices.strategy.run(lambda: model(ones, training=True)))
    assert 0.3 < np.mean(np.array(first) == np.array(second)) < 0.7

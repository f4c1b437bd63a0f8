"""Two virtual devices of TensorFlow give the numbers of one."""

import keras
import pytest

from tests.devices.law import check, numbers

if keras.config.backend() != "tensorflow":
    pytest.skip("of TensorFlow", allow_module_level=True)

from keras_attn_zoo.devices import devices_of


def test_two_replicas_give_the_numbers_of_one():
    devices = devices_of(2)
    assert devices.parts == 2
    check(numbers(devices, parts=2), numbers(None, parts=2))

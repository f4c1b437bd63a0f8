"""The peak memory of some work, against sizes computed by hand; in a process of its own, whose allocator it changes."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import keras
import pytest
from keras import ops

from keras_attn_zoo.kernels import peak_bytes

# Numbers of 4 bytes; a power of two, which TensorFlow rounds to itself.
NUMBERS = 1 << 25


def measured(arrays):
    """The peak of so many arrays that are there at once."""

    def work():
        kept = [ops.ones((NUMBERS,), "float32") for _ in range(arrays)]
        return float(sum(ops.convert_to_numpy(one[-1]) for one in kept))

    return peak_bytes(work)


@pytest.mark.every_backend
def test_arrays_that_are_there_at_once_are_counted():
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        one, three = process.map(measured, [1, 3])
    if "cpu" in str(keras.ops.zeros((1,)).device).lower():
        assert one == pytest.approx(4 * NUMBERS, rel=0.05)
        assert three == pytest.approx(12 * NUMBERS, rel=0.05)

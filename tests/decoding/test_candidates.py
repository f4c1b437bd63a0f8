import keras
import numpy as np
import pytest

from keras_attn_zoo.decoding.candidates import BLOCK, largest


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("size", [5, 4 * 5 * BLOCK - 1, 4 * 5 * BLOCK, 1003])
def test_they_are_those_of_a_stable_sort(k, size):
    """Few different numbers, so that many are equal; blocks without a finite number; numbers that fill no block."""
    rng = np.random.default_rng([k, size])
    x = rng.integers(-4, 5, (7, size)).astype("float32")
    x[0] = -1e9
    x[1, : size // 2] = -np.inf
    # Of equal numbers, the first is in a block with a smaller maximum.
    x[2] = -9
    x[2, [1, -2, -1]] = 3, 3, 5
    values, indices = largest(keras.ops.convert_to_tensor(x), k)
    expected = np.argsort(-x, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(values), np.take_along_axis(x, expected, axis=1))
    found = keras.ops.convert_to_numpy(indices)
    if keras.config.backend() != "torch":
        # PyTorch promises no order among equal numbers.
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.take_along_axis(x, found, axis=1), np.take_along_axis(x, expected, axis=1))

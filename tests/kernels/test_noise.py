"""Dropout of an array, in the form of each backend."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.kernels import dropout


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_a_share_is_dropped_and_the_rest_scaled(rate, kind):
    x = ops.ones((200, 301), dtype=kind)
    seed = keras.random.SeedGenerator(3)
    first, second = (ops.convert_to_numpy(ops.cast(dropout(x, rate, seed), "float32")) for _ in range(2))
    deviation = np.sqrt(rate * (1 - rate) / first.size)
    assert abs((first == 0).mean() - rate) < 4.5 * deviation
    np.testing.assert_allclose(first[first != 0], 1 / (1 - rate), rtol=1e-6 if kind == "float32" else 0.01)
    assert (first != second).any()


def test_words_of_a_seed_with_the_same_sum_drop_other_numbers():
    """Or the masks of a layer would be those of another one's next step."""
    x, masks = ops.ones((20, 30)), []
    for words in ((7, 3), (8, 2)):
        seed = keras.random.SeedGenerator(1)
        seed.state.assign(words)
        masks.append(ops.convert_to_numpy(dropout(x, 0.5, seed)))
    assert 0.3 < (masks[0] != masks[1]).mean() < 0.7

"""Token embedding: look-up, projection, and a gradient that adds up the rows of repeated tokens."""

import keras
import numpy as np

from keras_attn_zoo.bodies import TokenEmbedding
from tests import tiny
from tests.weights import fill_weights

IDS = np.array([[1, 1, 2], [1, 3, 2]], "int32")


def embedding(**kwargs):
    layer = TokenEmbedding(5, 4, name="embedding", **kwargs)
    layer.build((None, None))
    fill_weights(layer)
    return layer, tiny.as_numpy(layer.embeddings.value).astype("float64")


def test_looks_up_and_projects_with_one_matrix():
    layer, table = embedding()
    assert len(layer.weights) == 1
    np.testing.assert_array_equal(tiny.as_numpy(layer(IDS)), table[IDS])
    states = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    np.testing.assert_allclose(tiny.as_numpy(layer(states, reverse=True)), states @ table.T, rtol=0, atol=1e-6)


def test_mixed_precision():
    layer, table = embedding(dtype="mixed_bfloat16")
    assert keras.backend.standardize_dtype(layer(IDS).dtype) == "bfloat16"
    assert layer.embeddings.dtype == "float32"
    np.testing.assert_array_equal(tiny.as_numpy(layer(IDS)), table[IDS])


def test_adam_in_a_model_of_keras_sees_repeated_tokens_as_one_row():
    layer, table = embedding()
    model = keras.Sequential([keras.Input((3,), dtype="int32"), layer])
    model.compile(optimizer=keras.optimizers.Adam(0.1, epsilon=0.01), loss="mse")
    goal = np.random.default_rng(1).standard_normal((2, 3, 4)).astype("float32")
    model.fit(IDS, goal, batch_size=2, verbose=0)
    gradient = np.zeros_like(table)
    np.add.at(gradient, IDS, 2 * (table[IDS] - goal) / goal.size)
    m, v = 0.1 * gradient, 0.001 * gradient**2
    expected = table - 0.1 * np.sqrt(1 - 0.999) / (1 - 0.9) * m / (np.sqrt(v) + 0.01)
    np.testing.assert_allclose(tiny.as_numpy(layer.embeddings.value), expected, rtol=0, atol=1e-6)

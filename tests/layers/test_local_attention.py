"""Local attention in long sentences; `test_attention_laws.py` has the rest."""

import numpy as np

from keras_attn_zoo.layers import LocalAttention, LuongAttention
from tests.layers.calls import to_numpy
from tests.layers.cases import numbers
from tests.weights import fill_weights


def test_a_predicted_window_is_where_it_belongs_in_half_precision():
    """With equal energies, the mean position of the weights is the centre, to half a position."""
    source, width, window = 1500, 16, 10
    layer = LocalAttention(window=window, dtype="mixed_bfloat16")
    query, value = numbers("query", 1, 40, width), np.ones((1, source, width), "float32")
    layer.build(query.shape, value.shape)
    fill_weights(layer, scale=2.0)
    _, scores = layer(query, value, return_attention_scores=True)
    scores = to_numpy(scores)[0, 0].astype("float64")
    kernel, vector = (to_numpy(w.value).astype("float64") for w in (layer.position_kernel, layer.position_vector))
    centre = source / (1 + np.exp(-np.tanh(query[0] @ kernel) @ vector[:, 0]))
    inside = (centre > window) & (centre < source - window)
    assert np.ptp(centre[inside]) > 500
    mean = scores @ np.arange(source) / scores.sum(axis=-1)
    np.testing.assert_allclose(mean[inside], centre[inside], atol=0.5)


def test_a_window_wider_than_any_sentence_is_no_window():
    query, value = numbers("query", 1, 3, 4), numbers("value", 1, 5, 4)
    scores = []
    for layer in (LocalAttention("monotonic", window=10**12, score="dot"), LuongAttention("dot")):
        layer.build(query.shape, value.shape)
        fill_weights(layer)
        scores.append(to_numpy(layer(query, value, return_attention_scores=True)[1]))
    np.testing.assert_allclose(*scores, atol=1e-6)

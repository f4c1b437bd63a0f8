"""Local attention in long sentences; `test_attention_laws.py` has the rest."""

import numpy as np
import pytest

from keras_attn_zoo.layers import LocalAttention, LuongAttention
from tests import tiny
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


def test_a_step_of_a_monotonic_alignment_asks_for_its_position():
    layer = LocalAttention("monotonic", window=1, score="dot")
    query, value = numbers("query", 2, 4), numbers("value", 2, 5, 4)
    layer.build((2, 1, 4), value.shape)
    memory = layer.prepare(value)
    with pytest.raises(ValueError, match="a step with a monotonic alignment needs its `position`, from 0"):
        layer.step(query, memory, {})
    _, scores, state = layer.step(query, memory, {}, position=3)
    # The window of position 3 is 2 to 4.
    assert state == {} and (to_numpy(scores)[:, 0, :2] == 0).all() and (to_numpy(scores)[:, 0, 2:] > 0).all()


def test_beams_share_the_memory_of_a_mechanism_that_depends_on_positions():
    backbone = tiny.transformer(cross_attention="local_m")
    ids = np.array([[2, 5, 6, 3]])
    constants, memory, state = backbone.start_search(ids, np.ones_like(ids, "bool"), 8)
    assert all(constants["source"]) and memory == [{}] * len(memory)
    assert all(one["cross"] == {} for one in state["layers"])

"""Monotonic alignments: decisions against a loop, their expectation against all decisions there are."""

import itertools

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import MonotonicAttention, MonotonicChunkwiseAttention
from tests.layers.calls import compiled, eager_gradients, to_numpy
from tests.layers.cases import numbers, weights_of
from tests.layers.references.monotonic_attention import energies_of
from tests.weights import fill_weights

BATCH, TARGET, SOURCE, WIDTH = 4, 3, 4, 5


def built(layer, source=SOURCE, scale=1.0):
    """A layer with weights, its query and its value."""
    query, value = numbers("query", BATCH, TARGET, WIDTH), numbers("value", BATCH, source, WIDTH)
    layer.build(query.shape, value.shape)
    fill_weights(layer)
    layer.gain.assign(3.0 * scale)
    layer.offset.assign(-0.5 * scale)
    return query, value


def energies(layer, query, value):
    weights = weights_of(layer)
    factor = weights["gain"] / np.linalg.norm(weights["energy_kernel"])
    return [factor * energies_of(weights, q, v) + weights["offset"] for q, v in zip(query, value, strict=True)]


def stops(decisions):
    """Where each target position stops; None where it passes the end, and from then on."""
    place, found = 0, []
    for row in decisions:
        while place is not None and not row[place]:
            place = place + 1 if place + 1 < len(row) else None
        found.append(place)
    return found


def weights_at(places, source):
    return np.array([np.zeros(source) if place is None else np.eye(source)[place] for place in places])


def test_decisions_are_those_of_reading_on_until_something_is_chosen():
    layer = MonotonicAttention(units=6, name="monotonic_attention")
    query, value = built(layer, source=7)

    def run(query, value):
        called = layer(query, value, return_attention_scores=True, training=False)
        memory, contexts, scores = layer.prepare(value), [], []
        state = layer.initial_state(memory)
        for i in range(TARGET):
            context, weights, state = layer.step(query[:, i], memory, state)
            contexts.append(context)
            scores.append(weights)
        return called, (ops.stack(contexts, axis=1), ops.stack(scores, axis=2))

    places = [stops(one > 0) for one in energies(layer, query, value)]
    assert len({place for one in places for place in one}) > 3 and any(None in one for one in places)
    wanted = np.stack([weights_at(one, 7) for one in places])
    for context, scores in compiled(run)(query, value):
        np.testing.assert_array_equal(scores[:, 0], wanted)
        np.testing.assert_allclose(context, wanted @ value, atol=1e-6)


def test_a_decision_makes_no_array_of_all_pairs_of_positions():
    """Which would be terabytes."""
    layer = MonotonicAttention(units=1, name="of_a_long_source")
    layer.build((1, 1, 1), (1, 1_000_000, 1))
    fill_weights(layer)
    layer.offset.assign(9.0)
    memory = layer.prepare(np.ones((1, 1_000_000, 1), "float32"))
    _, scores, _ = layer.step(np.ones((1, 1), "float32"), memory, layer.initial_state(memory))
    assert int(to_numpy(scores).argmax()) == 0 and to_numpy(scores).sum() == 1


def test_what_is_trained_is_the_expectation_over_all_decisions():
    layer = MonotonicAttention(units=6, name="monotonic_attention_1", noise=0.0)
    query, value = built(layer)
    layer.offset.assign(-5.0)
    found = to_numpy(layer(query, value, return_attention_scores=True, training=True)[1])[0, 0]
    probabilities = 1 / (1 + np.exp(-energies(layer, query, value)[0]))
    wanted = np.zeros((TARGET, SOURCE))
    for one in itertools.product([False, True], repeat=TARGET * SOURCE):
        decisions = np.reshape(one, (TARGET, SOURCE))
        weight = np.prod(np.where(decisions, probabilities, 1 - probabilities))
        wanted += weight * weights_at(stops(decisions), SOURCE)
    assert 0.1 < wanted.sum() / TARGET < 0.9
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("kind", [MonotonicAttention, MonotonicChunkwiseAttention])
def test_certain_expectations_are_decisions_with_finite_gradients(kind):
    """Where every 1 - p is 0 or 1 to float32, in a source of many positions."""
    layer = kind(units=6, name=kind.__name__, noise=0.0)
    query, value = built(layer, source=300, scale=1e4)
    decided, trained = (layer(query, value, return_attention_scores=True, training=on)[1] for on in (False, True))
    assert to_numpy(decided).any()
    np.testing.assert_allclose(to_numpy(trained), to_numpy(decided), rtol=1e-5, atol=1e-6)
    inputs = {"query": query, "value": value}
    for gradient in eager_gradients(lambda x: ops.sum(layer(**x, training=True)), inputs).values():
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("kind", [MonotonicAttention, MonotonicChunkwiseAttention])
def test_steps_of_training_have_the_noise_of_the_call(kind):
    layer = kind(units=6, name=kind.__name__, noise=2.0)
    query, value = built(layer)
    drawn = to_numpy(layer.draw_noise(layer.prepare(value), TARGET))
    assert drawn["energies"].shape == (TARGET, BATCH, 1, SOURCE) and 1.2 < drawn["energies"].std() < 2.8
    plain = to_numpy(layer(query, value, return_attention_scores=True))
    layer.draw_noise = lambda memory, length: {name: ops.convert_to_tensor(x) for name, x in drawn.items()}
    called = to_numpy(layer(query, value, return_attention_scores=True, training=True))
    memory = layer.prepare(value)
    state = layer.initial_state(memory)
    for i in range(TARGET):
        noise = {name: ops.convert_to_tensor(x[i]) for name, x in drawn.items()}
        context, scores, state = layer.step(query[:, i], memory, state, noise)
        np.testing.assert_allclose(to_numpy(context), called[0][:, i], atol=1e-6)
        np.testing.assert_allclose(to_numpy(scores), called[1][:, :, i], atol=1e-6)
    assert np.abs(called[1] - plain[1]).max() > 0.1
    # A model in a `keras.RematScope` passes `training` on as a tensor.
    for training, wanted in ((True, called), (False, plain)):
        found = layer.attend(query, layer.prepare(value), None, training=ops.convert_to_tensor(training))
        np.testing.assert_allclose(to_numpy(found[1]), wanted[1], atol=1e-6)


def test_a_chunk_of_one_position_is_where_it_stops_and_one_of_all_a_softmax():
    layer = MonotonicChunkwiseAttention(units=6, name="chunkwise", chunk_size=1)
    query, value = built(layer)
    places = [stops(one > 0) for one in energies(layer, query, value)]
    wanted = np.stack([weights_at(one, SOURCE) for one in places])
    np.testing.assert_allclose(to_numpy(layer(query, value, return_attention_scores=True)[1])[:, 0], wanted, atol=1e-6)
    layer.chunk_size = SOURCE
    found = to_numpy(layer(query, value, return_attention_scores=True)[1])[:, 0]
    for sentence, one in enumerate(places):
        u = np.exp(energies_of(weights_of(layer), query[sentence], value[sentence], "chunk_"))
        for i, place in enumerate(one):
            chunk = np.zeros(SOURCE) if place is None else u[i] * (np.arange(SOURCE) <= place)
            np.testing.assert_allclose(found[sentence, i], chunk / max(chunk.sum(), 1e-9), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noise": -1}, r"`noise` must be a number from 0 to 10000. Received: noise=-1"),
        ({"initial_offset": "x"}, r"`initial_offset` must be a number"),
        ({"chunk_size": 0}, r"`chunk_size` must be a positive integer"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        MonotonicChunkwiseAttention(units=6, **arguments)

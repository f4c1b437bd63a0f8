"""What the laws do not say of recurrent cross-attentions: their arguments, and options at other values."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import (
    EnergyAccumulationAttention,
    ExpandedKeyValueAttention,
    MultiHeadAttention,
    WeightSubtractionAttention,
    get_attention,
)
from tests.layers.calls import compiled, to_numpy, value_and_gradients
from tests.layers.cases import numbers, weights_of
from tests.layers.references.energy_accumulation_attention import energy_accumulation
from tests.weights import fill_weights

SIZES = {"num_heads": 2, "key_dim": 3}
QUERY, VALUE = numbers("query", 2, 3, 7), numbers("value", 2, 5, 7)


def outputs(layer, query=QUERY, value=VALUE, **masks):
    layer.build(query.shape, value.shape)
    fill_weights(layer)
    return compiled(lambda q, v: layer(q, v, return_attention_scores=True, **masks))(query, value)


@pytest.mark.parametrize(("mixing", "window"), [(0.5, 0), (0.9, 1), (0.05, 2), (0.3, 50)])
def test_energy_accumulation_at_other_settings(mixing, window):
    """Among them a decay that is still felt after forty positions, and a window beyond the sentence."""
    query, value = numbers("long query", 2, 40, 7), numbers("value", 2, 11, 7)
    real = np.ones((2, 11), dtype=bool)
    real[1, 6:] = False
    layer = EnergyAccumulationAttention(**SIZES, mixing=mixing, window=window, name="attention")
    found = outputs(layer, query, value, value_mask=real)
    reference = functools.partial(energy_accumulation, mixing=mixing, window=window)
    for sentence in range(2):
        mask = np.broadcast_to(real[sentence], (2, 40, 11))
        wanted = reference(weights_of(layer), query[sentence], value[sentence], value[sentence], mask, real[sentence])
        for part, name in zip(range(2), ("context", "scores"), strict=True):
            np.testing.assert_allclose(found[part][sentence], wanted[part], atol=5e-6, err_msg=name)


@pytest.mark.parametrize(
    "layer",
    [EnergyAccumulationAttention(**SIZES, mixing=1.0, name="attention"),
     WeightSubtractionAttention(**SIZES, subtraction=0.0, name="attention")],
)  # fmt: skip
def test_settings_that_leave_nothing_but_multi_head_attention(layer):
    wanted = outputs(MultiHeadAttention(**SIZES, name="attention"))
    for a, b in zip(outputs(layer), wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)


@pytest.mark.parametrize("variant", [1, 2, 3, 4])
def test_expanded_key_value_survives_extreme_energies(variant):
    """Where the source's energies are far below or above the pair's, shares are 0 or 1 and nothing is NaN."""
    for scale in (1e3, 1e-3):
        layer = ExpandedKeyValueAttention(**SIZES, variant=variant, name="attention")
        context, scores = outputs(layer, scale * QUERY, VALUE)
        assert np.all(np.isfinite(context))
        assert np.all((scores >= 0) & (scores <= 1))


@pytest.mark.parametrize(
    "name", ["temporal", "multi_head_temporal", "structural_biases", "gaussian_mixture", "multi_head_latent"]
)
def test_extreme_queries_have_finite_gradients(name):
    """Energies whose exponentials are not in float32, and windows that leap over the source."""
    layer = get_attention(name, 8, 2)
    layer.build(QUERY.shape, VALUE.shape)
    fill_weights(layer)
    call = compiled(lambda query, value: layer(query, value, return_attention_scores=True))

    def total(inputs):
        context, scores = layer(**inputs, return_attention_scores=True)
        return ops.sum(ops.square(scores)) + ops.sum(ops.tanh(context))

    for scale in (1e3, 1e-3):
        context, scores = call(scale * QUERY, VALUE)
        assert np.isfinite(context).all() and np.all((scores >= 0) & (scores <= 1 + 1e-6))
        found = value_and_gradients(layer, total, {"query": scale * QUERY, "value": VALUE})
        assert all(np.isfinite(one).all() for one in keras.tree.flatten(found))


def test_temporal_attention_where_exponentials_overflow():
    """The quotient of the paper, with one factor for all energies of a row taken out of the exponentials."""
    layer = get_attention("temporal", 8, score="dot")
    query, value = 20 * QUERY, 5 * VALUE
    layer.build(query.shape, value.shape)
    energies = query.astype("float64") @ value.swapaxes(1, 2)
    # Of float32, e^88 is the largest.
    assert energies.max() > 300
    wanted = np.zeros_like(energies)
    for i in range(energies.shape[1]):
        past = np.logaddexp.reduce(energies[:, :i], axis=1) if i else 0.0
        ratio = energies[:, i] - past
        wanted[:, i] = np.exp(ratio - ratio.max(axis=-1, keepdims=True))
    wanted /= wanted.sum(axis=-1, keepdims=True)
    found = to_numpy(layer(query, value, return_attention_scores=True)[1])[:, 0]
    np.testing.assert_allclose(found, wanted, atol=5e-4)


def test_variant_1_needs_one_width():
    with pytest.raises(ValueError, match=r"variant 1 .* of one width. Received: context 7, key 9, value 9"):
        ExpandedKeyValueAttention(**SIZES, variant=1)(QUERY, numbers("value", 2, 5, 9))


@pytest.mark.parametrize("variant", [1, 2, 3, 4])
def test_expanded_key_value_with_a_mask_of_each_head(variant):
    """One head alone, and then all, have nothing to attend to: at once, and position by position."""
    layer = ExpandedKeyValueAttention(**SIZES, variant=variant, name="attention")
    query, value = numbers("query", 2, 5, 7), numbers("value", 2, 6, 7)
    layer.build(query.shape, value.shape)
    fill_weights(layer)
    mask = np.ones((2, SIZES["num_heads"], 5, 6), dtype=bool)
    mask[0, 1, :2] = mask[1, :, 2] = False

    def run(query, value, mask):
        memory, one_by_one = layer.prepare(value), []
        state = layer.initial_state(memory)
        for i in range(5):
            *one, state = layer.attend_once(query[:, i : i + 1], memory, mask[:, :, i : i + 1], state)
            one_by_one.append(one)
        return layer.attend(query, memory, mask, training=False), one_by_one

    found, one_by_one = compiled(run)(query, value, mask)
    for part, axis in ((0, 1), (1, 2)):
        joined = np.concatenate([one[part] for one in one_by_one], axis=axis)
        np.testing.assert_allclose(found[part], joined, atol=2e-6)

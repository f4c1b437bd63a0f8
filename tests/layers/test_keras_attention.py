"""`MultiHeadAttention` beside Keras' own layer with the same weights: axes, shapes, windows, masks and regularisers."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import MultiHeadAttention, get_attention
from tests.layers.calls import BACKEND, compiled, to_numpy
from tests.layers.cases import numbers
from tests.layers.test_beams_that_share import assert_beams_share
from tests.weights import fill_weights


def pair(query, value, **arguments):
    """Keras' layer and ours, of the same weights."""
    layers = keras.layers.MultiHeadAttention(2, 3, **arguments), MultiHeadAttention(2, 3, **arguments)
    for layer in layers:
        layer.build(query, value)
    fill_weights(layers[0])
    layers[1].set_weights(layers[0].get_weights())
    return layers


def jitted(function):
    if BACKEND == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function, jit_compile=True)


@pytest.mark.parametrize(
    ("query", "value", "arguments", "mask"),
    [
        ((2, 4, 3, 8), (2, 4, 5, 8), {"attention_axes": 2}, (2, 4, 1, 3, 5)),
        ((2, 5, 3, 4, 8), (2, 5, 3, 2, 8), {"attention_axes": (2, 3)}, (2, 3, 4, 3, 2)),
        ((2, 5, 8), (2, 6, 8), {"output_shape": (3, 2), "sliding_window": 2}, (2, 5, 6)),
        *(
            pytest.param(*case, marks=pytest.mark.slow_compiled)
            for case in (
                ((2, 4, 3, 8), (2, 4, 5, 8), {"attention_axes": 2}, None),
                ((2, 4, 3, 8), (2, 4, 5, 8), {"attention_axes": -2}, (3, 5)),
                ((2, 4, 3, 8), (2, 4, 5, 8), {"attention_axes": (2,)}, (2, 3, 5)),
                ((2, 4, 3, 8), (2, 6, 3, 8), {"attention_axes": 1}, None),
                ((4, 3, 8), (5, 3, 8), {"attention_axes": 0}, (3, 4, 5)),
                ((4, 3, 8), (5, 2, 8), {"attention_axes": (0, -2)}, None),
                ((2, 4, 3, 8), (2, 7, 5, 6), {"output_shape": (3, 2)}, None),
                ((2, 5, 3, 4, 8), (2, 5, 3, 2, 8), {"attention_axes": (3, 2)}, None),
            )
        ),
    ],
)
def test_axes(query, value, arguments, mask):
    theirs, ours = pair(query, value, **arguments)
    given = {"query": numbers("query", *query), "value": numbers("value", *value)}
    if mask is not None:
        given["attention_mask"] = np.random.default_rng(0).random(mask) < 0.8
        given["attention_mask"][..., 0] = True
    call = compiled(lambda given: [layer(**given, return_attention_scores=True) for layer in (theirs, ours)])
    wanted, found = call(given)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, atol=2e-6)
    assert ours.compute_output_shape(query, value) == theirs.compute_output_shape(query, value)
    symbolic = ours(keras.Input(batch_shape=query), keras.Input(batch_shape=value), return_attention_scores=True)
    assert [x.shape for x in symbolic] == [x.shape for x in found]
    again = MultiHeadAttention.from_config(ours.get_config())
    assert again.get_config() == ours.get_config()


@pytest.mark.parametrize("window", [1, 3, 9])
def test_a_sliding_window_in_steps(window):
    """Causal calls of Keras' layer; steps see the same positions."""
    theirs, ours = pair((2, 6, 8), (2, 6, 8), sliding_window=window)
    x = numbers("x", 2, 6, 8)

    def run(x):
        memory = ours.prepare(max_length=6)
        state, contexts = ours.initial_state(memory, batch_size=2), []
        for i in range(6):
            context, _, state = ours.step(x[:, i], memory, state)
            contexts.append(context)
        found = ours(x, use_causal_mask=True, return_attention_scores=True)
        return theirs(x, x, use_causal_mask=True, return_attention_scores=True), found, ops.stack(contexts, axis=1)

    wanted, found, steps = compiled(run)(x)
    for one, two in zip((*found, steps), (*wanted, wanted[0]), strict=True):
        np.testing.assert_allclose(one, two, atol=2e-6)
    memory = ours.prepare(x)
    with pytest.raises(ValueError, match="a step of cross-attention has no position for `sliding_window`"):
        ours.step(x[:, 0], memory, ours.initial_state(memory))


def test_a_sliding_window_of_beams():
    """Steps with a shared state see what steps of a row each see."""
    _, layer = pair((2, 5, 8), (2, 5, 8), sliding_window=2)
    assert_beams_share(layer, numbers("beams", 2, 3, 5, 8))


def test_activity_regularizer():
    """Of all projections: the same sum of losses as Keras'."""
    theirs, ours = pair((2, 3, 8), (2, 5, 8), activity_regularizer="l2")
    for layer in (theirs, ours):
        layer(numbers("query", 2, 3, 8), numbers("value", 2, 5, 8))
    assert len(ours.losses) == len(theirs.losses) == 4
    np.testing.assert_allclose(float(sum(ours.losses)), float(sum(theirs.losses)), rtol=1e-6)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ["bahdanau", "multi_head", "previous_context"])
@pytest.mark.parametrize("mask", ["attention_mask", "query_mask", "value_mask", "key_mask"])
def test_additive_masks_are_refused(name, mask):
    layer = get_attention(name, 8, num_heads=2)
    query, value = numbers("query", 2, 5, 8), numbers("value", 2, 5, 8)
    real = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]], dtype="float32")
    if mask == "attention_mask":
        real = np.repeat(real[:, None], 5, axis=1)
    wanted = to_numpy(layer(query, value, **{mask: real > 0}))
    np.testing.assert_array_equal(to_numpy(layer(query, value, **{mask: real})), wanted)
    for additive in (np.where(real > 0, 0, -np.inf), np.where(real > 0, 0, -10000), (real - 1).tolist(), 0 * real):
        with pytest.raises(ValueError, match=f"`{mask}` must be true where .* give booleans"):
            layer(query, value, **{mask: additive})
    with pytest.raises(ValueError, match=f"`{mask}` must be true .* a symbolic tensor of float32"):
        layer(keras.Input((5, 8)), keras.Input((5, 8)), **{mask: keras.Input(real.shape[1:])})
    if mask == "value_mask":
        with pytest.raises(ValueError, match="`value_mask` must be true where"):
            layer.prepare(value, value_mask=real - 1)


@pytest.mark.skipif(BACKEND == "torch", reason="computes with the values at hand")
def test_masks_in_a_compiled_function():
    """Values are not known there: numbers of floating point are refused, integers are 0 and 1."""
    layer = MultiHeadAttention(2, 3)
    query, real = numbers("query", 2, 5, 8), np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]])
    wanted = layer(query, query, value_mask=real == 1)
    call = jitted(lambda mask: layer(query, query, value_mask=mask))
    np.testing.assert_allclose(to_numpy(call(ops.convert_to_tensor(real, "int32"))), to_numpy(wanted), atol=1e-6)
    for kind in ("float32", "bfloat16"):
        with pytest.raises(ValueError, match=f"`value_mask` must be true .* tensor of {kind}, whose values are not"):
            call(ops.convert_to_tensor(real, kind))


@pytest.mark.one_backend
def test_shapes_that_do_not_fit():
    layer = MultiHeadAttention(2, 3)
    for shapes in (((2, 4, 8), (2, 2, 8), (2, 1, 7)), ((2, 4, 2, 3, 8), (2, 1, 1, 5, 8), (2, 1, 15, 5, 2))):
        with pytest.raises(ValueError, match="must be equal"):
            layer.compute_output_shape(*shapes)
    with pytest.raises(ValueError, match="must be equal"):
        layer(np.ones((2, 4, 2, 8)), np.ones((2, 1, 5, 8)), np.ones((2, 5, 5, 8)))
    with pytest.raises(ValueError, match="not attended along must be equal"):
        MultiHeadAttention(2, 3, attention_axes=2)(np.ones((2, 4, 2, 8)), np.ones((2, 3, 2, 8)))
    # Beyond the last too: it is none of those that a remainder would make of it.
    for axes in (3, (1, 1), 5, -5):
        with pytest.raises(ValueError, match="`attention_axes` must be different axes of the query, but not the last"):
            MultiHeadAttention(2, 3, attention_axes=axes)(np.ones((2, 4, 2, 8)), np.ones((2, 4, 2, 8)))

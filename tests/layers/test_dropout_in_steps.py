"""Steps in a training loop: with the same dropout, drawn before the loop, they are the call for all positions."""

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import ATTENTIONS, get_attention
from keras_attn_zoo.layers.base.headed_attention import HeadedAttention
from keras_attn_zoo.layers.registry import argument_names
from tests.layers.calls import compiled
from tests.layers.cases import numbers
from tests.layers.references import REFERENCES
from tests.weights import fill_weights

BATCH, HEADS, TARGET, SOURCE, WIDTH = 3, 2, 5, 7, 8
CROSS = [name for name, entry in ATTENTIONS.items() if "cross" in entry.places]
WITH_DROPOUT = [(name, "softmax") for name in CROSS if issubclass(ATTENTIONS[name].layer, HeadedAttention)]
# Their loops under a sparse normaliser are their own.
WITH_DROPOUT += [("expanded_key_value_1", "sparsemax"), ("expanded_key_value_4", "entmax15")]
DROPPED = np.random.default_rng(1).choice([0.0, 2.0], (BATCH, HEADS, TARGET, SOURCE + 1)).astype("float32")


def known_dropout(inputs, training=None):
    """One mask of zeros and twos, whichever way the axes lie; its last column belongs to an additional pair."""
    if not training:
        return inputs
    mask = {1: DROPPED[..., -1:], SOURCE: DROPPED[..., :-1], SOURCE + 1: DROPPED}[inputs.shape[-1]]
    if tuple(inputs.shape[:3]) == (TARGET, BATCH, HEADS):
        mask = np.transpose(mask, (2, 0, 1, 3))
    return inputs * ops.cast(mask, inputs.dtype)


@pytest.mark.parametrize(("name", "normalizer"), WITH_DROPOUT)
def test_steps_under_noise_equal_the_call_under_the_same_dropout(name, normalizer):
    others = {} if normalizer == "softmax" else {"normalizer": normalizer}
    layer = get_attention(name, WIDTH, num_heads=HEADS // REFERENCES[name].maps, dropout=0.5, **others)
    query, value = numbers("query", BATCH, TARGET, WIDTH), numbers("value", BATCH, SOURCE, WIDTH)
    layer.build(query.shape, value.shape)
    fill_weights(layer)
    layer.drop = known_dropout

    def run(query, value):
        memory = layer.prepare(value)
        noise, state = layer.draw_noise(memory, TARGET), layer.initial_state(memory)
        contexts, scores = [], []
        for i in range(TARGET):
            at = {key: x[i] for key, x in noise.items()} if isinstance(noise, dict) else noise[i]
            context, weights, state = layer.step(query[:, i], memory, state, at, i)
            contexts.append(context)
            scores.append(weights)
        stepped = ops.stack(contexts, axis=1), ops.stack(scores, axis=2)
        called = [layer(query, value, return_attention_scores=True, training=training) for training in (True, False)]
        return stepped, *called

    stepped, dropped, plain = compiled(run)(query, value)
    for found, wanted in zip(stepped, dropped, strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-6)
    assert np.abs(dropped[0] - plain[0]).max() > 0.01


def test_without_dropout_there_is_no_noise():
    """But of what has another noise in training."""
    for name in [name for name in CROSS if "noise" not in argument_names(name)]:
        layer = get_attention(name, WIDTH, num_heads=HEADS)
        assert layer.draw_noise({"mask": np.ones((BATCH, SOURCE), bool)}, TARGET) is None

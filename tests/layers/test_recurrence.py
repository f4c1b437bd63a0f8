"""One recurrence, two ways: the form of `attend` that a mechanism gives itself, and the loop over `advance`."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import ATTENTIONS, AttentionLayer, get_attention
from tests.layers.calls import compiled
from tests.layers.cases import CASES


def has_own_form(case):
    """Whether a mechanism has a form of its own besides `advance`; where steps are its own too, it has no loop."""
    layer = ATTENTIONS[case.name].layer
    return layer.attend is not AttentionLayer.attend and layer.attend_once is AttentionLayer.attend_once


@pytest.mark.parametrize("case", [case for case in CASES if has_own_form(case)], ids=str)
@pytest.mark.parametrize("masked", [True, False])
def test_own_form_equals_the_loop(case, masked):
    """In float32, under a mask that differs from position to position, and under none but that of the padding."""
    layer, inputs, masks = case.layer(), case.inputs(), case.masks
    value_mask = masks["value_mask"]
    mask = value_mask[:, None, None]
    if masked:
        mask = mask & masks["attention_mask"][:, None]
    if not case.cross:
        mask = mask & np.tril(np.ones((case.target, case.source), dtype=bool))

    def run(query, value):
        memory = layer.prepare(value, value_mask=value_mask)
        at, allowed = layer.ahead(query, memory), ops.convert_to_tensor(mask)
        looped = layer.attend_in_turn(at, memory, allowed, layer.initial_state(memory))
        return layer.attend(query, memory, allowed), looped

    own, looped = compiled(run)(inputs["query"], inputs.get("value", inputs["query"]))
    weights = np.broadcast_to(looped[1], own[1].shape)
    assert np.any(weights) and not np.any(weights[~np.broadcast_to(mask, weights.shape)])
    np.testing.assert_allclose(own[0], np.broadcast_to(looped[0], own[0].shape), atol=3e-6)
    np.testing.assert_allclose(own[1], weights, atol=2e-6)


@pytest.mark.parametrize("name", ["bahdanau", "bahdanau_feedback", "coverage", "luong_concat"])
def test_steps_keep_the_types_of_context_and_state_whatever_that_of_the_query(name):
    layer = get_attention(name, 4, dtype="mixed_bfloat16")
    layer.build((None, None, 4), (None, None, 4))
    memory = layer.prepare(ops.ones((2, 3, 4)))
    first = layer.initial_state(memory)
    context, _, state = layer.step(ops.ones((2, 4), "float32"), memory, first)
    assert keras.backend.standardize_dtype(context.dtype) == "bfloat16"
    assert keras.tree.map_structure(lambda x: x.dtype, state) == keras.tree.map_structure(lambda x: x.dtype, first)

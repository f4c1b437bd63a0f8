import json

import keras
import pytest

from keras_attn_zoo import layers
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.layers import ATTENTIONS, BahdanauAttention, LuongAttention, get_attention


@pytest.mark.parametrize("name", ATTENTIONS)
def test_entries(name):
    entry = ATTENTIONS[name]
    assert entry.layer.__name__ in layers.__all__
    assert entry.source
    assert entry.places
    assert set(entry.places) <= {"cross", "encoder", "decoder"}
    layer = get_attention(name, width=8, name="attention", dtype="mixed_bfloat16")
    assert type(layer) is entry.layer
    assert layer.name == "attention"
    assert layer.compute_dtype == "bfloat16"
    config = json.loads(json.dumps(keras.layers.serialize(layer)))
    again = get_attention(config, width=3)
    assert type(again) is entry.layer
    assert again.get_config() == layer.get_config()


def test_width_sizes_layers_made_from_a_name():
    assert get_attention("bahdanau", width=5).units == 5
    assert get_attention("luong_concat", width=5).units == 5
    assert get_attention("bahdanau_feedback", width=5).attention_feedback
    assert [get_attention(f"luong_{score}", width=5).score for score in ("dot", "general")] == [
        "dot",
        "general",
    ]


def test_a_layer_is_returned_as_it_is():
    layer = LuongAttention()
    assert get_attention(layer, width=5) is layer


@pytest.mark.parametrize(
    ("identifier", "message"),
    [
        ("bahdanow", r"unknown attention 'bahdanow': choose one of bahdanau, .*uniform\.$"),
        (keras.layers.Dense(3), "an attention is a name or an AttentionLayer; received Dense"),
        (3, "received int"),
        (BahdanauAttention, "received type"),
    ],
)
def test_not_an_attention(identifier, message):
    with pytest.raises(UserError, match=message):
        get_attention(identifier, width=5)

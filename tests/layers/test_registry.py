import json

import keras
import numpy as np
import pytest

from keras_attn_zoo import layers
from keras_attn_zoo.layers import (
    ATTENTIONS,
    AttentionLayer,
    BahdanauAttention,
    LuongAttention,
    attention,
    get_attention,
)
from keras_attn_zoo.layers.registry import PLACES
from keras_attn_zoo.support.errors import UserError

pytestmark = pytest.mark.one_backend


@pytest.mark.parametrize("name", ATTENTIONS)
def test_entries(name):
    entry = ATTENTIONS[name]
    assert entry.layer.__name__ in layers.__all__
    assert entry.source
    assert entry.places
    assert set(entry.places) <= set(PLACES)
    for place in entry.places:
        layer = get_attention(name, 8, num_heads=2, place=place, name="attention", dtype="mixed_bfloat16")
        assert type(layer) is entry.layer
        assert layer.name == "attention"
        assert layer.compute_dtype == "bfloat16"
        config = json.loads(json.dumps(keras.layers.serialize(layer)))
        again = get_attention(config, width=3, place=place)
        assert type(again) is entry.layer
        assert again.get_config() == layer.get_config()


class Block(keras.layers.Layer):
    """A layer of one's own around an attention, whose output Keras infers by running it on sizes it does not know."""

    def __init__(self, attention, place):
        super().__init__()
        self.attention, self.place = attention, place

    def call(self, x):
        return self.attention(x, x, use_causal_mask=self.place == "decoder")


@pytest.mark.parametrize(("name", "place"), [(name, place) for name in ATTENTIONS for place in ATTENTIONS[name].places])
@pytest.mark.long
def test_a_layer_of_ones_own_around_an_attention_takes_unknown_lengths(name, place):
    # PyTorch infers with lengths of 83 and 89 in place of unknown ones.
    attention = get_attention(name, 8, num_heads=2, max_length=100, place=place)
    assert Block(attention, place)(keras.Input((None, 8))).shape == (None, None, 8)


def test_gates_begin_as_documented_inside_a_layer_of_ones_own():
    attention = get_attention("gated_delta", 8, num_heads=2, place="decoder")
    Block(attention, "decoder")(keras.Input((None, 8)))
    speed, bias = (keras.ops.convert_to_numpy(weight) for weight in (attention.log_speed, attention.step_bias))
    np.testing.assert_allclose(np.exp(speed), [1, 16], rtol=1e-5)
    np.testing.assert_allclose(np.log1p(np.exp(bias)), [0.001, 0.1], rtol=1e-3)


def test_sizes_of_layers_made_from_a_name():
    assert get_attention("bahdanau", width=5).units == 5
    assert get_attention("luong_concat", width=5).units == 5
    assert get_attention("bahdanau_feedback", width=5).attention_feedback
    assert [get_attention(f"luong_{score}", width=5).score for score in ("dot", "general")] == ["dot", "general"]
    layer = get_attention("previous_weight", width=24, num_heads=4)
    assert (layer.num_heads, layer.key_dim, layer.value_dim) == (4, 6, 6)
    assert [get_attention(f"expanded_key_value_{i}", width=8).variant for i in (1, 2, 3, 4)] == [1, 2, 3, 4]
    assert get_attention("recurrent", width=8, max_length=9, place="encoder").max_length == 9
    assert get_attention("random_synthesizer", width=8, max_length=9, place="encoder").max_length == 9


def test_a_place_decides_what_is_causal():
    assert get_attention("gaussian", width=8, place="encoder").offsets == (-1, 1)
    assert get_attention("gaussian", width=8, place="decoder").offsets == (-1, 0)
    assert not get_attention("recurrent", width=8, place="encoder").causal
    assert get_attention("recurrent", width=8, place="decoder").causal


def test_a_layer_is_returned_as_it_is():
    layer = LuongAttention()
    assert get_attention(layer, width=5) is layer


@pytest.mark.parametrize(
    ("identifier", "message"),
    [
        ("bahdanow", r"'bahdanow' is not a cross attention: did you mean bahdanau\?$"),
        ("average", r"'average' is not a cross attention but a decoder attention \(place='decoder'\): choose one of"),
        ("gaussian", r"not a cross attention but an encoder or decoder attention \(place='encoder'\): choose one of"),
        (keras.layers.Dense(3), "an attention must be a name or an AttentionLayer; received Dense"),
        (3, "received int"),
        (BahdanauAttention, "received type"),
    ],
)
def test_not_an_attention(identifier, message):
    with pytest.raises(UserError, match=message):
        get_attention(identifier, width=5)


def test_a_layer_of_another_class_is_refused_before_it_is_made(monkeypatch):
    """Whoever writes a configuration says how large it is."""
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3, kernel_initializer="identity")])
    made, dense = [], keras.layers.Dense.__init__
    monkeypatch.setattr(keras.layers.Dense, "__init__", lambda self, *args, **kw: made.append(dense(self, *args, **kw)))
    for config in (keras.layers.serialize(other), {"class_name": "Dense", "config": {"units": 3}}):
        with pytest.raises(UserError, match=r"must be a name or an AttentionLayer; received (Sequential|Dense)\."):
            get_attention(config, width=3)
    assert not made


def test_a_width_that_the_heads_do_not_divide():
    with pytest.raises(UserError, match="a width of 10 is not divisible by 4 heads: choose a multiple"):
        get_attention("multi_head", width=10, num_heads=4)


def test_an_unknown_place():
    with pytest.raises(UserError, match="'middle' is not a place for an attention: choose one of encoder, "):
        get_attention("multi_head", width=8, place="middle")


@pytest.fixture
def registry():
    """The registry, as it was before once the test is over."""
    before = dict(ATTENTIONS)
    yield ATTENTIONS
    ATTENTIONS.clear()
    ATTENTIONS.update(before)


def define(number):
    """The cell of a notebook, run for the numbered time: one class, two names."""

    @attention("mine_b", source="Someone 10", places=["cross"], year=2016, arguments=lambda sizes: {"name": "b"})
    @attention("mine_a", source="Someone 9", places=("cross",), year=2015)
    class Mine(AttentionLayer):
        serial = number

    return Mine


def test_a_decorator_registers_a_class_under_its_names(registry):
    first = define(1)
    assert first.__name__ == "Mine" and registry["mine_a"].layer is registry["mine_b"].layer is first
    assert get_attention("mine_b", width=3).name == "b"
    assert keras.saving.get_registered_name(first) == "tests>Mine"
    names = list(registry)
    at = names.index("mine_b")
    # Names of a class stand as they are written, where the first of them was published: 2015, and S after L.
    assert names[at + 1] == "mine_a"
    assert registry[names[at - 1]].year <= 2015 < registry[names[at + 2]].year
    again = define(2)
    assert registry["mine_a"].layer is again and registry["mine_b"].layer is again and again is not first
    assert list(registry) == names


def test_registry_is_in_order():
    """By the year of a class, then by the number of the equation: 10 after 9."""
    names = [name for name in ATTENTIONS if ATTENTIONS[name].source.startswith("Rosendahl")]
    assert [ATTENTIONS[name].source for name in names] == [f"Rosendahl {number}" for number in range(2, 11)]
    years = {}
    for entry in ATTENTIONS.values():
        years[entry.layer] = min(entry.year, years.get(entry.layer, entry.year))
    assert list(years.values()) == sorted(years.values())


@pytest.mark.parametrize(
    ("layer", "arguments", "message"),
    [
        (LuongAttention, {"name": "bahdanau"}, "'bahdanau' of LuongAttention is already that of BahdanauAttention"),
        (LuongAttention, {"places": ("middle",)}, "choose places from encoder, decoder, cross. Received: .'middle',."),
        (LuongAttention, {"places": ()}, "choose places from"),
        (LuongAttention, {"year": "2026"}, "its year as an integer. Received: source='Someone', year='2026'."),
        (LuongAttention, {"source": None}, "papers as a string .* Received: source=None, year=2026."),
        (LuongAttention, {"cost": ("1",)}, "cost has four strings: .*, state. Received: .'1',."),
        (LuongAttention, {"name": None}, "needs a name of letters, digits and underscores. Received: None"),
        (LuongAttention, {"name": "a b;"}, "needs a name of letters, digits and underscores. Received: 'a b;'"),
        (keras.layers.Dense, {}, "must be a subclass of AttentionLayer. Received: <class"),
        (LuongAttention(), {}, "must be a subclass of AttentionLayer. Received: <LuongAttention"),
    ],
)
def test_what_cannot_be_registered(registry, layer, arguments, message):
    before = dict(registry)
    with pytest.raises(ValueError, match=message):
        attention(**{"name": "mine", "source": "Someone", "places": ("cross",), "year": 2026, **arguments})(layer)
    assert registry == before


class Forgetful(AttentionLayer):
    """It keeps its argument under another name."""

    def __init__(self, reach=1, **kwargs):
        super().__init__(**kwargs)
        self.window = reach


def test_an_argument_that_is_not_kept_by_name():
    """Not left out, so that whoever loads the layer, or takes a copy, would get the default."""
    with pytest.raises(NotImplementedError, match="without its argument 'reach': keep it as"):
        Forgetful(reach=3).get_config()

"""What the layers of a side share is a hook of any mechanism: here one that the package does not know."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.bodies import RNNBackbone, TransformerBackbone
from keras_attn_zoo.bodies.attention_stack import AttentionStack
from keras_attn_zoo.layers import MultiHeadAttention
from keras_attn_zoo.layers.base.shared_by_layers import SharedByLayers
from keras_attn_zoo.support.errors import UserError
from tests import tiny
from tests.layers.calls import to_numpy
from tests.layers.cases import numbers

pytestmark = pytest.mark.one_backend

SIZES = {"width": 8, "num_heads": 2, "max_length": 9, "dropout": 0.0}


class Temperature(keras.layers.Layer):
    """One trained number."""

    def build(self, shape):
        self.value = self.add_weight(name="value", shape=(), initializer=keras.initializers.Constant(0.5))

    def call(self, x):
        return keras.ops.convert_to_tensor(self.value)


class SharedTemperature(SharedByLayers):
    """A temperature that doubles from layer to layer."""

    what = "temperatures"

    def __init__(self, place, max_length, **arguments):
        self.layer = Temperature(name=f"{place}_temperature")

    def first(self, x):
        return {"temperature": self.layer(x)}

    def next(self, given):
        return {"temperature": 2 * given["temperature"]}


class HeatedAttention(MultiHeadAttention):
    """Multi-head attention with energies that are divided by a temperature of the side."""

    shared_by_layers = SharedTemperature

    def call(self, query, value=None, key=None, temperature=None, training=None):
        return self.run(query, None, None, (None,) * 4, True, training, False, temperature=temperature)

    def prepare(self, value=None, key=None, value_mask=None, max_length=None, temperature=None):
        return {**super().prepare(value, key, value_mask, max_length), "temperature": temperature}

    def energies(self, query, memory):
        return super().energies(query, memory) / memory["temperature"]


def test_each_layer_is_given_what_comes_after_the_one_before():
    stack = AttentionStack(["multi_head", HeatedAttention(2, 4), HeatedAttention(2, 4)], 3, "encoder", None, **SIZES)
    x = numbers("x", 2, 5, 8)
    for layer in stack.layers:
        layer.build(x.shape)
    given, memories = stack.given(x), stack.memories(max_length=7)
    for found in (given, memories):
        assert [to_numpy(one["temperature"]) if "temperature" in one else None for one in found] == [None, 0.5, 1.0]
    [shared] = stack.shared.values()
    assert len(shared.layer.weights) == 1

    hot, plain = stack.layers[2], MultiHeadAttention(2, 4)
    plain.build(x.shape)
    plain.set_weights(hot.get_weights())
    wanted = plain(x, return_attention_scores=True)
    for found, one in zip(hot(x, **given[2]), wanted, strict=True):
        np.testing.assert_allclose(to_numpy(found), to_numpy(one), atol=1e-6)
    colder = to_numpy(hot(x, **given[1])[1])
    assert np.abs(colder - to_numpy(wanted[1])).max() > 1e-3


@pytest.mark.parametrize(("body", "sizes"), [(RNNBackbone, tiny.BACKBONE), (TransformerBackbone, tiny.TRANSFORMER)])
def test_only_self_attention_shares(body, sizes):
    with pytest.raises(UserError, match=r"HeatedAttention is not a cross attention: .* share their temperatures"):
        body(9, 9, cross_attention=HeatedAttention(2, 4), **sizes)


def test_a_layer_given_as_an_object_has_the_positions_of_its_side():
    layer = MultiHeadAttention(2, 4, positions="t5")
    described = {"attention": "multi_head", "positions": "alibi"}
    stack = AttentionStack([layer, "multi_head", described], 3, "encoder", "float32", "t5", **SIZES)
    assert [one.positions for one in stack.layers] == ["t5", "t5", "alibi"]
    with pytest.raises(UserError, match="encoder_positions='rotary' needs a self-attention that takes `positions`"):
        AttentionStack(layer, 1, "encoder", "float32", "rotary", **SIZES)

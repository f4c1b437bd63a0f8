"""The list of mechanisms: a flat table of names, each with its layer, paper and place."""

import dataclasses

import keras

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.layers.attention_layer import AttentionLayer
from keras_attn_zoo.layers.bahdanau_attention import BahdanauAttention
from keras_attn_zoo.layers.luong_attention import LuongAttention
from keras_attn_zoo.layers.uniform_attention import UniformAttention


@dataclasses.dataclass(frozen=True)
class AttentionEntry:
    """One mechanism by name.

    Attributes:
        layer: the class.
        arguments: function of a width to the constructor's arguments.
        source: paper and equation.
        places: where it stands: "cross", "encoder", "decoder".
    """

    layer: type[AttentionLayer]
    arguments: callable
    source: str
    places: tuple[str, ...]


ATTENTIONS = {
    "bahdanau": AttentionEntry(BahdanauAttention, lambda width: {"units": width}, "Hiemsch 1-3, Dang 2.3", ("cross",)),
    "bahdanau_feedback": AttentionEntry(
        BahdanauAttention, lambda width: {"units": width, "attention_feedback": True}, "Bahar 11", ("cross",)
    ),
    "luong_dot": AttentionEntry(LuongAttention, lambda width: {"score": "dot"}, "Dang 2.4", ("cross",)),
    "luong_general": AttentionEntry(LuongAttention, lambda width: {"score": "general"}, "Dang 2.4", ("cross",)),
    "luong_concat": AttentionEntry(
        LuongAttention, lambda width: {"score": "concat", "units": width}, "Dang 2.4", ("cross",)
    ),
    "uniform": AttentionEntry(UniformAttention, lambda width: {}, "Hiemsch 4", ("cross",)),
}


def get_attention(identifier, width, **kwargs):
    """Make an attention layer from a name, a configuration or a layer.

    Args:
        identifier: a name of `ATTENTIONS`, a serialised Keras layer, or an `AttentionLayer`, which is
            returned as it is.
        width: width of the query; sizes a layer that is made from a name.
        **kwargs: further arguments of a layer that is made from a name, such as `name` and `dtype`.

    Raises:
        UserError: an unknown name (the valid ones are listed), or something that is no attention layer.

    Example:
        >>> get_attention("luong_dot", width=512).score
        'dot'
    """
    if isinstance(identifier, str):
        if identifier not in ATTENTIONS:
            raise UserError(f"unknown attention {identifier!r}: choose one of {', '.join(sorted(ATTENTIONS))}.")
        entry = ATTENTIONS[identifier]
        return entry.layer(**entry.arguments(width), **kwargs)
    if isinstance(identifier, dict):
        identifier = keras.layers.deserialize(identifier)
    if not isinstance(identifier, AttentionLayer):
        raise UserError(f"an attention is a name or an AttentionLayer; received {type(identifier).__name__}.")
    return identifier

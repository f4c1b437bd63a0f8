"""The list of mechanisms: a flat table of names, each with its layer, paper and place."""

import dataclasses

import keras

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.layers.accumulated_weight_attention import AccumulatedWeightAttention
from keras_attn_zoo.layers.average_attention import AverageAttention
from keras_attn_zoo.layers.bahdanau_attention import BahdanauAttention
from keras_attn_zoo.layers.common.attention_layer import AttentionLayer
from keras_attn_zoo.layers.energy_accumulation_attention import EnergyAccumulationAttention
from keras_attn_zoo.layers.expanded_key_value_attention import ExpandedKeyValueAttention
from keras_attn_zoo.layers.gaussian_attention import GaussianAttention
from keras_attn_zoo.layers.luong_attention import LuongAttention
from keras_attn_zoo.layers.multi_head_attention import MultiHeadAttention
from keras_attn_zoo.layers.previous_context_attention import PreviousContextAttention
from keras_attn_zoo.layers.previous_weight_attention import PreviousWeightAttention
from keras_attn_zoo.layers.random_synthesizer_attention import RandomSynthesizerAttention
from keras_attn_zoo.layers.recurrent_attention import RecurrentAttention
from keras_attn_zoo.layers.uniform_attention import UniformAttention
from keras_attn_zoo.layers.weight_subtraction_attention import WeightSubtractionAttention

PLACES = ("encoder", "decoder", "cross")


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What a layer that is made from a name is sized with.

    Attributes:
        width: width of the query.
        num_heads: heads, where a mechanism has them.
        max_length: longest sentence, where a mechanism has to know it.
        place: "encoder", "decoder" or "cross".
        dropout: rate on the weights, where a mechanism has it.
    """

    width: int
    num_heads: int
    max_length: int
    place: str
    dropout: float = 0.0

    @property
    def heads(self):
        """Arguments of a layer with heads."""
        if self.width % self.num_heads:
            raise UserError(
                f"a width of {self.width} is not divisible by {self.num_heads} heads: "
                "take a multiple, or another number of heads."
            )
        return {"num_heads": self.num_heads, "key_dim": self.width // self.num_heads, "dropout": self.dropout}


@dataclasses.dataclass(frozen=True)
class AttentionEntry:
    """One mechanism by name.

    Attributes:
        layer: the class.
        arguments: function of `Sizes` to the constructor's arguments.
        source: papers, each with the numbers of its equations, or after § of its sections.
        places: where it stands: "encoder", "decoder" (self-attention), "cross".
    """

    layer: type[AttentionLayer]
    arguments: callable
    source: str
    places: tuple[str, ...]


def _heads(layer, source, *places, **arguments):
    """An entry of a mechanism with heads, and fixed arguments besides."""
    return AttentionEntry(layer, lambda sizes: {**sizes.heads, **arguments}, source, places)


ATTENTIONS = {
    "bahdanau": AttentionEntry(
        BahdanauAttention, lambda sizes: {"units": sizes.width}, "Hiemsch 1-3, Dang §2.3", ("cross",)
    ),
    "bahdanau_feedback": AttentionEntry(
        BahdanauAttention, lambda sizes: {"units": sizes.width, "attention_feedback": True}, "Bahar §6", ("cross",)
    ),
    "luong_dot": AttentionEntry(LuongAttention, lambda sizes: {"score": "dot"}, "Dang §2.4", ("cross",)),
    "luong_general": AttentionEntry(LuongAttention, lambda sizes: {"score": "general"}, "Dang §2.4", ("cross",)),
    "luong_concat": AttentionEntry(
        LuongAttention, lambda sizes: {"score": "concat", "units": sizes.width}, "Dang §2.4", ("cross",)
    ),
    "uniform": AttentionEntry(UniformAttention, lambda sizes: {}, "Hiemsch §4", ("cross",)),
    "multi_head": _heads(MultiHeadAttention, "Zeng 1-2, Dang §2.7", *PLACES),
    "average": AttentionEntry(AverageAttention, lambda sizes: {}, "Dang §2.8, after Zhang et al.", ("decoder",)),
    "average_without_ffn": AttentionEntry(
        AverageAttention, lambda sizes: {"use_ffn": False}, "Dang §2.9 (its toolkit's form)", ("decoder",)
    ),
    "average_without_gate": AttentionEntry(
        AverageAttention, lambda sizes: {"use_gate": False}, "Dang §2.8 (its formula)", ("decoder",)
    ),
    "random_synthesizer": AttentionEntry(
        RandomSynthesizerAttention,
        lambda sizes: {**sizes.heads, "max_length": sizes.max_length},
        "Zeng §3 (Syn-R)",
        ("encoder", "decoder"),
    ),
    "gaussian": AttentionEntry(
        GaussianAttention,
        lambda sizes: {**sizes.heads, "offsets": (-1, 0) if sizes.place == "decoder" else (-1, 1)},
        "Zeng §3.1 (HC-SA)",
        ("encoder", "decoder"),
    ),
    "recurrent": AttentionEntry(
        RecurrentAttention,
        lambda sizes: {**sizes.heads, "max_length": sizes.max_length, "causal": sizes.place == "decoder"},
        "Zeng 3-4 (RAN)",
        ("encoder", "decoder"),
    ),
    "previous_context": _heads(PreviousContextAttention, "Rosendahl 2", "cross"),
    "previous_weight": _heads(PreviousWeightAttention, "Rosendahl 3", "cross"),
    "accumulated_weight": _heads(AccumulatedWeightAttention, "Rosendahl 4", "cross"),
    "expanded_key_value_1": _heads(ExpandedKeyValueAttention, "Rosendahl 5", "cross", variant=1),
    "expanded_key_value_2": _heads(ExpandedKeyValueAttention, "Rosendahl 6", "cross", variant=2),
    "expanded_key_value_3": _heads(ExpandedKeyValueAttention, "Rosendahl 7", "cross", variant=3),
    "expanded_key_value_4": _heads(ExpandedKeyValueAttention, "Rosendahl 8", "cross", variant=4),
    "energy_accumulation": _heads(EnergyAccumulationAttention, "Rosendahl 9", "cross"),
    "weight_subtraction": _heads(WeightSubtractionAttention, "Rosendahl 10", "cross"),
}


def get_attention(identifier, width, num_heads=8, max_length=256, place="cross", dropout=0.0, **kwargs):
    """Make an attention layer from a name, a configuration or a layer.

    Args:
        identifier: a name of `ATTENTIONS`; a dict of a name as "attention" and further arguments of the
            layer; a serialised Keras layer; or an `AttentionLayer`, which is returned as it is.
        width, num_heads, max_length, place, dropout: size a layer that is made from a name, see `Sizes`.
        **kwargs: further arguments of a layer that is made from a name, such as `name` and `dtype`.

    Raises:
        UserError: an unknown place or name, or a name that does not stand in this place (the valid ones are
            listed); an argument that the mechanism has not; a width that the heads do not divide; something
            that is no attention layer; a layer that does not stand in this place.

    Example:
        >>> get_attention("luong_dot", width=512).score
        'dot'
        >>> get_attention({"attention": "weight_subtraction", "subtraction": 2.0}, width=512).subtraction
        2.0
    """
    if place not in PLACES:
        raise UserError(f"{place!r} is no place of an attention: choose one of {', '.join(PLACES)}.")
    if isinstance(identifier, dict) and "attention" in identifier:
        kwargs |= {key: value for key, value in identifier.items() if key != "attention"}
        identifier = identifier["attention"]
        if not isinstance(identifier, str):
            raise UserError(f"a dict names its attention: received {type(identifier).__name__}; give the layer itself.")
    if isinstance(identifier, str):
        valid = sorted(name for name, entry in ATTENTIONS.items() if place in entry.places)
        if identifier not in valid:
            raise UserError(f"{identifier!r} is no {place} attention: choose one of {', '.join(valid)}.")
        entry = ATTENTIONS[identifier]
        arguments = entry.arguments(Sizes(width, num_heads, max_length, place, dropout))
        try:
            layer = entry.layer(**{**arguments, **kwargs})
        except (TypeError, ValueError) as error:
            # Keras and Python name what they were not asked to receive, the layers what is out of bounds.
            raise UserError(f"the attention {identifier!r}: {error}") from error
        _check_place(layer, place)
        return layer
    if isinstance(identifier, dict):
        try:
            identifier = keras.layers.deserialize(identifier)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"a dict for the {place} attention is a name as 'attention' with arguments, or a serialised layer; "
                f"received {identifier}."
            ) from error
    if not isinstance(identifier, AttentionLayer):
        raise UserError(f"an attention is a name or an AttentionLayer; received {type(identifier).__name__}.")
    _check_place(identifier, place)
    return identifier


def _check_place(layer, place):
    """Raise where a layer does not stand in a place: by its entries, or without any by what it attends to."""
    of_entries = {p for entry in ATTENTIONS.values() if entry.layer is type(layer) for p in entry.places}
    fitting = of_entries or {"value": {"cross"}, "itself": {"encoder", "decoder"}}.get(layer.attends_to, set(PLACES))
    if place not in fitting:
        raise UserError(f"{type(layer).__name__} is no {place} attention: it stands in {', '.join(sorted(fitting))}.")
    if place == "decoder" and layer.looks_ahead:
        raise UserError(f"{type(layer).__name__} looks ahead, which a decoder cannot: take offsets of at most 0.")

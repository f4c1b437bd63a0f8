"""The registry of mechanisms: a decorator that adds one, and a function that creates a layer from a name."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import keras

from keras_attn_zoo.layers.base.attention_layer import AttentionLayer
from keras_attn_zoo.support.errors import UserError, choice

PLACES = ("encoder", "decoder", "cross")
# Arguments of every Keras layer, which no message proposes.
_OF_ANY_LAYER = {"activity_regularizer", "autocast", "dtype", "name", "trainable"}
AnyAttention = TypeVar("AnyAttention", bound=type[AttentionLayer])


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes for a layer created from a name.

    Attributes:
        width: width of the query.
        num_heads: number of heads, if the mechanism has heads.
        max_length: longest sentence, if the mechanism needs it.
        place: "encoder", "decoder" or "cross".
        dropout: dropout rate on the weights, if the mechanism has it.
    """

    width: int
    num_heads: int
    max_length: int
    place: str
    dropout: float = 0.0

    @property
    def heads(self) -> dict[str, Any]:
        """The arguments of a layer with heads."""
        if self.width % self.num_heads:
            raise UserError(
                f"a width of {self.width} is not divisible by {self.num_heads} heads: "
                "choose a multiple, or another number of heads."
            )
        return {"num_heads": self.num_heads, "key_dim": self.width // self.num_heads, "dropout": self.dropout}


class Cost(NamedTuple):
    """What a mechanism costs beyond its projections, in the symbols of `docs/reference/layers.md`.

    Attributes:
        sequential: operations over the target positions that must wait for one another.
        training: operations of a call.
        step: operations of a search per position.
        state: what a search carries from position to position.
    """

    sequential: str
    training: str
    step: str
    state: str


@dataclasses.dataclass(frozen=True)
class AttentionEntry:
    """One mechanism by name; see `attention`.

    Attributes:
        layer: the class.
        arguments: function that takes `Sizes` and returns the constructor's arguments.
        source: papers, each with the numbers of its equations, or of its sections after §.
        places: where it can be used: "encoder", "decoder" (self-attention), "cross".
        year: when it was first published, by anyone.
        cost: a `Cost`, or None if unknown.
    """

    layer: type[AttentionLayer]
    arguments: Callable[[Sizes], dict[str, Any]]
    source: str
    places: tuple[str, ...]
    year: int
    cost: Cost | None = None


# By year, then by source; the names of a class stay together, in the order of its decorators.
ATTENTIONS: dict[str, AttentionEntry] = {}


def attention(
    name: str,
    *,
    source: str,
    places: Iterable[str],
    year: int,
    arguments: Callable[[Sizes], dict[str, Any]] | None = None,
    cost: tuple[str, str, str, str] | None = None,
) -> Callable[[AnyAttention], AnyAttention]:
    """Register the attention layer below under a name, and its class with Keras.

    Everything that lists mechanisms reads the registry: `get_attention`, the public names of `keras_attn_zoo.layers`,
    the tests, the tables and pictures of the documentation. A class with several names has one decorator for each.

    Args:
        name: the name for `get_attention` and `--set cross_attention=NAME`.
        source: papers, each with the numbers of its equations, or of its sections after §.
        places: where it can be used, from `PLACES`: "encoder", "decoder" (self-attention), "cross".
        year: when it was first published, by anyone.
        arguments: function that takes `Sizes` and returns the constructor's arguments; by default, no arguments.
        cost: the four strings of a `Cost`.

    Raises:
        ValueError: something that is not an `AttentionLayer`, an unknown place, a source or a year of another type, a
            cost of other than four strings, a name that is no identifier or that another class already has.

    Example:
        >>> @attention("mine", source="Nobody 2026", places=("cross",), year=2026)
        ... class MyAttention(AttentionLayer):
        ...     '''Attention of my own.'''
        >>> ATTENTIONS.pop("mine").layer is MyAttention
        True
    """
    places = tuple(places)

    def register(layer: AnyAttention) -> AnyAttention:
        if not (isinstance(layer, type) and issubclass(layer, AttentionLayer)):
            raise ValueError(f"The attention {name!r} must be a subclass of AttentionLayer. Received: {layer!r}.")
        if not (isinstance(name, str) and name.isidentifier()):
            raise ValueError(f"An attention needs a name of letters, digits and underscores. Received: {name!r}.")
        if not places or not set(places) <= set(PLACES):
            raise ValueError(f"The attention {name!r}: choose places from {', '.join(PLACES)}. Received: {places!r}.")
        # The registry is sorted by both.
        if not (isinstance(source, str) and isinstance(year, int)):
            raise ValueError(
                f"The attention {name!r} needs papers as a string and its year as an integer. "
                f"Received: source={source!r}, year={year!r}."
            )
        if not (cost is None or (isinstance(cost, tuple) and len(cost) == len(Cost._fields))):
            raise ValueError(
                f"The attention {name!r}: its cost has four strings: {', '.join(Cost._fields)}. Received: {cost!r}."
            )
        taken = ATTENTIONS.get(name)
        # Running a notebook cell again defines the same class again.
        if taken is not None and _identity(taken.layer) != _identity(layer):
            raise ValueError(
                f"The name {name!r} of {layer.__name__} is already that of {taken.layer.__name__}: choose another name."
            )
        keras.saving.register_keras_serializable(package=layer.__module__.partition(".")[0])(layer)
        entry = AttentionEntry(layer, arguments or _no_arguments, source, places, year, Cost(*cost) if cost else None)
        # The decorators of a class run from the last to the first.
        _order({name: entry, **{key: one for key, one in ATTENTIONS.items() if key != name}})
        return layer

    return register


def _identity(layer):
    return layer.__module__, layer.__qualname__


def _no_arguments(sizes):
    return {}


def _order(entries):
    """Put entries into `ATTENTIONS` in order; the first entry of a class determines its place."""

    def published(entry):
        numbers = [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", entry.source)]
        return entry.year, numbers

    first = {}
    for entry in entries.values():
        key = published(entry), entry.layer.__name__
        first[entry.layer] = min(first.get(entry.layer, key), key)
    ATTENTIONS.clear()
    ATTENTIONS.update(sorted(entries.items(), key=lambda item: first[item[1].layer]))


def get_attention(
    identifier: str | dict[str, Any] | AttentionLayer,
    width: int,
    num_heads: int = 8,
    max_length: int = 256,
    place: str = "cross",
    dropout: float = 0.0,
    **kwargs: Any,
) -> AttentionLayer:
    """Create an attention layer from a name, a configuration or a layer.

    Args:
        identifier: a name in `ATTENTIONS`; a dict with the name as "attention" and further arguments of the
            layer; a serialised Keras layer; or an `AttentionLayer`, which is returned unchanged.
        width, num_heads, max_length, place, dropout: sizes for a layer created from a name, see `Sizes`.
        **kwargs: further arguments of a layer created from a name, such as `name` and `dtype`.

    Raises:
        UserError: an unknown place or name, or a mechanism that cannot be used in this place (the valid ones are
            listed); an argument that the mechanism does not have; a width that is not divisible by the heads;
            something that is not an attention layer.

    Example:
        >>> get_attention("luong_dot", width=512).score
        'dot'
        >>> get_attention({"attention": "weight_subtraction", "subtraction": 2.0}, width=512).subtraction
        2.0
    """
    if place not in PLACES:
        raise UserError(f"{place!r} is not a place for an attention: choose one of {', '.join(PLACES)}.")
    identifier = _named_initializers(identifier)
    if isinstance(identifier, dict) and "attention" in identifier:
        kwargs |= {key: value for key, value in identifier.items() if key != "attention"}
        identifier = identifier["attention"]
        if not isinstance(identifier, str):
            raise UserError(
                f"'attention' in a dict must be a name; received {type(identifier).__name__}: give the layer itself."
            )
    if isinstance(identifier, str):
        valid = sorted(name for name, entry in ATTENTIONS.items() if place in entry.places)
        if identifier not in valid:
            others = ATTENTIONS[identifier].places if identifier in ATTENTIONS else ()
            where = f" but {_article(' or '.join(others))} attention (place={others[0]!r})" if others else ""
            # A name that is right elsewhere is no slip.
            advice = f"choose one of {', '.join(valid)}." if others else choice(identifier, valid)
            raise UserError(f"{identifier!r} is not {_article(place)} attention{where}: {advice}")
        entry = ATTENTIONS[identifier]
        arguments = entry.arguments(Sizes(width, num_heads, max_length, place, dropout))
        try:
            layer = entry.layer(**{**arguments, **kwargs})
        except (TypeError, ValueError) as error:
            known = argument_names(identifier)
            if (unknown := next((name for name in kwargs if name not in known), None)) is not None:
                advice = choice(unknown, sorted(known - _OF_ANY_LAYER))
                raise UserError(f"the attention {identifier!r} has no argument {unknown!r}: {advice}") from error
            # The layers name arguments that are out of bounds.
            raise UserError(f"the attention {identifier!r}: {error}") from error
        _check_place(layer, place)
        return layer
    if isinstance(identifier, dict):
        _check_class(identifier)
        try:
            identifier = keras.layers.deserialize(identifier)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"a dict for the {place} attention must have a name as 'attention', or be a serialised layer; "
                f"received {identifier}."
            ) from error
    if not isinstance(identifier, AttentionLayer):
        raise _no_attention(type(identifier).__name__)
    _check_place(identifier, place)
    return identifier


def _named_initializers(config):
    """A configuration whose initialisers of Keras have names alone: a scope of custom objects overrides no others."""
    if isinstance(config, dict):
        of_keras = ("module", "registered_name") if config.get("module") == "keras.initializers" else ()
        return {key: _named_initializers(value) for key, value in config.items() if key not in of_keras}
    return [_named_initializers(one) for one in config] if isinstance(config, list) else config


def argument_names(name: str) -> set[str]:
    """Return the names of the arguments that the layer of a mechanism takes, those of every Keras layer included.

    Args:
        name: the mechanism, a key of `ATTENTIONS`.

    Example:
        >>> "subtraction" in argument_names("weight_subtraction")
        True
    """
    constructors = [vars(base).get("__init__") for base in ATTENTIONS[name].layer.__mro__ if base is not object]
    signatures = [inspect.signature(one).parameters for one in constructors if one is not None]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {key for own in signatures for key, one in own.items() if one.kind in named} - {"self"}


def _check_class(config):
    """Raise if a configuration is of another class: Keras would build it, however large it is."""
    name, registered = config.get("class_name"), config.get("registered_name")
    if not isinstance(name, str) or not isinstance(registered, str | None):
        # Keras says what is wrong with it.
        return
    cls = keras.saving.get_registered_object(registered or name)
    if not (isinstance(cls, type) and issubclass(cls, AttentionLayer)):
        raise _no_attention(name)


def _no_attention(name):
    return UserError(f"an attention must be a name or an AttentionLayer; received {name}.")


def _check_place(layer, place):
    """Raise if a layer cannot be used in a place: by its entries or else `attends_to`, and by what it shares."""
    of_entries = {p for entry in ATTENTIONS.values() if entry.layer is type(layer) for p in entry.places}
    fitting = of_entries or {"value": {"cross"}, "itself": {"encoder", "decoder"}}.get(layer.attends_to, set(PLACES))
    if place not in fitting:
        raise UserError(
            f"{type(layer).__name__} is not {_article(place)} attention: "
            f"use it as {' or '.join(sorted(fitting))} attention."
        )
    shared = layer.shared_by_layers
    if place == "cross" and shared is not None and shared.asked_by(layer) is not None:
        raise UserError(
            f"{type(layer).__name__} is not a cross attention: only self-attention layers share their {shared.what}; "
            "use it as encoder or decoder attention."
        )
    if place == "decoder" and layer.looks_ahead:
        raise UserError(f"{type(layer).__name__} looks ahead, which a decoder cannot: {layer.without_looking_ahead}.")


def _article(place):
    return f"an {place}" if place.startswith("encoder") else f"a {place}"

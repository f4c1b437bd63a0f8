"""Whether the files of a preset agree: KerasHub writes each part into a file of its own and into those of the whole."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import keras

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import shown

# What a part may say of itself that decides nothing: its name, and its precision. That of a body is up to whoever loads
# it, with int8 where config.json alone says so, see `PresetLoading`; what handles text makes ids, whatever it says.
_NEUTRAL = {"name", "dtype"}
# Parts: of which file, where in it, and the file of their own. Both sides may share one tokenizer.
_SOURCE, _SHARED = "source_tokenizer.json", "tokenizer.json"
_PARTS = (
    ("task.json", "backbone", "config.json"),
    ("task.json", "preprocessor", "preprocessor.json"),
    ("task.json", "preprocessor.tokenizer", _SHARED),
    ("task.json", "preprocessor.source_tokenizer", _SOURCE),
    ("preprocessor.json", "tokenizer", _SHARED),
    ("preprocessor.json", "source_tokenizer", _SOURCE),
)


def check_agreement(read: Callable[[str], Any], preset: object) -> None:
    """Raise if a part of a preset is one thing in its own file and another in that of the whole.

    A class reads some of the files and ignores the others, so that two classes would load different things.

    Args:
        read: a function of a file's name that returns its JSON; None if there is none.
        preset: its name in the message.

    Raises:
        UserError: names both files, the setting and its two values.
    """
    trees = {name: read(name) for name in dict.fromkeys(name for whole, _, own in _PARTS for name in (whole, own))}
    for whole, place, own in _PARTS:
        inside = _part(trees[whole], place)
        if own == _SOURCE and _setting(inside, "config_file") == _SHARED:
            own = _SHARED
        if trees[whole] is None or trees[own] is None:
            continue
        if not isinstance(inside, dict):
            raise UserError(
                f"the preset {shown(preset)} has a {own}, but {whole} says {place}={_value(inside)}: restore {whole}, "
                f"remove {own}, or save the whole model again."
            )
        for setting, there, here in _differences(inside, trees[own]):
            raise UserError(
                f"{own} of the preset {shown(preset)} says {shown(setting)}={_value(here)}, but {whole} says "
                f"{_value(there)}: restore both files, or save the whole model again."
            )


def _part(tree, place):
    """Return what a file says of a part of it; None if it says nothing."""
    for name in place.split("."):
        tree = _setting(tree, name)
    return tree


def _setting(tree, name):
    config = tree.get("config") if isinstance(tree, dict) else None
    return config.get(name) if isinstance(config, dict) else None


def _value(value):
    return "nothing" if value is inspect.Parameter.empty else shown(repr(value))


def _differences(one: Any, other: Any, place: str = "", cls: Any = None) -> Iterator[tuple[str, Any, Any]]:
    """Yield the places at which two configurations differ, and both values there."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from _differences(*pair, f"{place}.{number}")
        return
    if not isinstance(one, dict) or not isinstance(other, dict):
        if one != other or isinstance(one, bool) != isinstance(other, bool):
            yield place, one, other
        return
    kind = keras.saving.get_registered_object(str(one.get("registered_name")))
    # A class that is registered is found by its name; versions may have it in different modules.
    ignored = {"module"} if kind is not None else set()
    for key in sorted({*one, *other} - (ignored if place else ignored | _NEUTRAL), key=str):
        # A version that adds an argument gives it a default with which all is as before.
        default = _default(cls, key)
        # The names of classes and arguments are shown without the dicts that hold them.
        where = place if key == "config" else f"{place}.{key}".lstrip(".")
        inner = kind if key == "config" else None
        yield from _differences(one.get(key, default), other.get(key, default), where, inner)


def _default(cls, name):
    for base in cls.__mro__ if inspect.isclass(cls) else ():
        parameters = inspect.signature(base.__init__).parameters if "__init__" in vars(base) else {}
        if name in parameters:
            return parameters[name].default
    return inspect.Parameter.empty

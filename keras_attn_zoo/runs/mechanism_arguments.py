"""Arguments of a mechanism as settings of their own, such as `cross_attention.window`."""

import math
from typing import Any

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.setting_types import literal, shown_value


def split_name(name: str) -> tuple[str, str] | None:
    """Return the setting and the argument that a name with a dot stands for; None for any other name.

    Example:
        >>> split_name("cross_attention.window"), split_name("epochs")
        (('cross_attention', 'window'), None)
    """
    setting, dot, argument = name.partition(".")
    return (setting, argument) if dot else None


def parse_argument(text: str, name: str) -> Any:
    """Parse the value of an argument, None in any case; raise as `check_argument` does."""
    text = text.strip()
    return check_argument(None if text.lower() == "none" else literal(text), name)


def check_argument(value: Any, name: str) -> Any:
    """Return the value of an argument; raise unless it is a number, True, False, None or a word."""
    fits = value.isidentifier() if isinstance(value, str) else value is None or isinstance(value, (bool, int, float))
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        received = shown_value(value)
        raise UserError(f"the setting {name} must be a number, True, False, None or a word; received {received}.")
    return value


def with_argument(mechanism: Any, argument: str, value: Any) -> Any:
    """Return a value of a `Mechanism` setting, one mechanism or one per layer, with an argument set.

    Example:
        >>> with_argument("weight_subtraction", "subtraction", 2.0)
        {'attention': 'weight_subtraction', 'subtraction': 2.0}
    """
    if isinstance(mechanism, list):
        return [with_argument(one, argument, value) for one in mechanism]
    own = {"attention": mechanism} if isinstance(mechanism, str) else mechanism
    return {**own, argument: value}


def arguments_of(mechanism: Any) -> set[str]:
    """Return the arguments that a mechanism, or each of several, takes. This imports Keras.

    Example:
        >>> sorted(arguments_of("weight_subtraction") - arguments_of("multi_head"))
        ['subtraction']
    """
    from keras_attn_zoo.layers import ATTENTIONS
    from keras_attn_zoo.layers.registry import argument_names

    if isinstance(mechanism, list):
        return set.intersection(*map(arguments_of, mechanism)) if mechanism else set()
    name = mechanism if isinstance(mechanism, str) else mechanism.get("attention")
    return argument_names(name) if name in ATTENTIONS else set()

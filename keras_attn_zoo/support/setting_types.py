"""The types of settings: bounds, defaults and help; how a value is parsed and checked."""

import ast
import dataclasses
import json
import math
import numbers
import re
from typing import Any

from keras_attn_zoo.support.choices import MOST_TOKENS
from keras_attn_zoo.support.errors import UserError

_SWITCHES = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_NOTHING = ("none", "null")
# Characters of a bad value that are shown.
_SHOWN = 60
# What a field of a dataclass has its setting under.
_SETTING = "setting"


def shown_value(value: Any) -> str:
    """Return a bad value as error messages show it: on one line, shortened.

    Example:
        >>> shown_value("a\\nb")
        "'a\\\\nb'"
    """
    try:
        text = value if isinstance(value, Typed) else repr(value)
    except (RecursionError, ValueError):
        text = type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class Typed(str):
    """Text from the command line: shown without quotation marks, unless it would be invisible without them."""

    def __new__(cls, text: str) -> "Typed":
        """Quote what is empty or not printable."""
        return super().__new__(cls, text if text.strip() and text.isprintable() else repr(text))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting of a system, or one numeric option of the command line.

    The subclasses are the types: `Whole`, with `Width`, `Layers`, `Length` and `LayerOrHead`; `Number`, with `Rate`;
    `Switch`, `Choice`, `Words`, `Text` and `Mechanism`.

    Attributes:
        default: its default value.
        help: its description, in one line.
        optional: whether None is a value.
    """

    default: Any = dataclasses.field(default=None, kw_only=False)
    help: str = dataclasses.field(default="", kw_only=False)
    optional: bool = False

    @property
    def values(self) -> str:
        """The valid values, in words."""
        return self._values_or("None")

    def _values_or(self, nothing):
        return f"{self._values()} or {nothing}" if self.optional else self._values()

    def _values(self) -> str:
        raise NotImplementedError

    def check(self, value: Any, what: str = "the value") -> Any:
        """Return a Python value, which error messages call `what`, converted to the setting's type.

        Raises:
            UserError: wrong type, out of bounds, or not finite.

        Example:
            >>> Number(least=0, most=1).check(1)
            1.0
        """
        if self.optional and value is None:
            return None
        try:
            fitting = self._fit(value)
        except (TypeError, ValueError, OverflowError, RecursionError):
            fitting = None
        if fitting is None:
            raise UserError(f"{what} must be {self.values}; received {shown_value(value)}.")
        return fitting

    def parse(self, text: str, what: str = "the value") -> Any:
        """Parse and check a value from the command line; see `check`.

        Example:
            >>> Switch().parse("no"), Whole(least=1, most=9, optional=True).parse("none")
            (False, None)
        """
        if self.optional and text.strip().lower() in _NOTHING:
            return None
        try:
            return self.check(self._read(text.strip()), what)
        except UserError:
            # As it was typed.
            values, received = self._values_or("none"), shown_value(Typed(text))
            raise UserError(f"{what} must be {values}; received {received}.") from None

    def _read(self, text):
        """Return the Python value of a text, or the text itself if it cannot be parsed."""
        return text

    def _fit(self, value):
        """Return the value in this type; None if it does not fit."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Whole(Setting):
    """An integer from `least` to `most`, or one of a few `words`."""

    least: int
    most: int
    words: tuple = ()

    def _values(self):
        words = "".join(f" or {word}" for word in self.words)
        return f"an integer from {self.least:,} to {self.most:,}{words}"

    def _read(self, text):
        try:
            return int(text)
        except ValueError:
            return text.lower()

    def _fit(self, value):
        if isinstance(value, str):
            return value if value in self.words else None
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            return None
        return int(value) if self.least <= value <= self.most else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Width(Whole):
    """A size of weights."""

    least: int = 1
    most: int = 65_536


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layers(Whole):
    """A number of layers."""

    least: int = 1
    most: int = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class Length(Whole):
    """A number of tokens that there is room for."""

    least: int = 1
    most: int = 2 * MOST_TOKENS


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerOrHead(Whole):
    """A layer, "all" of them, or LAYER:HEAD, which `layer_and_head` reads."""

    words: tuple = ("all",)

    def _values(self):
        return f"{super()._values()}, or one head of a layer such as -1:0"

    def _fit(self, value):
        found = isinstance(value, str) and re.fullmatch("(-?[0-9]{1,4}):([0-9]{1,4})", value)
        if not found:
            return super()._fit(value)
        layer = super()._fit(int(found[1]))
        return None if layer is None else f"{layer}:{int(found[2])}"


def layer_and_head(value: int | str) -> tuple[int | None, int | None]:
    """Return layer and head of a value that `LayerOrHead` has checked; None is all of them.

    Example:
        >>> layer_and_head("-1:0"), layer_and_head(5), layer_and_head("all")
        ((-1, 0), (5, None), (None, None))
    """
    if value == "all":
        return None, None
    layer, _, head = str(value).partition(":")
    return int(layer), int(head) if head else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Number(Setting):
    """A number from `least` to `most`; `above` and `below` exclude the bounds themselves."""

    least: float
    most: float
    above: bool = False
    below: bool = False

    def _values(self):
        if not self.above and not self.below:
            return f"a number from {self.least:,} to {self.most:,}"
        return (
            f"a number {'above' if self.above else 'of at least'} {self.least:,} "
            f"and {'below' if self.below else 'at most'} {self.most:,}"
        )

    def _read(self, text):
        try:
            return float(text)
        except ValueError:
            return text

    def _fit(self, value):
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return None
        value = float(value)
        if not math.isfinite(value) or not self.least <= value <= self.most:
            return None
        if (self.above and value == self.least) or (self.below and value == self.most):
            return None
        return value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rate(Number):
    """A number of at least 0 and below 1."""

    default: float = dataclasses.field(default=0.0, kw_only=False)
    least: float = 0
    most: float = 1
    below: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Switch(Setting):
    """True or False; typed as true, false, yes, no, on, off, 1 or 0."""

    def _values(self):
        return "True or False"

    def _read(self, text):
        return _SWITCHES.get(text.lower(), text)

    def _fit(self, value):
        return value if isinstance(value, bool) else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice(Setting):
    """One of a few words."""

    choices: tuple

    def _values(self):
        return f"one of {', '.join(self.choices)}"

    def _read(self, text):
        return _unquoted(text).lower()

    def _fit(self, value):
        return value if isinstance(value, str) and value in self.choices else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Words(Choice):
    """Some of a few words, separated by commas; the value has each once, in the order of the choices.

    Example:
        >>> Words(choices=("a", "b")).parse("b,a")
        'a,b'
    """

    def _values(self):
        return f"some of {', '.join(self.choices)}, separated by commas"

    def _fit(self, value):
        words = {word.strip() for word in value.split(",")} if isinstance(value, str) else {None}
        return ",".join(one for one in self.choices if one in words) if words <= {*self.choices} else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text(Setting):
    """A name or a path: printable, on one line, at most `longest` characters."""

    longest: int

    def _values(self):
        return f"1 to {self.longest:,} printable characters"

    def _read(self, text):
        return _unquoted(text)

    def _fit(self, value):
        if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > self.longest:
            return None
        return value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mechanism(Setting):
    """A mechanism: a name, a name with arguments, or, with `layers`, a list with one of these per layer.

    Names and arguments are checked by the layers themselves, when a system is checked.
    """

    layers: int = 0

    def _values(self):
        several = f", or a list of at most {self.layers} of these, one per layer" if self.layers else ""
        return "the name of a mechanism, or {'attention': NAME, 'ARGUMENT': VALUE}" + several

    def _read(self, text):
        return literal(text)

    def _fit(self, value):
        # As JSON keeps them.
        value = _lists(value)
        several = isinstance(value, list)
        if several and not (self.layers and 1 <= len(value) <= self.layers):
            return None
        every = value if several else [value]
        return value if all(_is_mechanism(one) for one in every) else None


def field(kind: type[Setting], *given: Any, **options: Any) -> Any:
    """Return a field of a dataclass that is a setting of a kind, with its default; if that is None, None is a value.

    Example:
        >>> Search = dataclasses.make_dataclass("Search", [("beams", int, field(Whole, 5, least=1, most=9))])
        >>> Search(), settings_of(Search)["beams"].values
        (Search(beams=5), 'an integer from 1 to 9')
    """
    setting = kind(*given, **options)
    setting = dataclasses.replace(setting, optional=setting.optional or setting.default is None)
    return dataclasses.field(default=setting.default, metadata={_SETTING: setting})


def settings_of(part: type) -> dict[str, Setting]:
    """Return the fields of a dataclass that are settings, by name; see `field`."""
    return {one.name: one.metadata[_SETTING] for one in dataclasses.fields(part) if _SETTING in one.metadata}


def literal(text: str) -> Any:
    """Return the value that a text stands for, in JSON or Python, or the text itself.

    Example:
        >>> literal("[1, 2]"), literal("None"), literal("bahdanau")
        ([1, 2], None, 'bahdanau')
    """
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return text


def _is_mechanism(value):
    if isinstance(value, str):
        return value.isidentifier()
    # Raises unless it is plain data with finite numbers, which is all that a run folder can hold.
    return isinstance(value, dict) and bool(value) and json.loads(json.dumps(value, allow_nan=False)) == _lists(value)


def _lists(value):
    """Return plain data with lists in place of tuples, as in JSON."""
    if isinstance(value, dict):
        return {key: _lists(one) for key, one in value.items()}
    return [_lists(one) for one in value] if isinstance(value, (list, tuple)) else value


def _unquoted(text):
    """Return a text without the quotation marks around it."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text

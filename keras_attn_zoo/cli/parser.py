"""Parsing of command lines: parsers with one-line errors, the types of options, and the description of a command."""

import argparse
import collections
import dataclasses
import difflib
import itertools
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from keras_attn_zoo.cli.process import one_line
from keras_attn_zoo.runs.system import SETTINGS
from keras_attn_zoo.support.errors import UserError, choice
from keras_attn_zoo.support.setting_types import Setting

# How alike two options have to be to take one for the other: more than most words of a few letters are.
_NEAR = 0.8


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of `attn-zoo`.

    Attributes:
        name: its name on the command line.
        summary: what it does, in one line.
        examples: command lines.
        add_arguments: function that adds its options to a `Parser`.
        run: function that takes the parsed options.
        list_argument: name of the positional argument that collects the rest of the line, even after options.
        interrupt_hint: added to the message when the command is interrupted.
        job: what takes most of its time, see `choose_backend`; a function of the parsed options if they decide.
        own_backend: function of the parsed options; the backend of the run that the command resumes, or that it needs;
            or None.
        resumes: whether there may be a run to resume, as the help then says.
        subcommands: what it can be told to do instead.
        needs_keras: function of the parsed options; whether the command runs Keras, if not always.
    """

    name: str
    summary: str
    examples: Sequence[str]
    add_arguments: Callable[["Parser"], None]
    run: Callable[[argparse.Namespace], None]
    list_argument: str | None = None
    interrupt_hint: str = ""
    job: str | Callable[[argparse.Namespace], str] = "search"
    own_backend: Callable[[argparse.Namespace], str | None] | None = None
    resumes: bool = False
    subcommands: Sequence["Command"] = ()
    needs_keras: Callable[[argparse.Namespace], bool] | None = None


class _Help(argparse.HelpFormatter):
    """Help that fits the terminal: text is wrapped, but commands stay on one line for copying."""

    def _fill_text(self, text, width, indent):
        blocks = [""]
        for line in text.strip("\n").splitlines():
            goes_on = blocks[-1].startswith("- ") if line.startswith(" ") else blocks[-1][:1].strip() != ""
            if goes_on and line and not line.startswith("- "):
                blocks[-1] += f" {line.strip()}"
            else:
                blocks.append(line)
        filled = (self._filled(block, width - len(indent)) for block in blocks[1:])
        return "".join(f"{textwrap.indent(block, indent)}\n" for block in filled)

    def _filled(self, block, width):
        margin = " " * (len(block) - len(block.lstrip(" -")))
        is_command = margin and block.lstrip().startswith(("attn-zoo", "python", "--"))
        return block if is_command else textwrap.fill(block, width, subsequent_indent=margin)


class Parser(argparse.ArgumentParser):
    """A parser with one-line errors, whose options cannot be abbreviated or repeated."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(formatter_class=_Help, allow_abbrev=False, **kwargs)

    def parse_known_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """See the base class."""
        args = sys.argv[1:] if args is None else list(args)
        # Up to a double dash; what has a space in it is a sentence.
        options = itertools.takewhile(lambda one: one != "--", args)
        given = collections.Counter(one if " " in one else one.partition("=")[0] for one in options)
        for option, action in self._option_string_actions.items():
            if given[option] > 1 and action.nargs != 0 and not isinstance(action, argparse._AppendAction):
                self.error(f"{option} was given {given[option]} times: give it once")
        # argparse would first ask for a required option whose name was mistyped.
        known = [option for option in self._option_string_actions if option.startswith("--")]
        for option in given if self._subparsers is None else ():
            if not option.startswith("--") or option in known or " " in option:
                continue
            setting = option[2:].replace("-", "_")
            if "--set" in known and any(setting in settings for settings in SETTINGS.values()):
                self.error(f"unknown option {option}: {setting} is a setting, see --set {setting}=VALUE")
            if near := difflib.get_close_matches(option, known, n=1, cutoff=_NEAR):
                self.error(f"unknown option {option}: did you mean {near[0]}?")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action, value):
        """Name the nearest choice, where argparse lists them all."""
        if action.choices is not None and value not in action.choices:
            names = map(str, action.choices)
            raise argparse.ArgumentError(action, f"there is no {str(value)!r}: {choice(str(value), names)}")

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with status 2."""
        self.exit(2, f"{self.prog}: error: {one_line(message)} (see {self.prog} --help)\n")


def typed(setting: Setting) -> Callable[[str], object]:
    """Return a function that parses an option as a setting."""
    return checked(setting.parse)


def checked(function: Callable[[str], object]) -> Callable[[str], object]:
    """Return a function to use as the type of an option: it raises the error type that argparse expects."""

    def read(text):
        try:
            return function(text)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read

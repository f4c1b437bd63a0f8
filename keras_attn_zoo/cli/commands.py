"""The commands of `attn-zoo`, and its parser."""

import argparse
import importlib
from typing import Any

import keras_attn_zoo
from keras_attn_zoo.cli.options import add_backend_argument
from keras_attn_zoo.cli.parser import Command, Parser
from keras_attn_zoo.cli.plot import PICTURES

# Modules beside this one, in the order of the help.
_NAMES = "demo presets corpora systems train compare time translate explore evaluate align links average export site"
COMMANDS: list[Command] = [importlib.import_module(f"{__package__}.{name}").COMMAND for name in _NAMES.split()]


def build_parser() -> Parser:
    """Return the parser of `attn-zoo`."""
    parser = Parser(
        prog="attn-zoo",
        description="Train, compare and visualise attention mechanisms for translation.",
        epilog="examples:\n"
        "  attn-zoo demo\n"
        "  attn-zoo train --system bahdanau --train train.de train.en --run runs/bahdanau\n"
        '  attn-zoo translate runs/bahdanau "Guten Morgen."\n'
        "  attn-zoo COMMAND --help",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {keras_attn_zoo.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        _add(commands, command)
    plots = commands.add_parser("plot", help="draw attention, curves of runs, scores and speed")
    pictures = plots.add_subparsers(title="pictures", metavar="PICTURE", required=True)
    for command in PICTURES:
        _add(pictures, command)
    return parser


def _add(group: Any, command: Command, backend: str | None = None) -> None:
    parser = group.add_parser(
        command.name,
        help=command.summary,
        description=command.summary[0].upper() + command.summary[1:] + ".",
        epilog="examples:\n" + "\n".join(f"  {line}" for line in command.examples),
    )
    parser.set_defaults(
        action=command.run,
        parser=parser,
        list_argument=command.list_argument,
        interrupt_hint=command.interrupt_hint,
        job=command.job,
        own_backend=command.own_backend,
        needs_keras=command.needs_keras,
    )
    add_backend_argument(parser, backend, resumes=command.resumes)
    command.add_arguments(parser)
    if command.subcommands:
        # argparse would show the options and a subcommand, which is in place of them, in one line.
        plain = parser.format_usage().removeprefix("usage: ").rstrip().replace("%", "%%")
        lines = (f"{parser.prog} {one.name} ..." for one in command.subcommands)
        parser.usage = "\n       ".join([plain, *lines])
        instead = parser.add_subparsers(title="subcommands", metavar="SUBCOMMAND", prog=parser.prog)
        for one in command.subcommands:
            # A backend that is given before the subcommand stays.
            _add(instead, one, argparse.SUPPRESS)

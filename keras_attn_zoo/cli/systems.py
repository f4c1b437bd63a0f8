"""`attn-zoo systems`: list the named systems."""

import argparse
import dataclasses

from keras_attn_zoo.cli.parser import Command, Parser, typed
from keras_attn_zoo.runs.system import SETTINGS


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "--vocabulary-size",
        type=typed(dataclasses.replace(SETTINGS["Data"]["vocabulary_size"], optional=False)),
        default=8000,
        help="vocabulary size assumed for the parameter counts (default: %(default)s)",
        metavar="N",
    )


def run(options: argparse.Namespace) -> None:
    """Print the table."""
    from keras_attn_zoo.bodies.schema import BODIES
    from keras_attn_zoo.runs.named_systems import SYSTEMS
    from keras_attn_zoo.runs.outline import outline
    from keras_attn_zoo.studies.tabular import markdown_table

    size, rows = options.vocabulary_size, []
    for name, system in SYSTEMS.items():
        count = outline(system, size, size, longest=256).parameters
        rows.append([name, BODIES[system.body].title, f"{count:,}", system.source])
    print(markdown_table(["system", "body", "parameters", "paper"], rows, text=("body", "paper")))


COMMAND = Command(
    "systems",
    "list the named systems, with parameter counts and the papers that describe them",
    ["attn-zoo systems", "attn-zoo systems --vocabulary-size 32000"],
    add_arguments,
    run,
)

"""The command `attn-zoo`: one file a command, and the command line of the recipes.

Commands share `parser`, `options` and `guard`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_attn_zoo.cli.parser import Parser


def build_parser() -> Parser:
    """Return the parser of `attn-zoo`, with all its commands."""
    # A recipe has a command line of its own, and needs none of the commands.
    from keras_attn_zoo.cli import commands

    return commands.build_parser()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `attn-zoo`; return its exit status.

    Example:
        >>> main(["systems"])  # doctest: +SKIP
        0
    """
    from keras_attn_zoo.cli.guard import guarded

    return guarded(build_parser(), None, arguments)

"""The command `attn-zoo`: one file a command, and the command line of the recipes.

Commands share `parser`, `options` and `guard`.
"""

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `attn-zoo`; return its exit status.

    Example:
        >>> main(["systems"])  # doctest: +SKIP
        0
    """
    from keras_attn_zoo.cli.attn_zoo import build_parser
    from keras_attn_zoo.cli.guard import guarded

    return guarded(build_parser(), None, arguments)

"""The options of a test text, which commands about trained models share."""

import argparse
from typing import TYPE_CHECKING

from keras_attn_zoo.commands.options import ask, one_or_two_files
from keras_attn_zoo.commands.parser import Parser
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.files import PathLike

if TYPE_CHECKING:
    from keras_attn_zoo.experiments.parallel_text import ParallelText


def add_test_arguments(parser: Parser) -> None:
    """Add `--test` and `--reverse`."""
    parser.add_argument(
        "--test", nargs="+", metavar="FILE", help="test text: SOURCE TARGET, or one TSV file (default: the run's own)"
    )
    parser.add_argument("--reverse", action="store_true", help="use the second file or column as the source")


def given_text(options: argparse.Namespace) -> "ParallelText | None":
    """Return the text of `--test`; None without."""
    from keras_attn_zoo.experiments.corpora import read_pairs
    from keras_attn_zoo.experiments.parallel_text import ParallelText

    if not options.test:
        return None
    return ParallelText(read_pairs(one_or_two_files("test", options.test), options.reverse))


def own_text(model: PathLike) -> "ParallelText":
    """Return the test text of a run.

    Raises:
        UserError: the model is no run, or see `own_test_text`.
    """
    from keras_attn_zoo.experiments.corpora import own_test_text
    from keras_attn_zoo.experiments.run_folder import RunFolder

    run = RunFolder(model)
    if not run.holds_run:
        raise UserError(f"{model} is no run folder, and so has no test text: give --test SOURCE TARGET.")
    return own_test_text(run, ask)

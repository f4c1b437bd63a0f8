"""`attn-zoo plot lengths`: draw how long the sentences of a text are."""

import argparse
import logging

from keras_attn_zoo.commands.options import add_picture_argument
from keras_attn_zoo.commands.parser import Command, Parser, typed
from keras_attn_zoo.experiments.setting_types import Whole

_LOG = logging.getLogger(__name__)


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="text, one sentence per line")
    parser.add_argument(
        "--width",
        type=typed(Whole(least=1, most=1000)),
        default=1,
        metavar="N",
        help="lengths per bar, in words (default: 1)",
    )
    add_picture_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Draw a histogram for each file."""
    import numpy as np

    from keras_attn_zoo.analysis.figures import plot_histograms
    from keras_attn_zoo.data.text_files import read_lines
    from keras_attn_zoo.experiments.curves import titles

    lengths = {}
    for file, title in zip(options.files, titles(options.files), strict=True):
        lengths[title] = [len(line.split()) for line in read_lines(file)]
    # A bar of one length stands around its number.
    edges = np.arange(0, max(map(max, lengths.values())) + options.width + 1, options.width) - 0.5
    histograms = {title: np.histogram(counts, edges)[0] for title, counts in lengths.items()}
    plot_histograms(histograms, edges, options.output, "words", "sentences")
    _LOG.info("wrote %s", options.output)


COMMAND = Command(
    "lengths",
    "draw a histogram of the lengths of sentences",
    ["attn-zoo plot lengths train.de train.en --output lengths.png"],
    add_arguments,
    run,
)

"""`attn-zoo plot curves`: draw the training curves of several runs in one picture."""

import argparse
import logging
from pathlib import Path

from keras_attn_zoo.commands.options import add_picture_argument
from keras_attn_zoo.commands.parser import Command, Parser

_LOG = logging.getLogger(__name__)


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders")
    parser.add_argument(
        "--key",
        nargs="+",
        default=["val_loss"],
        help="figures to draw, keys of the log (default: val_loss)",
    )
    add_picture_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Draw the curves."""
    from keras_attn_zoo.analysis.pictures import plot_curves
    from keras_attn_zoo.experiments.curves import curves

    labels = {key: key.replace("val_", "validation ") for key in options.key}
    found = {
        f"{name}, {label}" if len(labels) > 1 else name: curve
        for key, label in labels.items()
        for name, curve in curves(options.runs, key).items()
    }
    plot_curves(found, options.output, ylabel=" and ".join(labels.values()))
    _LOG.info("wrote %s", options.output)


COMMAND = Command(
    "curves",
    "draw the training curves of several runs in one picture",
    ["attn-zoo plot curves runs/bahdanau runs/uniform --output curves.png", "... --key val_bleu"],
    add_arguments,
    run,
)

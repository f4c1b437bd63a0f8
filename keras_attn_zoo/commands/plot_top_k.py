"""`attn-zoo plot top-k`: a score of latent alignments over the number of source positions."""

import argparse
import logging
from pathlib import Path

from keras_attn_zoo.commands.options import add_name_argument, add_picture_argument
from keras_attn_zoo.commands.parser import Command, Parser
from keras_attn_zoo.errors import UserError

_LOG = logging.getLogger(__name__)
_LABELS = {"seconds": "seconds of translation", "tokens/s": "target tokens per second in training"}


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders")
    parser.add_argument(
        "--key",
        default="BLEU",
        choices=("BLEU", "chrF", "TER", "seconds", "tokens/s"),
        help="what to draw: a score, seconds of translation, tokens/s of training (default: BLEU)",
    )
    parser.add_argument(
        "--trained",
        action="store_true",
        help="draw over the number of positions in training, one point per run, other runs as horizontal lines "
        "(default: over those of `evaluate --top-k`)",
    )
    add_name_argument(parser)
    add_picture_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Draw the score."""
    from keras_attn_zoo.analysis.pictures import plot_curves
    from keras_attn_zoo.experiments.curves import curves_over_top_k, curves_over_trained_top_k
    from keras_attn_zoo.experiments.table import METRICS, steady_translation_seconds

    if options.key == "tokens/s" and not options.trained:
        raise UserError("tokens/s are measured in training: give --trained too.")

    def value(scores):
        if options.key == "seconds":
            return steady_translation_seconds(scores)
        if options.key == "tokens/s":
            return scores["training"]["tokens_per_second"]
        return scores["text"]["metrics"][METRICS[options.key]]["score"]

    draw = curves_over_trained_top_k if options.trained else curves_over_top_k
    curves, ticks = draw(options.runs, options.name, value)
    xlabel = f"source positions summed over in {'training' if options.trained else 'search'}"
    plot_curves(curves, options.output, _LABELS.get(options.key, options.key), xlabel=xlabel, ticks=ticks)
    _LOG.info("wrote %s", options.output)


COMMAND = Command(
    "top-k",
    "draw a score of latent alignments over the number of source positions in search or training",
    [
        "attn-zoo plot top-k runs/top-6 runs/exact --output bleu.png",
        "attn-zoo plot top-k runs/top-6 runs/exact --key seconds --output seconds.png",
        "attn-zoo plot top-k runs/top-1 runs/top-6 runs/exact runs/plain --trained --output bleu.png",
    ],
    add_arguments,
    run,
)

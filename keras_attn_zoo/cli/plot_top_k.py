"""`attn-zoo plot top-k`: draw a score of latent alignments over the number of source positions summed over."""

import argparse
import logging
from pathlib import Path

from keras_attn_zoo.cli.options import add_name_argument, add_picture_argument
from keras_attn_zoo.cli.parser import Command, Parser
from keras_attn_zoo.support.errors import UserError

_LOG = logging.getLogger(__name__)
_LABELS = {"seconds": "translation time in seconds", "tokens/s": "target tokens per second in training"}
# Measured in training.
_OF_TRAINING = ("tokens/s", "speed-ratio")


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders")
    parser.add_argument(
        "--key",
        default="BLEU",
        choices=("BLEU", "chrF", "TER", "seconds", *_OF_TRAINING),
        help="figure to draw: a score, translation time in seconds, training speed in tokens/s, or speed-ratio, "
        "how many times faster a run without a latent alignment is trained (default: BLEU)",
    )
    parser.add_argument(
        "--trained",
        action="store_true",
        help="draw over the number of positions in training: one point per run, and a horizontal line for each run "
        "without a latent alignment (default: over the numbers given to evaluate --top-k)",
    )
    add_name_argument(parser)
    add_picture_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Draw the score."""
    from keras_attn_zoo.runs.curves import LATENT, curves_over_top_k, curves_over_trained_top_k
    from keras_attn_zoo.runs.tasks import METRICS
    from keras_attn_zoo.studies.table import steady_translation_seconds
    from keras_attn_zoo.viewing.attention_pictures import plot_curves

    if options.key in _OF_TRAINING and not options.trained:
        raise UserError(f"{options.key} is measured in training: give --trained as well.")

    def value(scores):
        if options.key == "seconds":
            return steady_translation_seconds(scores)
        if options.key in _OF_TRAINING:
            return scores["training"]["tokens_per_second"]
        return scores["text"]["metrics"][METRICS[options.key]]["score"]

    draw = curves_over_trained_top_k if options.trained else curves_over_top_k
    curves, ticks = draw(options.runs, options.name, value)
    xlabel = f"source positions summed over in {'training' if options.trained else 'search'}"
    ylabel = _LABELS.get(options.key, options.key)
    if options.key == "speed-ratio":
        curves, baseline = _relative(curves, LATENT)
        ylabel = f"training speed of {baseline} / training speed"
    plot_curves(curves, options.output, ylabel, xlabel=xlabel, ticks=ticks)
    _LOG.info("wrote %s", options.output)


def _relative(curves, latent):
    """The level of the only run without a latent alignment over all curves, and the name of that run."""
    levels = [name for name in curves if name != latent]
    if len(levels) != 1:
        raise UserError(f"speed-ratio needs one run without a latent alignment; received {len(levels)}: give one.")
    level = curves[levels[0]][1][0]
    return {name: (steps, [level / value for value in values]) for name, (steps, values) in curves.items()}, levels[0]


COMMAND = Command(
    "top-k",
    "draw a score of latent alignments over the number of source positions that they sum over",
    [
        "attn-zoo plot top-k runs/top-6 runs/exact --output bleu.png",
        "attn-zoo plot top-k runs/top-6 runs/exact --key seconds --output seconds.png",
        "attn-zoo plot top-k runs/top-1 runs/top-6 runs/exact runs/plain --trained --output bleu.png",
        "attn-zoo plot top-k runs/top-1 runs/top-6 runs/exact runs/plain --trained --key speed-ratio --output x.png",
    ],
    add_arguments,
    run,
)

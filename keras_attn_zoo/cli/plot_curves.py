"""`attn-zoo plot curves`: draw the training curves of several runs in one picture."""

import argparse
import itertools
import logging
from pathlib import Path

from keras_attn_zoo.cli.options import add_picture_argument, refuse
from keras_attn_zoo.cli.over_seeds import OVER_SEEDS, add_over_seeds_argument
from keras_attn_zoo.cli.parser import Command, Parser
from keras_attn_zoo.support.errors import UserError

_LOG = logging.getLogger(__name__)


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders")
    parser.add_argument(
        "--key",
        nargs="+",
        type=lambda text: text.split(","),
        default=[["val_loss"]],
        help="figures to draw, keys of the log, separated by spaces or commas (default: val_loss)",
    )
    parser.add_argument(
        "--difference", action="store_true", help="draw how far each curve is above the first run's, if they lie close"
    )
    parser.add_argument(
        "--log-scale", action="store_true", help="use a logarithmic axis, for figures that fall far, such as perplexity"
    )
    add_over_seeds_argument(parser)
    add_picture_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Draw the curves."""
    from keras_attn_zoo.runs.curves import above_first, curves, over_seeds
    from keras_attn_zoo.viewing.attention_pictures import plot_curves

    if options.difference:
        refuse(options, "a logarithmic axis has no room for differences below 0", log_scale=False)
        if len(options.runs) < 2:
            raise UserError("--difference compares runs: give two or more.")
    options.key = list(dict.fromkeys(itertools.chain(*options.key)))
    labels = {key: key.replace("val_", "validation ").replace("_", " ") for key in options.key}
    drawn, deviations, above = {}, {}, ""
    for key, label in labels.items():
        found = curves(options.runs, key)
        of_seeds: dict[str, list[float]] = {}
        if options.over_seeds:
            found, of_seeds = over_seeds(found, options.runs)
        if options.difference:
            found, of_seeds = above_first(found, of_seeds)
            above = f" above that of {next(iter(found))}"
        for name, curve in found.items():
            title = f"{name}, {label}" if len(labels) > 1 else name
            drawn[title] = curve
            if name in of_seeds:
                deviations[title] = of_seeds[name]
    ylabel = " and ".join(labels.values()) + above + (OVER_SEEDS if deviations else "")
    plot_curves(drawn, options.output, ylabel=ylabel, log_scale=options.log_scale, deviations=deviations)
    _LOG.info("wrote %s", options.output)


COMMAND = Command(
    "curves",
    "draw the training curves of several runs in one picture",
    [
        "attn-zoo plot curves runs/bahdanau runs/uniform --output curves.png",
        "... --key val_bleu",
        "attn-zoo plot curves runs/transformer runs/ran-e runs/ran-d --difference --output curves.png",
        "attn-zoo plot curves runs/bahdanau runs/bahdanau-seed=2 runs/bahdanau-seed=3 --over-seeds --output curves.png",
    ],
    add_arguments,
    run,
)

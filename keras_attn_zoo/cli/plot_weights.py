"""`attn-zoo plot weights`: draw histograms of the attention weights of each layer."""

import argparse
import logging
from typing import Any

from keras_attn_zoo.cli.layer_pictures import add_layer_picture_arguments, statistics_of_models
from keras_attn_zoo.cli.options import MOST_LAYERS
from keras_attn_zoo.cli.parser import Command, Parser, typed
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.setting_types import Whole

_LOG = logging.getLogger(__name__)


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "--layers",
        nargs="+",
        type=typed(Whole(least=1, most=MOST_LAYERS)),
        metavar="N",
        help="layers to draw, counted from 1 (default: all)",
    )
    add_layer_picture_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Draw the histograms."""
    from keras_attn_zoo.viewing.canvas import PLAIN_STYLES
    from keras_attn_zoo.viewing.figures import plot_histogram_panels, plot_histograms

    found = statistics_of_models(options)
    panels: dict[str, dict[str, Any]] = {}
    for (title, place), statistics in found.items():
        for number, shares in enumerate(statistics.histogram, start=1):
            if options.layers is None or number in options.layers:
                panels.setdefault(f"layer {number}", {})[f"{title}, {place}"] = shares
    if not panels:
        raise UserError(f"no model has layer {' or '.join(map(str, options.layers))}: choose other --layers.")
    edges, labels = next(iter(found.values())).edges, ("attention weight", "share of the weights")
    together = {f"{name}, {layer}": shares for layer, its in panels.items() for name, shares in its.items()}
    if len(together) <= PLAIN_STYLES:
        plot_histograms(together, edges, options.output, *labels, log_scale=True)
    else:
        plot_histogram_panels(panels, edges, options.output, *labels, log_scale=True)
    _LOG.info("wrote %s", options.output)


COMMAND = Command(
    "weights",
    "draw histograms of the attention weights of each layer, along the references of a text",
    ["attn-zoo plot weights runs/transformer runs/ran-all --layers 1 3 6 --places encoder --output weights.png"],
    add_arguments,
    run,
)

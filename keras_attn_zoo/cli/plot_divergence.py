"""`attn-zoo plot divergence`: draw how different the attention of each pair of layers is."""

import argparse
import logging

from keras_attn_zoo.cli.layer_pictures import add_layer_picture_arguments, statistics_of_models
from keras_attn_zoo.cli.parser import Command
from keras_attn_zoo.support.errors import UserError

_LOG = logging.getLogger(__name__)


def run(options: argparse.Namespace) -> None:
    """Draw a grid for each model and place."""
    from keras_attn_zoo.viewing.figures import plot_grids

    rows: dict[str, list] = {}
    for (title, place), statistics in statistics_of_models(options).items():
        if len(statistics.divergence) < 2:
            raise UserError(f"{title} has one layer of {place} attention: divergence is between two or more.")
        rows.setdefault(title, []).append((f"{title}, {place}", statistics.divergence))
    plot_grids(
        list(rows.values()), options.output, "layer", "layer", "Jensen-Shannon divergence in nats", low_is_dark=True
    )
    _LOG.info("wrote %s", options.output)


COMMAND = Command(
    "divergence",
    "draw how different the attention of each pair of layers is: its Jensen-Shannon divergence along a text",
    ["attn-zoo plot divergence runs/transformer runs/ran-all --output divergence.png"],
    add_layer_picture_arguments,
    run,
)

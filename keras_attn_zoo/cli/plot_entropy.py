"""`attn-zoo plot entropy`: draw the entropy of the attention of each layer."""

import argparse
import logging

from keras_attn_zoo.cli.layer_pictures import add_layer_picture_arguments, statistics_of_models
from keras_attn_zoo.cli.parser import Command

_LOG = logging.getLogger(__name__)


def run(options: argparse.Namespace) -> None:
    """Draw the entropies."""
    from keras_attn_zoo.viewing.attention_pictures import plot_curves

    curves = {}
    for (title, place), statistics in statistics_of_models(options).items():
        entropy = statistics.entropy.tolist()
        curves[f"{title}, {place}"] = (list(range(1, len(entropy) + 1)), entropy)
    layers = range(1, max(len(values) for _, values in curves.values()) + 1)
    ticks = {float(layer): layer for layer in layers}
    plot_curves(curves, options.output, "attention entropy in nats", xlabel="layer", ticks=ticks)
    _LOG.info("wrote %s", options.output)


COMMAND = Command(
    "entropy",
    "draw how concentrated the attention of each layer is: its entropy along the references of a text",
    [
        "attn-zoo plot entropy runs/transformer runs/ran-all --output entropy.png",
        "attn-zoo plot entropy runs/transformer --places cross --test test.de test.en --output cross.pdf",
    ],
    add_layer_picture_arguments,
    run,
)

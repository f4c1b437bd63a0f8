"""`attn-zoo plot entropy`, `plot weights` and `plot divergence`: the attention of each layer along a text."""

import argparse
from typing import TYPE_CHECKING, Any

from keras_attn_zoo.bodies.schema import MOST_LAYERS
from keras_attn_zoo.cli.options import (
    MODEL,
    OVER_SEEDS,
    add_loading_arguments,
    add_over_seeds,
    add_test_arguments,
    given_text,
    own_text,
    picture_command,
)
from keras_attn_zoo.cli.parser import Parser, typed
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.messages import progress_bar
from keras_attn_zoo.support.setting_types import Whole

if TYPE_CHECKING:
    from keras_attn_zoo.viewing.attention_statistics import LayerStatistics

# Those of `PLACES`, which a parser must not import.
_PLACES = ("encoder", "decoder", "cross")


def _add_arguments(parser: Parser) -> None:
    parser.add_argument("models", nargs="+", metavar="MODEL", help=MODEL)
    parser.add_argument(
        "--places",
        nargs="+",
        choices=_PLACES,
        default=["encoder", "decoder"],
        help="self-attention of the encoder and of the decoder, or cross-attention (default: encoder decoder)",
    )
    add_test_arguments(parser)
    add_loading_arguments(parser)


def _add_with_seeds(parser: Parser) -> None:
    _add_arguments(parser)
    add_over_seeds(parser, "their mean; that of entropies with bars of the sample standard deviation")


def _add_weights(parser: Parser) -> None:
    parser.add_argument(
        "--layers",
        nargs="+",
        type=typed(Whole(least=1, most=MOST_LAYERS)),
        metavar="N",
        help="layers to draw, counted from 1 (default: all)",
    )
    _add_arguments(parser)


def _statistics(options: argparse.Namespace) -> "dict[tuple[str, str], LayerStatistics]":
    """The statistics of each model and place, along the references of the text: `{(title, place): ...}`."""
    from keras_attn_zoo.runs.attention_by_layer import PLACES, statistics_by_layer
    from keras_attn_zoo.runs.curves import titles
    from keras_attn_zoo.runs.loading import load_translator

    given, found = given_text(options), {}
    translators = [
        load_translator(model, max_tokens=options.max_tokens, precision=options.precision) for model in options.models
    ]
    # Nothing is followed before it is known that there is something to draw of each.
    for model, translator in zip(options.models, translators, strict=True):
        there = [place for place in PLACES if translator.backbone.attention_outputs.get(place)]
        if not set(there) & set(options.places):
            places = " or ".join(PLACES[place] for place in options.places)
            raise UserError(f"{model} has no {places} attention: add --places {' '.join(there)}.")
    for model, title, translator in zip(options.models, titles(options.models), translators, strict=True):
        text = given or own_text(model)
        with progress_bar(title, len(text.pairs)) as progress:
            of_model = statistics_by_layer(translator, text, options.places, progress)
        found.update({(title, PLACES[place]): statistics for place, statistics in of_model.items()})
    return found


def _by_system(options: argparse.Namespace) -> "dict[tuple[str, str], list[LayerStatistics]]":
    """The statistics of each model and place, with `--over-seeds` those of all seeds of a system together."""
    from keras_attn_zoo.runs.curves import seeds_of, titles

    names = titles(options.models)
    groups = seeds_of(names, options.models) if options.over_seeds else {name: [name] for name in names}
    found = _statistics(options)
    places = dict.fromkeys(place for _, place in found)
    return {
        (system, place): [found[name, place] for name in own]
        for system, own in groups.items()
        for place in places
        if (own[0], place) in found
    }


def _draw_entropy(options: argparse.Namespace) -> None:
    from keras_attn_zoo.runs.curves import mean_curve
    from keras_attn_zoo.viewing.attention_pictures import plot_curves

    curves, deviations = {}, {}
    for (system, place), of_seeds in _by_system(options).items():
        label = f"{system}, {place}"
        found = [(list(range(1, len(one.entropy) + 1)), one.entropy.tolist()) for one in of_seeds]
        layers, values = found[0]
        if len(found) > 1:
            layers, values, deviations[label] = mean_curve(found)
        curves[label] = layers, values
    ticks = {float(layer): layer for layer in range(1, max(len(values) for _, values in curves.values()) + 1)}
    ylabel = "attention entropy in nats" + (OVER_SEEDS if deviations else "")
    plot_curves(curves, options.output, ylabel, xlabel="layer", ticks=ticks, deviations=deviations)


def _draw_weights(options: argparse.Namespace) -> None:
    from keras_attn_zoo.viewing.canvas import PLAIN_STYLES
    from keras_attn_zoo.viewing.figures import plot_histogram_panels, plot_histograms

    found = _statistics(options)
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


def _draw_divergence(options: argparse.Namespace) -> None:
    from keras_attn_zoo.viewing.figures import plot_grids

    rows: dict[str, list] = {}
    found = _by_system(options)
    for (system, place), of_seeds in found.items():
        matrices = [one.divergence for one in of_seeds]
        if len(matrices[0]) < 2:
            raise UserError(f"{system} has one layer of {place} attention: divergence is between two or more.")
        rows.setdefault(system, []).append((f"{system}, {place}", sum(matrices) / len(matrices)))
    quantity = "Jensen-Shannon divergence in nats" + (", mean over seeds" if max(map(len, found.values())) > 1 else "")
    plot_grids(list(rows.values()), options.output, "layer", "layer", quantity, low_is_dark=True)


ENTROPY = picture_command(
    "entropy",
    "draw how concentrated the attention of each layer is: its entropy along the references of a text",
    [
        "attn-zoo plot entropy runs/transformer runs/ran-all --output entropy.png",
        "attn-zoo plot entropy runs/transformer --places cross --test test.de test.en --output cross.pdf",
        "attn-zoo plot entropy runs/ran-all runs/ran-all-seed=2 runs/ran-all-seed=3 --over-seeds --output entropy.png",
    ],
    _add_with_seeds,
    _draw_entropy,
)
WEIGHTS = picture_command(
    "weights",
    "draw histograms of the attention weights of each layer, along the references of a text",
    ["attn-zoo plot weights runs/transformer runs/ran-all --layers 1 3 6 --places encoder --output weights.png"],
    _add_weights,
    _draw_weights,
)
DIVERGENCE = picture_command(
    "divergence",
    "draw how different the attention of each pair of layers is: its Jensen-Shannon divergence along a text",
    ["attn-zoo plot divergence runs/transformer runs/ran-all --output divergence.png"],
    _add_with_seeds,
    _draw_divergence,
)

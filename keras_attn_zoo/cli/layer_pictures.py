"""What the pictures of attention by layer share: their options, and the statistics that they draw."""

import argparse
from typing import TYPE_CHECKING

from keras_attn_zoo.cli.options import MODEL, add_length_argument, add_picture_argument, add_precision_argument
from keras_attn_zoo.cli.parser import Parser
from keras_attn_zoo.cli.text_options import add_test_arguments, given_text, own_text
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.messages import progress_bar

if TYPE_CHECKING:
    from keras_attn_zoo.viewing.attention_statistics import LayerStatistics

# Those of `PLACES`, which a parser must not import.
_PLACES = ("encoder", "decoder", "cross")


def add_layer_picture_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("models", nargs="+", metavar="MODEL", help=MODEL)
    parser.add_argument(
        "--places",
        nargs="+",
        choices=_PLACES,
        default=["encoder", "decoder"],
        help="self-attention of the encoder and of the decoder, or cross-attention (default: encoder decoder)",
    )
    add_test_arguments(parser)
    add_picture_argument(parser)
    add_length_argument(parser)
    add_precision_argument(parser)


def statistics_of_models(options: argparse.Namespace) -> "dict[tuple[str, str], LayerStatistics]":
    """Return the statistics of each model and place, along the references of the text: `{(title, place): ...}`.

    Raises:
        UserError: a model has none of the places; see `statistics_by_layer`.
    """
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

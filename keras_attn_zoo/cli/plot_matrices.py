"""`attn-zoo plot matrices`: draw the weights of attention that does not depend on tokens."""

import argparse
import logging
from pathlib import Path

from keras_attn_zoo.cli.options import (
    MODEL,
    add_heads_argument,
    add_length_argument,
    add_picture_argument,
    add_precision_argument,
)
from keras_attn_zoo.cli.parser import Command, Parser, typed
from keras_attn_zoo.cli.text_options import own_text
from keras_attn_zoo.support.files import kind_of
from keras_attn_zoo.support.setting_types import Whole

_LOG = logging.getLogger(__name__)


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("model", help=MODEL)
    parser.add_argument(
        "--size",
        type=typed(Whole(least=1, most=1024)),
        metavar="N",
        help="number of positions (default: as many as the longest sentence of a run's test text has, at most 80; of "
        "other models 80, or as many as they accept)",
    )
    add_heads_argument(parser)
    add_picture_argument(parser)
    add_length_argument(parser)
    add_precision_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Draw one panel for each layer, and a row for each side."""
    from keras_attn_zoo.runs.attention_by_layer import PLACES, matrices_by_position
    from keras_attn_zoo.runs.loading import load_translator
    from keras_attn_zoo.viewing.figures import plot_grids

    translator = load_translator(options.model, max_tokens=options.max_tokens, precision=options.precision)
    size = options.size or _longest(translator, Path(options.model))
    found = matrices_by_position(translator, size, options.heads)
    rows = [
        [(f"{PLACES[place]}, layer {number + 1}", matrix) for number, matrix in layers.items()]
        for place, layers in found.items()
    ]
    # The first position of a decoder attends to itself alone; most weights are a hundredth of that.
    plot_grids(rows, options.output, "attended position", "position", "weight", gamma=0.5)
    _LOG.info("wrote %s", options.output)


def _longest(translator, folder):
    """The size of the matrices of a run: what lies beyond the sentences of its text was hardly trained; or None."""
    from keras_attn_zoo.runs.attention_by_layer import MOST_POSITIONS
    from keras_attn_zoo.runs.run_folder import RunFolder

    run = RunFolder(folder)
    # Runs of early versions have no text of their own.
    if not run.holds_run or kind_of(run.test) != "file":
        return None
    preprocessor = translator.preprocessor
    most = min(MOST_POSITIONS, preprocessor.encoder_sequence_length, preprocessor.decoder_sequence_length)
    text = own_text(folder).encoded_for(preprocessor)
    return min(most, max((len(ids) for side in (text.sources, text.targets) for ids in side), default=most))


COMMAND = Command(
    "matrices",
    "draw the weights of attention that does not depend on tokens: RAN, the Random Synthesizer, Gaussian attention",
    ["attn-zoo plot matrices runs/ran-all --output matrices.png", "... --size 40 --heads 0"],
    add_arguments,
    run,
)

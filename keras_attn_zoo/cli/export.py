"""`attn-zoo export`: write a translator in the format of another toolkit."""

import argparse
import importlib.util
import logging
from pathlib import Path

from keras_attn_zoo.cli.options import MODEL
from keras_attn_zoo.cli.parser import Command, Parser
from keras_attn_zoo.support.errors import UserError

_LOG = logging.getLogger(__name__)
_NO_ONNX = (
    "a translator cannot be exported to ONNX: Keras writes one call of a model there, and a translation is a loop of "
    "calls. Use --to saved_model, which holds the loop, or --to transformers."
)


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("model", help=MODEL)
    parser.add_argument(
        "--to",
        required=True,
        choices=("transformers", "saved_model", "onnx"),
        help="the format; transformers takes standard Transformers, and CTranslate2 converts what is written; "
        "saved_model takes every system, and is written by TensorFlow; onnx is refused, with the reason",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder to write, which must not exist")


def _own_backend(options):
    """TensorFlow, if it is installed: it alone writes SavedModels."""
    return "tensorflow" if options.to == "saved_model" and importlib.util.find_spec("tensorflow") else None


def run(options: argparse.Namespace) -> None:
    """Export."""
    if options.to == "onnx":
        raise UserError(_NO_ONNX)
    from keras_attn_zoo.runs.loading import load_translator
    from keras_attn_zoo.translators.marian import export_to_transformers
    from keras_attn_zoo.translators.saved_model_export import export_to_saved_model

    export = export_to_transformers if options.to == "transformers" else export_to_saved_model
    export(load_translator(options.model), options.folder)
    _LOG.info("wrote %s", options.folder)


COMMAND = Command(
    "export",
    "write a translator in the format of another toolkit",
    [
        "attn-zoo export runs/transformer --to transformers exported",
        "attn-zoo export my_preset --to saved_model served",
    ],
    add_arguments,
    run,
    own_backend=_own_backend,
)

"""`attn-zoo export`: write a translator in the format of another toolkit."""

import argparse
import logging
from pathlib import Path

from keras_attn_zoo.cli.options import MODEL, if_installed, refuse
from keras_attn_zoo.cli.parser import Command, Parser
from keras_attn_zoo.support.files import check_new_folder

_LOG = logging.getLogger(__name__)


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("model", help=MODEL)
    parser.add_argument(
        "--to",
        required=True,
        choices=("transformers", "saved_model", "onnx"),
        help="the format; transformers takes standard Transformers, and CTranslate2 converts what is written; "
        "saved_model takes every system, and is written by TensorFlow; onnx takes every system, is written by PyTorch, "
        "and `attn-zoo translate` takes what is written",
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "int8"),
        help="of --to onnx: float32, or int8 for about a third of the size (default: float32)",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder to write, which must not exist")


def _own_backend(options):
    """The one that writes a format alone, if it is installed."""
    writer = {"saved_model": "tensorflow", "onnx": "torch"}.get(options.to)
    return None if writer is None else if_installed(writer)


def run(options: argparse.Namespace) -> None:
    """Export."""
    if options.to != "onnx":
        refuse(options, "only --to onnx has a precision", precision=None)
    # Before a model is loaded.
    check_new_folder(options.folder)
    from keras_attn_zoo.runs.loading import load_translator
    from keras_attn_zoo.translators.marian import export_to_transformers
    from keras_attn_zoo.translators.onnx_export import check_onnx_export, export_to_onnx
    from keras_attn_zoo.translators.saved_model_export import export_to_saved_model

    if options.to == "onnx":
        check_onnx_export(options.folder)
        translator = load_translator(options.model)
        _LOG.info("exporting %s, which takes a minute or two", options.model)
        export_to_onnx(translator, options.folder, options.precision or "float32")
    else:
        export = export_to_transformers if options.to == "transformers" else export_to_saved_model
        export(load_translator(options.model), options.folder)
    _LOG.info("wrote %s", options.folder)


COMMAND = Command(
    "export",
    "write a translator in the format of another toolkit",
    [
        "attn-zoo export runs/transformer --to transformers exported",
        "attn-zoo export my_preset --to saved_model served",
        "attn-zoo export runs/bahdanau --to onnx exported",
    ],
    add_arguments,
    run,
    own_backend=_own_backend,
)

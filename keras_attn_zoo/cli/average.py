"""`attn-zoo average`: average the weights of models, or of the rounds of a run."""

import argparse
import dataclasses
import logging
from pathlib import Path

from keras_attn_zoo.cli.options import MODEL
from keras_attn_zoo.cli.parser import Command, Parser, typed
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.system import SETTINGS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import kind_of, shown

_LOG = logging.getLogger(__name__)


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("models", nargs="+", metavar="MODEL", help=f"{MODEL}; with --last or --best, one run folder")
    parser.add_argument(
        "--output", dest="folder", type=Path, required=True, metavar="DIR", help="folder of the preset to write"
    )
    which = parser.add_mutually_exclusive_group()
    for name in ("last", "best"):
        which.add_argument(
            f"--{name}",
            type=typed(dataclasses.replace(SETTINGS["Training"]["average"], optional=False)),
            metavar="K",
            help=f"average the {name} rounds of the run, which it keeps with keep_{name}=K",
        )


def run(options: argparse.Namespace) -> None:
    """Average, and save."""
    from keras_attn_zoo.runs.averaging import average_models, checkpoints_of

    if kind_of(options.folder) is not None:
        raise UserError(f"{shown(options.folder)} is there already: choose another folder for --output.")
    models = options.models
    if options.last or options.best:
        if len(models) > 1:
            raise UserError(f"--last and --best take one run folder; received {len(models)} models.")
        models = checkpoints_of(RunFolder(models[0]), options.last or 0, options.best or 0)
    average_models(models).save_to_preset(options.folder)
    _LOG.info("wrote %s", options.folder)


COMMAND = Command(
    "average",
    "average the weights of models, or of the last or best rounds of a run",
    [
        "attn-zoo average runs/transformer --last 5 --output averaged",
        "attn-zoo average runs/a/checkpoints/round-7 runs/a/checkpoints/round-9 --output averaged",
    ],
    add_arguments,
    run,
)

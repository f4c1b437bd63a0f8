"""`attn-zoo presets publish`: upload presets to a hub."""

import argparse
import logging
import re
from pathlib import Path

from keras_attn_zoo.cli.parser import Command, Parser
from keras_attn_zoo.support.errors import UserError

_LOG = logging.getLogger(__name__)
_ACCOUNT = re.compile(r"(?P<account>(?P<scheme>hf|kaggle)://[\w.-]+)/?", re.ASCII)
# What both hubs take as the name of a model.
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,49}", re.ASCII)


def add_arguments(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("presets", type=Path, metavar="DIR", help="folder with one subfolder per preset")
    parser.add_argument("address", metavar="ADDRESS", help="an account: hf://USER or kaggle://USER")


def run(options: argparse.Namespace) -> None:
    """Upload the presets in a folder, each under its name."""
    from keras_attn_zoo.presets.hub_presets import upload
    from keras_attn_zoo.support.files import shown

    address = _ACCOUNT.fullmatch(options.address)
    if address is None:
        raise UserError(f"cannot publish to {shown(options.address)}: give hf://USER or kaggle://USER.")
    presets = _presets_in(options.presets)
    for preset in presets:
        target = f"{address['account']}/{preset.name}"
        # A model on Kaggle also has a framework and a variation.
        target += f"/keras/{preset.name}" if address["scheme"] == "kaggle" else ""
        _LOG.info("uploading %s to %s", shown(preset), target)
        upload(preset, target)
        print(f"{preset.name}: {target}", flush=True)


def _presets_in(folder):
    """Return the folders of the presets in a folder, all checked before the first is uploaded."""
    from keras_attn_zoo.presets.preset_checks import check_preset
    from keras_attn_zoo.presets.preset_reading import check_folder
    from keras_attn_zoo.support.checksums import CHECKSUMS
    from keras_attn_zoo.support.files import check_file, kind_of, shown

    files = [path for name in ("config.json", CHECKSUMS) for path in folder.glob(f"*/{name}")]
    presets = sorted({path.parent for path in files}) if kind_of(folder) == "folder" else []
    if not presets:
        raise UserError(f"there are no presets in {shown(folder)}: give a folder with one subfolder per preset.")
    for preset in presets:
        if not _NAME.fullmatch(preset.name):
            raise UserError(
                f"a hub does not take {shown(repr(preset.name))} as the name of a model: rename {shown(preset)}, to at "
                "most 50 letters without accents, digits, dots, dashes and underscores."
            )
        check_file(preset / CHECKSUMS)
        check_preset(str(preset))
        check_folder(preset)
    return presets


COMMAND = Command(
    "publish",
    "upload all presets in a folder to a hub, each under its name",
    ["attn-zoo presets publish presets hf://user"],
    add_arguments,
    run,
)

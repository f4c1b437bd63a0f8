"""The files of an exported translator, and the description that says everything a runtime needs of them."""

import os
from pathlib import Path
from typing import Any

from keras_attn_zoo.support.checksums import CHECKSUMS, check_sum, read_checksums
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, kind_of, read_json, shown

DESCRIPTION, ENCODER, STEP = "translator.json", "encoder.onnx", "step.onnx"
# Of a batch: a step of fewer takes nearly as long, and one of more no less for each.
HYPOTHESES = 128
# Increase it with any change that older versions cannot read.
FORMAT = 1
_PARTS = {"format", "encoder", "step", "memory", "state", "search", "lengths", "truncation", "target", "tokenizers"}


def is_exported(path: PathLike) -> bool:
    """Return whether a path is a folder that `export_to_onnx` wrote, by the name of its description."""
    # A sentence may be longer than a path can be.
    return os.path.isfile(os.path.join(path, DESCRIPTION))


def read_description(folder: PathLike) -> dict[str, Any]:
    """Return the description of an exported translator, after a check that all of its files are whole.

    Raises:
        UserError: no such folder; a file is missing, damaged, or of a newer version.
    """
    folder = Path(folder)
    if not is_exported(folder):
        raise UserError(f"{shown(folder)} is no translator exported to ONNX: it has no {DESCRIPTION}.")
    sums = read_checksums(folder / CHECKSUMS)
    for name, expected in sums.items():
        if kind_of(folder / name) != "file":
            raise UserError(f"{shown(folder)} has no {shown(name)}: export the translator again.")
        check_sum(folder / name, expected)
    found = read_json(folder / DESCRIPTION)
    if not isinstance(found, dict) or type(found.get("format")) is not int:
        found = {}
    elif found["format"] > FORMAT:
        raise UserError(
            f"{shown(folder)} has format {found['format']}, but this version of keras-attn-zoo reads at most {FORMAT}: "
            "pip install --upgrade keras-attn-zoo."
        )
    if not found.keys() >= _PARTS or not _is_whole(found, sums):
        raise UserError(f"{shown(folder / DESCRIPTION)} is damaged: export the translator again.")
    return found


def _is_whole(found, sums):
    """Whether a description has the values that a search needs, and the sums of all files are known."""
    try:
        ids = [found["source"]["end"], found["target"]["start"], found["target"]["end"]]
        counts = [found["search"]["beams"], found["lengths"]["source"], found["lengths"]["target"], found["format"]]
        named = [part["name"] for kind in ("memory", "state") for part in found[kind]]
        files = {DESCRIPTION, ENCODER, STEP}
        for side in ("source", "target"):
            known = found["tokenizers"][side]
            files |= {known["model"], *(known[kind] for kind in ("vocabulary", "truecaser") if kind in known)}
        numbers = all(type(one) is int for one in (*ids, *counts)) and min(ids) >= 0 and min(counts) > 0
        return bool(named) and numbers and sums.keys() >= files
    except (KeyError, TypeError):
        return False

"""The files of an exported translator, and the description that says everything a runtime needs of them."""

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
    return Path(path).is_dir() and (Path(path) / DESCRIPTION).is_file()


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
    if isinstance(found, dict) and isinstance(found.get("format"), int) and found["format"] > FORMAT:
        raise UserError(
            f"{shown(folder)} has format {found['format']}, but this version of keras-attn-zoo reads at most {FORMAT}: "
            "pip install --upgrade keras-attn-zoo."
        )
    if not isinstance(found, dict) or not found.keys() >= _PARTS or not sums.keys() >= {DESCRIPTION, ENCODER, STEP}:
        raise UserError(f"{shown(folder / DESCRIPTION)} is damaged: export the translator again.")
    return found

"""The files of a preset: which file it is that KerasHub would read, and what may not be read."""

import os
from pathlib import Path
from typing import Any

from keras_attn_zoo.data.subwords import LARGEST_MODEL
from keras_attn_zoo.support.compat import get_preset_file
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import (
    PathLike,
    check_file,
    check_size,
    kind_of,
    parse_json,
    read_bytes,
    read_failed,
    shown,
)

# Configurations have kilobytes; the vocabulary of a checkpoint with a million pieces has 20 million bytes.
_LARGEST_JSON = 2**25
# Files of weights must fit in memory. All others but configurations are subword models and truecasers.
_WEIGHTS = (".weights.h5", ".safetensors", ".bin")


def preset_file(preset: str, name: str) -> str:
    """Return the path of a file of a preset, downloaded if necessary.

    Args:
        preset: a folder, or anything else that KerasHub accepts, here and below.
        name: the path of the file in it.

    Raises:
        FileNotFoundError: the preset has no such file.
        UserError: it is a folder, a pipe or a device, a link to somewhere outside the preset, too large to be read, or
            in a folder without permission.
    """
    path = _get_file(preset, name)
    _check_inside(path, Path(path).parents[len(Path(name).parts) - 1])
    largest = None if name.endswith(_WEIGHTS) else _LARGEST_JSON if name.endswith(".json") else LARGEST_MODEL
    check_size(path, largest)
    return path


def has_file(preset: str, name: str) -> bool:
    """Return whether a preset has a file; raise a `UserError` if that would be in a folder without permission."""
    try:
        _get_file(preset, name)
    except FileNotFoundError:
        return False
    return True


def _get_file(preset, name):
    try:
        return get_preset_file(preset, name)
    except FileNotFoundError:
        if os.path.isdir(preset):
            # What stands in a folder without permission seems to be missing; this raises, and says so.
            kind_of(os.path.join(preset, name))
        raise


def preset_json(preset: str, name: str) -> Any:
    """Read a JSON file of a preset; see `preset_file` and `parse_json` for errors."""
    path = preset_file(preset, name)
    return parse_json(read_bytes(path, _LARGEST_JSON), shown(path))


def check_folder(preset: PathLike) -> None:
    """Raise if something in the folder of a preset, whatever its name, is no file of its own.

    Raises:
        UserError: names a pipe, a device, or a link to somewhere outside the preset.
    """
    for folder, folders, files in os.walk(preset, onerror=_not_listed):
        for path in (os.path.join(folder, name) for name in (*folders, *files)):
            _check_inside(path, Path(preset))
            if kind_of(path) != "folder":
                check_file(path)


def _not_listed(error):
    raise read_failed(error.filename, error) from None


def _check_inside(path, folder):
    """Raise if a path leads out of its preset by links, other than into the cache of Hugging Face's hub.

    There, the files of a preset, in `snapshots/REVISION`, are links into `blobs`.
    """
    real, top = os.path.realpath(path), Path(os.path.realpath(folder))
    places = [top, *([top.parents[1] / "blobs"] if top.parent.name == "snapshots" else [])]
    if not any(Path(real).is_relative_to(place) for place in places):
        raise UserError(f"{shown(path)} links to outside the preset: replace it with the file itself.")

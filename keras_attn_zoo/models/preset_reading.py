"""The files of a preset: which file it is that KerasHub would read, and what may not be read."""

import os
from pathlib import Path
from typing import Any

from keras_hub.src.utils.preset_utils import get_file

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.files import PathLike, check_file, kind_of, parse_json, read_bytes, shown

# Configurations have kilobytes; the vocabulary of a checkpoint with a million pieces has 20 million bytes.
_LARGEST_JSON = 2**25


def preset_file(preset: str, name: str) -> str:
    """Return the path of a file of a preset, downloaded if necessary.

    Args:
        preset: a folder, or anything else that KerasHub accepts.
        name: the path of the file in it.

    Raises:
        FileNotFoundError: the preset has no such file.
        UserError: it is a folder, a pipe or a device, or a link to somewhere outside the preset.
    """
    path = get_file(preset, name)
    _check_inside(path, Path(path).parents[len(Path(name).parts) - 1])
    check_file(path)
    return path


def preset_json(preset: str, name: str) -> Any:
    """Read a JSON file of a preset; see `preset_file`.

    Raises:
        UserError: see `preset_file` and `parse_json`; it is too large.
    """
    path = preset_file(preset, name)
    return parse_json(read_bytes(path, _LARGEST_JSON), shown(path))


def check_folder(preset: PathLike) -> None:
    """Raise if something in the folder of a preset, whatever its name, is no file of its own.

    Raises:
        UserError: names a pipe, a device, or a link to somewhere outside the preset.
    """
    for folder, folders, files in os.walk(preset):
        for path in (os.path.join(folder, name) for name in (*folders, *files)):
            _check_inside(path, Path(preset))
            if kind_of(path) != "folder":
                check_file(path)


def _check_inside(path, folder):
    """Raise if a path leads out of its preset by links, other than into the cache of Hugging Face's hub.

    There, the files of a preset, in `snapshots/REVISION`, are links into `blobs`.
    """
    real, top = os.path.realpath(path), Path(os.path.realpath(folder))
    places = [top, *([top.parents[1] / "blobs"] if top.parent.name == "snapshots" else [])]
    if not any(Path(real).is_relative_to(place) for place in places):
        raise UserError(f"{shown(path)} links to outside the preset: replace it with the file itself.")

"""The published presets: their names, and where to find them."""

import difflib
import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attn_zoo.checksums import check_sum
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.fetching import fetch_files
from keras_attn_zoo.files import PathLike, kind_of, read_json, shown
from keras_attn_zoo.locks import locked
from keras_attn_zoo.messages import progress_bar

# Where the files of a preset are downloaded from. To publish them elsewhere, change this line.
ADDRESS = "https://huggingface.co/keras-attn-zoo/{preset}/resolve/main/{file}"
# The environment variable for a folder of presets that takes precedence over all others.
VARIABLE = "ATTN_ZOO_PRESETS"
REGISTRY = Path(__file__).with_name("presets.json")
# The folder of presets in a source checkout, beside the package.
CHECKOUT = Path(__file__).parents[2] / "presets"
_NAME = re.compile(r"[a-z0-9_]+")


@functools.cache
def published() -> Mapping[str, dict[str, Any]]:
    """Return the presets by name: "description", "license", "parameters", "scores", "files" and so on.

    Example:
        >>> published()["transformer_tatoeba_de_en"]["scores"]["bleu"]  # doctest: +SKIP
    """
    return read_json(REGISTRY)["presets"]


def cache_folder() -> Path:
    """Return the folder for downloaded presets, in `XDG_CACHE_HOME` or `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "keras-attn-zoo" / "presets"


def find_preset(preset: PathLike) -> str:
    """Return the folder of a published preset; return anything else unchanged.

    A name is looked up in the folder named by the environment variable `ATTN_ZOO_PRESETS`, in `presets/` of a source
    checkout, and in the cache. A preset found nowhere is downloaded. The folder may also hold presets under names of
    their own.

    Args:
        preset: the name of a published preset; or a folder, or an address such as `hf://user/preset`.

    Raises:
        UserError: neither a published preset nor a folder; a preset that cannot be downloaded; files other than those
            published.
    """
    preset = os.fspath(preset)
    if names_preset(preset):
        return str(local_folder(preset) or fetch_preset(preset))
    if "://" not in preset and kind_of(preset) is None and _NAME.fullmatch(preset):
        raise UserError(f"there is no folder or published preset {preset}: {nearest(preset)}")
    return preset


def names_preset(name: str) -> bool:
    """Whether a preset is known by a name: a published one, or one in the folder that `ATTN_ZOO_PRESETS` names."""
    return name in published() or (
        _NAME.fullmatch(name) is not None and kind_of(name) is None and local_path(name) is not None
    )


def nearest(name: str) -> str:
    """Return the advice for a name that no preset has."""
    own = os.environ.get(VARIABLE)
    known = {*published(), *(os.listdir(own) if own and kind_of(own) == "folder" else ())}
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.4)
    return f"did you mean {near[0]}?" if near else "`attn-zoo presets` lists them."


def local_folder(name: str) -> Path | None:
    """Return the folder of a published preset on this machine, after checking it; None if it must be downloaded.

    Raises:
        UserError: a file in the checkout or the cache is missing, or is not the published one.
    """
    folder = local_path(name)
    # A folder that the user names may have presets of their own.
    if folder is not None and name in published() and folder.parent in (CHECKOUT, cache_folder()):
        check_published(name, folder)
    return folder


def local_path(name: str) -> Path | None:
    """Return the folder of a preset on this machine, or None."""
    own = os.environ.get(VARIABLE)
    places = [*([Path(own)] if own else []), *([CHECKOUT, cache_folder()] if name in published() else [])]
    return next((place / name for place in places if kind_of(place / name) == "folder"), None)


def check_published(name: str, folder: PathLike) -> None:
    """Raise unless the files in a folder are those of a published preset.

    Raises:
        UserError: names the file.
    """
    for file, record in published()[name]["files"].items():
        path = Path(folder) / file
        if kind_of(path) != "file":
            raise UserError(f"{shown(path)} is missing: restore it, or remove {shown(folder)} to download it again.")
        check_sum(path, record["sha256"], REGISTRY.name)


def fetch_preset(name: str) -> Path:
    """Download a published preset to the cache; what an earlier attempt downloaded is kept.

    Raises:
        UserError: see `fetch_files`.
    """
    files = published()[name]["files"]
    folder = cache_folder() / name
    aside = cache_folder() / "unfinished" / name
    with locked(cache_folder(), f".{name}.lock", wait=True):
        if kind_of(folder) == "folder":
            # Another process has downloaded it meanwhile.
            return folder
        total = sum(record["size"] for record in files.values())
        with progress_bar(f"downloading {name}", total, "B") as progress:
            fetch_files(aside, files, lambda file: ADDRESS.format(preset=name, file=file), progress)
        os.replace(aside, folder)
    return folder

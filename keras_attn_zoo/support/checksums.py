"""Checksums of the files in a folder, to detect damage and changes before files are used."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, open_input, read_failed, read_json, shown, write_json

CHECKSUMS = "checksums.json"
# The format of a folder with this file; increase it with any change that older versions cannot read.
FORMAT = 1


def sha256(path: PathLike) -> str:
    """Return the SHA-256 of a file in hexadecimal digits, at about a second per gigabyte."""
    with open_input(path) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise read_failed(path, error) from None


def write_checksums(folder: PathLike, names: Iterable[str], rest: PathLike | None = None) -> None:
    """Write the SHA-256 of files to the `checksums.json` of a folder.

    Args:
        folder: the folder.
        names: paths relative to it, with slashes.
        rest: where those files are that are not in the folder.
    """
    folder, sums = Path(folder), {}
    for name in sorted(names):
        sums[name] = sha256(folder / name if rest is None or (folder / name).exists() else Path(rest) / name)
    write_json(folder / CHECKSUMS, {"format": FORMAT, "sha256": sums})


def read_checksums(path: PathLike) -> dict[str, str]:
    """Return what `write_checksums` wrote: `{name: digits}`.

    Raises:
        UserError: the file is damaged, was written by a newer version, or names a file outside its folder.
    """
    sums = read_json(path)
    if isinstance(sums, dict) and isinstance(sums.get("format"), int) and sums["format"] > FORMAT:
        raise UserError(
            f"{shown(path)} has format {sums['format']}, but this version of keras-attn-zoo reads at most "
            f"{FORMAT}: pip install --upgrade keras-attn-zoo."
        )
    sums = sums.get("sha256") if isinstance(sums, dict) else None
    if not isinstance(sums, dict) or not all(isinstance(one, str) for one in sums.values()):
        raise UserError(f"{shown(path)} is damaged: it has no checksums. Restore it.")
    for name in sums:
        if Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
            raise UserError(f"{shown(path)} names {name!r}, which is outside its folder: do not use it.")
    return sums


def check_sum(path: PathLike, expected: str, record: str = CHECKSUMS) -> None:
    """Raise unless a file has the expected SHA-256, in hexadecimal digits, which stands in `record`.

    Raises:
        UserError: it has another SHA-256, or cannot be read.
    """
    found = sha256(path)
    if found != expected:
        raise UserError(
            f"{shown(path)} is damaged or was changed: its SHA-256 is {found[:12]}..., not {expected[:12]}... as in "
            f"{record}. Restore it, or download it again."
        )

"""File types of pictures; known without matplotlib, so that a command can refuse others before it begins."""

from pathlib import Path

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, shown

SUFFIXES = (".png", ".pdf", ".svg")


def checked_suffix(path: PathLike) -> str:
    """Return the file type of a picture by its suffix.

    Raises:
        UserError: it is none of `SUFFIXES`.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(f"{shown(path)} has the suffix {suffix!r}: choose one of {', '.join(SUFFIXES)}.")
    return suffix[1:]

"""Files that are whole or absent: write aside, then rename."""

import contextlib
import json
import os
import shutil
import uuid
from pathlib import Path

from keras_attn_zoo.errors import UserError


def _write_failed(path, error):
    reason = error.strerror or str(error)
    return UserError(f"cannot write {path}: {reason}. Free some space or choose a folder that you may write to.")


def _beside(path):
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")


@contextlib.contextmanager
def atomic_path(path):
    """Give a path to write to; on success it becomes `path`, on failure nothing is left.

    The body may write a file or make a folder there. A folder that stands at
    `path` already is replaced; the old one is removed only after the new one
    is complete.

    Args:
        path: where the file or folder shall stand.

    Raises:
        UserError: the disk is full or read-only, or the folder may not be written.

    Example:
        >>> with atomic_path("scores.json") as aside:
        ...     aside.write_text("{}")
    """
    path = Path(path)
    aside = _beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield aside
        if aside.is_dir() and path.is_dir():
            old = _beside(path)
            path.rename(old)
            aside.rename(path)
            shutil.rmtree(old)
        else:
            os.replace(aside, path)
    except OSError as error:
        raise _write_failed(path, error) from error
    finally:
        if aside.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        elif aside.exists():
            aside.unlink(missing_ok=True)


def write_text(path, text):
    """Write a UTF-8 text file, whole or not at all."""
    with atomic_path(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_json(path, value):
    """Write `value` as indented JSON, whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path):
    """Read a JSON file.

    Raises:
        UserError: there is no such file, or it is not JSON.
    """
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no file {path}: check the path.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is damaged: it is not JSON ({error}). Restore or remove it.") from None

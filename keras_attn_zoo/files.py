"""Files that are whole or absent: write aside, then rename; and reading them, with one line for whatever is wrong."""

import contextlib
import json
import math
import os
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

from keras_attn_zoo.errors import UserError

# What a process writes aside, and what it moves away before a new folder takes its place.
_PARTIAL = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.(?P<kind>partial|old)")
# Linux follows as many links before it calls them a loop.
_MOST_LINKS = 40
_LONGEST_NAME_SHOWN = 200
# The largest JSON file that is read: ours have kilobytes, a log megabytes.
_LARGEST_JSON = 2**28
PathLike: TypeAlias = str | os.PathLike[str]


def shown(path: object) -> str:
    """Return a path as it stands in a message: on one line, however long or odd it is."""
    text = str(path)
    if len(text) > _LONGEST_NAME_SHOWN:
        text = f"{text[: _LONGEST_NAME_SHOWN // 2]}...{text[-_LONGEST_NAME_SHOWN // 4 :]}"
    return text if text.strip() and text.isprintable() else repr(text)


def reason_of(error: BaseException) -> str:
    """Return the system's own words for an error."""
    return getattr(error, "strerror", None) or str(error)


def kind_of(path: PathLike) -> str | None:
    """Return what stands at a path: "file", "folder", "stream" (a pipe, a terminal, a device), or None.

    Raises:
        UserError: the path cannot be followed: a loop of links, too long a name, a folder without access.

    Example:
        >>> kind_of("/dev/null")
        'stream'
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot open {shown(path)}: {reason_of(error)}. Check the path.") from None
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "stream"


def check_file(path: PathLike, streams: bool = False) -> None:
    """Raise where a path is not a file that can be read.

    Args:
        path: the file.
        streams: whether a pipe or a device will do.

    Raises:
        UserError: there is no such file; it is a folder, or a pipe that will not do; the path cannot be followed.
    """
    found = kind_of(path)
    if found is None:
        raise UserError(f"there is no file {shown(path)}: check the path.")
    if found == "folder":
        raise UserError(f"{shown(path)} is a folder: give a file.")
    if found == "stream" and not streams:
        raise UserError(f"{shown(path)} is a pipe or a device, which can be read only once: give a file.")


def read_bytes(path: PathLike, largest: int | None = None) -> bytes:
    """Read a whole file.

    Args:
        path: the file; no pipe and no device.
        largest: the most bytes it may have; None sets no bound.

    Raises:
        UserError: it is not a file, cannot be read, or is too large.
    """
    check_file(path)
    try:
        size = os.stat(path).st_size
        if largest is not None and size > largest:
            raise UserError(f"{shown(path)} has {size:,} bytes, more than the {largest:,} allowed: check the path.")
        return Path(path).read_bytes()
    except (OSError, MemoryError) as error:
        raise UserError(f"cannot read {shown(path)}: {reason_of(error)}. Check the file and its permissions.") from None


def write_failed(path: PathLike, error: BaseException) -> UserError:
    """Return the error that says that a file cannot be written."""
    return UserError(
        f"cannot write {shown(path)}: {reason_of(error)}. Free some space or choose a place that you may write to."
    )


def _beside(path, kind="partial"):
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.{kind}")


def _destination(path):
    """Follow the links of a path to where it is really written.

    Returns:
        `(path, descriptor)`: a path that is no link, or the number of an open file of this process, as
        `/dev/stdout` and `/dev/fd/3` name it, whatever it is redirected to.

    Raises:
        OSError: the links form a loop.
    """
    path = Path(path)
    for _ in range(_MOST_LINKS):
        folder = Path(os.path.realpath(path.parent))
        if folder in (Path("/dev/fd"), Path(f"/proc/{os.getpid()}/fd")) and path.name.isdecimal():
            return path, int(path.name)
        path = folder / path.name
        if not path.is_symlink():
            return path, None
        path = folder / os.readlink(path)
    # The system's own words for it.
    os.stat(path)
    raise OSError(f"more than {_MOST_LINKS} links")


@contextlib.contextmanager
def open_output(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a file to write bytes to; it stands at `path` when all is written, and on failure nothing is left.

    What stands there keeps its permissions, and a symbolic link stays one: its
    target is replaced. Pipes, terminals and devices are written to directly.

    Args:
        path: the file.

    Raises:
        UserError: it cannot be written: no space, no permission, a folder.
        BrokenPipeError: whoever reads the pipe has gone.

    Example:
        >>> with open_output("news.en") as file:
        ...     _ = file.write(b"a house\\n")
    """
    with _stream(path) as file:
        if file is not None:
            yield file
            return
    with atomic_path(path) as aside, aside.open("wb") as file:
        yield file


@contextlib.contextmanager
def _stream(path):
    """Open a pipe, terminal or device to write to, or a descriptor; give None where `path` is none of these."""
    try:
        real, descriptor = _destination(path)
        if descriptor is not None:
            file = os.fdopen(os.dup(descriptor), "wb")
        elif kind_of(real) == "stream":
            file = real.open("wb")
        else:
            file = None
    except UserError:
        raise
    except (OSError, ValueError) as error:
        raise write_failed(path, error) from None
    if file is None:
        yield None
        return
    try:
        with file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise write_failed(path, error) from error


@contextlib.contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """Give a path to write to; on success it becomes `path`, on failure nothing is left.

    The body may write a file or make a folder there. A folder that stands at
    `path` already is replaced; the old one is removed only after the new one
    is complete. A file keeps the permissions of the one that it replaces, and a
    symbolic link stays one: its target is replaced. What is written for a pipe, a
    terminal or a device is copied there at the end.

    Args:
        path: where the file or folder shall stand.

    Raises:
        UserError: the disk is full or read-only, or the folder may not be written.

    Example:
        >>> with atomic_path("scores.json") as aside:
        ...     _ = aside.write_text("{}")
    """
    with _stream(path) as stream:
        if stream is not None:
            with tempfile.TemporaryDirectory() as folder:
                aside = Path(folder) / "output"
                yield aside
                with aside.open("rb") as written:
                    shutil.copyfileobj(written, stream)
            return
    real, _ = _destination(path)
    aside = _beside(real)
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        _check_writable(real)
        yield aside
        _put(aside, real)
    except OSError as error:
        raise write_failed(path, error) from error
    finally:
        _remove(aside)


def _check_writable(path):
    """Raise where a file stands that is protected: renaming would not ask."""
    if path.is_file() and not os.access(path, os.W_OK):
        raise PermissionError(13, "Permission denied")


def _put(aside, path):
    """Move what is complete to where it belongs."""
    if aside.is_dir() and path.is_dir():
        old = _beside(path, "old")
        path.rename(old)
        aside.rename(path)
        shutil.rmtree(old)
        return
    if aside.is_file() and path.is_file():
        aside.chmod(stat.S_IMODE(path.stat().st_mode))
    os.replace(aside, path)


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def is_partial(name: str) -> bool:
    """Whether a file of this name is what a killed process has left: see `remove_partials`."""
    return _PARTIAL.fullmatch(name) is not None


def remove_partials(folder: PathLike) -> None:
    """Remove what killed processes have left in a folder; call it where no other process writes.

    A folder that was being replaced when its process was killed is put back.

    Args:
        folder: the folder; those in it are left alone.
    """
    folder = Path(folder)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        found = _PARTIAL.fullmatch(path.name)
        if found is None:
            continue
        if found["kind"] == "old" and not os.path.lexists(folder / found["name"]):
            with contextlib.suppress(OSError):
                path.rename(folder / found["name"])
        else:
            _remove(path)


def write_text(path: PathLike, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all."""
    with open_output(path) as file:
        file.write(text.encode("utf-8"))


def write_json(path: PathLike, value: Any) -> None:
    """Write `value` as indented JSON, whole or not at all."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    # A file name that is not UTF-8 has lone surrogates: JSON can write those with a backslash alone.
    with open_output(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def read_json(path: PathLike) -> Any:
    """Read a JSON file.

    Raises:
        UserError: there is no such file, or it is not JSON; a number in it is not finite.
    """
    return parse_json(read_bytes(path, _LARGEST_JSON), shown(path))


def parse_json(text: str | bytes, name: str) -> Any:
    """Read JSON from bytes or text.

    Args:
        text: the JSON.
        name: what it is called in a message.

    Raises:
        UserError: it is not JSON; a number in it is not finite.
    """

    def finite(number):
        value = float(number)
        if not math.isfinite(value):
            raise ValueError(f"{number[:20]} is not a finite number")
        return value

    try:
        # The readers of numbers see every one that a file may hold, `NaN` among them.
        return json.loads(text, parse_float=finite, parse_constant=finite)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise UserError(f"{name} is damaged: it is not JSON ({reason}). Restore or remove it.") from None

"""Files that are whole or absent, by writing under a temporary name and renaming; and one-line errors for files."""

import collections
import contextlib
import functools
import io
import json
import math
import os
import platform
import re
import shutil
import stat
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.machine_memory import machine_bytes

# Linux follows this many links before it reports a loop.
_MOST_LINKS = 40
_LONGEST_NAME_SHOWN = 200
# Opening a pipe would wait for a writer.
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)
# The largest JSON file that is read: ours have kilobytes, logs megabytes.
_LARGEST_JSON = 2**28
PathLike: TypeAlias = str | os.PathLike[str]
# Whether this process is one of several of which another one writes.
_DISCARDING: list[bool] = []
# Of what is being written, and of an old folder while a new one takes its place, with the machine and the process.
_UNFINISHED = re.compile(
    r"\.(?P<name>.+?)\.(?:(?P<machine>[0-9a-f]{8})-(?P<process>[0-9]+)-)?[0-9a-f]{8}\.(?P<kind>partial|old)"
)
# The temporary folder of files that go to a folder one by one; what is to be moved is in its folder "new".
NEW_FILES = "new files"


@functools.cache
def _machine() -> str:
    """Eight digits of what numbers processes: a machine since it was started, and in it, a container."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return f"{zlib.crc32(repr(parts).encode()):08x}"


def beside(path: Path, kind: str = "partial") -> Path:
    """Return a new temporary name in the same folder."""
    return path.with_name(f".{path.name}.{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.{kind}")


def final(path: Path) -> Path:
    """Return where what is being written under a temporary name will stand.

    Example:
        >>> final(Path("run/.best.0123abcd-7-0123abcd.partial/config.json")).as_posix()
        'run/best/config.json'
    """
    parts: list[str] = []
    for part in path.parts:
        # A folder that is written whole may be written into one that is.
        while (found := _UNFINISHED.fullmatch(part)) is not None:
            part = found["name"]
        # Files for a folder that is there already stand in a folder of their own.
        if parts[-1:] == [NEW_FILES] and part == "new":
            parts.pop()
        else:
            parts.append(part)
    return Path(*parts)


def is_partial(name: str) -> bool:
    """Return whether a name is that of a temporary file left by a killed process; see `remove_partials`."""
    return _UNFINISHED.fullmatch(name) is not None


def remove(path: Path) -> None:
    """Remove a file or a folder as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def check_mode(path: Path) -> None:
    """Raise if there is a write-protected file, which renaming would replace all the same."""
    if path.is_file() and not os.access(path, os.W_OK):
        raise PermissionError(13, "Permission denied")


def put(aside: Path, path: Path) -> None:
    """Move a complete file or folder to its final path."""
    if aside.is_dir() and path.is_dir():
        old = beside(path, "old")
        path.rename(old)
        aside.rename(path)
        # Under this name an interrupt does not keep it from being removed.
        old.rename(aside)
        remove(aside)
        return
    if aside.is_file() and path.is_file():
        aside.chmod(stat.S_IMODE(path.stat().st_mode))
    os.replace(aside, path)


def remove_where(folder: Path, unwanted: Callable[[re.Match[str]], bool]) -> None:
    """Remove what has temporary names that are `unwanted` from a folder; restore a folder that was being replaced."""
    for path in sorted(folder.iterdir()):
        found = _UNFINISHED.fullmatch(path.name)
        if found is None or not unwanted(found):
            continue
        if found["kind"] == "old" and not os.path.lexists(folder / found["name"]):
            with contextlib.suppress(OSError):
                path.rename(folder / found["name"])
        else:
            remove(path)


@functools.lru_cache(maxsize=256)
def remove_left_of(path: Path) -> None:
    """Remove what processes of this machine that have ended left of a path that they were writing; looked for once."""
    with contextlib.suppress(OSError):
        remove_where(path.parent, lambda found: found["name"] == path.name and _has_ended(found))


def _has_ended(found):
    # On Windows, a signal of 0 is no question.
    if found["machine"] != _machine() or os.name == "nt":
        return False
    try:
        os.kill(int(found["process"]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


@contextlib.contextmanager
def discarding_output() -> Iterator[None]:
    """Write neither files nor standard output: several processes run the same program, and another one writes.

    Example:
        >>> with discarding_output():
        ...     write_text("scores.txt", "30.1")  # is not written
    """
    _DISCARDING.append(True)
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
            yield
    finally:
        _DISCARDING.pop()


def discards_output() -> bool:
    """Return whether files of this process are written by another one."""
    return bool(_DISCARDING)


def shown(path: object) -> str:
    """Return a path as messages show it: on one line, shortened, and quoted if it is not printable."""
    text = str(path)
    if len(text) > _LONGEST_NAME_SHOWN:
        text = f"{text[: _LONGEST_NAME_SHOWN // 2]}...{text[-_LONGEST_NAME_SHOWN // 4 :]}"
    return text if text.strip() and text.isprintable() else repr(text)


def reason_of(error: BaseException) -> str:
    """Return the system's description of an error."""
    if isinstance(error, MemoryError):
        return "not enough memory"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def kind_of(path: PathLike) -> str | None:
    """Return what is at a path: "file", "folder", "stream" (a pipe, a terminal, a device), or None.

    Raises:
        UserError: the path cannot be resolved: a loop of links, a name that is too long, a folder without access.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot open {shown(path)}: {reason_of(error)}. Check the path.") from None
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "stream"


def check_new_folder(path: PathLike) -> None:
    """Raise unless nothing is at a path yet, and a folder can be made there; nothing is left of the attempt.

    Use it before what is to be written there is computed.

    Raises:
        UserError: something is there; a part of the path is a file, or may not be written to.

    Example:
        >>> check_new_folder("exported")
    """
    path = Path(path)
    if kind_of(path) is not None:
        raise UserError(f"{shown(path)} already exists: choose another folder, or remove it.")
    try:
        with tempfile.TemporaryDirectory(dir=next(one for one in path.absolute().parents if kind_of(one))):
            pass
    except OSError as error:
        raise write_failed(path, error) from None


def check_file(path: PathLike, streams: bool = False) -> None:
    """Raise unless a path is a file or, with `streams`, a pipe or a device.

    Raises:
        UserError: there is no such file; it is a folder, or a pipe that is not accepted; the path cannot be resolved.
    """
    found = kind_of(path)
    if found is None:
        raise UserError(f"there is no file {shown(path)}: check the path.")
    if found == "folder":
        raise UserError(f"{shown(path)} is a folder: give a file.")
    if found == "stream" and not streams:
        raise UserError(f"{shown(path)} is a pipe or a device, which can be read only once: give a file.")


def check_size(path: PathLike, largest: int | None = None) -> None:
    """Raise if a file has more than `largest` bytes, whatever its blocks occupy on the disk.

    Args:
        path: the file.
        largest: with None, the memory of this machine.

    Raises:
        UserError: it is larger; it is not a file.
    """
    check_file(path)
    _check_size(path, os.stat(path).st_size, largest)


def _check_size(path, size, largest):
    if size > (machine_bytes() if largest is None else largest):
        allowed = f"{machine_bytes():,} of this machine's memory" if largest is None else f"{largest:,} allowed"
        raise UserError(f"{shown(path)} has {size:,} bytes, more than the {allowed}: check the path.")


@contextlib.contextmanager
def open_input(path: PathLike) -> Iterator[io.BufferedReader]:
    """Open a file for reading bytes; a pipe that takes its place after the check is not waited for.

    Raises:
        UserError: it is not a file, or cannot be opened.
    """
    check_file(path)
    try:
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NO_WAITING))  # noqa: SIM115 below
    except OSError as error:
        raise read_failed(path, error) from None
    with file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UserError(f"{shown(path)} was replaced by a pipe or a device while it was opened: give a file.")
        yield file


def read_bytes(path: PathLike, largest: int | None = None) -> bytes:
    """Read a whole file of at most `largest` bytes; see `check_size`.

    Raises:
        UserError: it is not a file, cannot be read, or is too large.
    """
    with open_input(path) as file:
        size = os.fstat(file.fileno()).st_size
        _check_size(path, size, largest)
        try:
            return file.read(-1 if largest is None else size)
        except (OSError, MemoryError) as error:
            raise read_failed(path, error) from None


def read_failed(path: PathLike, error: BaseException) -> UserError:
    """Return the error for a file that cannot be read."""
    if isinstance(error, MemoryError):
        return UserError(f"cannot read {shown(path)}: {reason_of(error)}. Check its size.")
    return UserError(f"cannot read {shown(path)}: {reason_of(error)}. Check the file and its permissions.")


def write_failed(path: PathLike, error: BaseException) -> UserError:
    """Return the error for a file that cannot be written, with its final name."""
    path = final(Path(path))
    if isinstance(error, IsADirectoryError):
        return UserError(f"{shown(path)} is a folder: give the name of a file.")
    # What `mkdir` raises if a folder of the path is a file is the second.
    if isinstance(error, (NotADirectoryError, FileExistsError)):
        return UserError(f"cannot write {shown(path)}: a part of this path is a file, not a folder. Choose another.")
    return UserError(
        f"cannot write {shown(path)}: {reason_of(error)}. Free some space, or choose a folder with write permission."
    )


def _destination(path):
    """Where a path is really written: a path that is not a link, and None; or the number of an open file.

    That is one of this process, as in `/dev/stdout` and `/dev/fd/3`, wherever it is redirected to.
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
    # This raises the system's own error.
    os.stat(path)
    raise OSError(f"more than {_MOST_LINKS} links")


@contextlib.contextmanager
def open_output(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a file for writing bytes; it appears at `path` once everything is written, and on failure nothing is left.

    A file that is replaced keeps its permissions, and a symbolic link remains one:
    its target is replaced. Pipes, terminals and devices are written to directly.

    Raises:
        UserError: it cannot be written: no space, no permission, a folder.
        BrokenPipeError: the reader of the pipe is gone.

    Example:
        >>> with open_output("news.en") as file:
        ...     _ = file.write(b"a house\\n")
    """
    if discards_output():
        yield io.BytesIO()
        return
    with _stream(path) as file:
        if file is not None:
            yield file
            return
    with atomic_path(path) as aside, aside.open("wb") as file:
        yield file


@contextlib.contextmanager
def _stream(path):
    """Open a pipe, terminal, device or descriptor for writing; yield None if `path` is none of these."""
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
    """Yield a temporary path to write to; on success it becomes `path`, on failure nothing is left.

    The body may write a file or create a folder there. A folder already at `path` is replaced; the old one is removed
    only after the new one is complete. A file keeps the permissions of the one that it replaces, and a symbolic link
    remains one: its target is replaced. What is written for a pipe, a terminal or a device is copied there at the end.

    Raises:
        UserError: the disk is full or read-only, or there is no write permission.

    Example:
        >>> with atomic_path("scores.json") as aside:
        ...     _ = aside.write_text("{}")
    """
    if discards_output():
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder) / "output"
        return
    with _stream(path) as stream:
        if stream is not None:
            with tempfile.TemporaryDirectory() as folder:
                aside = Path(folder) / "output"
                yield aside
                with aside.open("rb") as written:
                    shutil.copyfileobj(written, stream)
            return
    real, _ = _destination(path)
    aside = beside(real)
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        check_mode(real)
        remove_left_of(real)
        yield aside
        put(aside, real)
    except OSError as error:
        raise write_failed(path, error) from error
    finally:
        remove(aside)


@contextlib.contextmanager
def atomic_files(folder: PathLike, last: str) -> Iterator[Path]:
    """Yield a temporary folder to write to; on success its files go to `folder`, on failure all stays as it was.

    The folder itself stays, which may be a mount, and so do files of other names. The file called `last` is moved last.
    """
    folder = Path(folder)
    if kind_of(folder) is None or discards_output():
        with atomic_path(folder) as new:
            new.mkdir()
            yield new
        return
    place = beside(folder / NEW_FILES)
    new, old = place / "new", place / "old"
    try:
        remove_left_of(folder / NEW_FILES)
        new.mkdir(parents=True)
        yield new
        names = [path.relative_to(new) for path in new.rglob("*") if path.is_file()]
        try:
            for name in sorted(names, key=lambda name: name.name == last):
                for path in (folder / name, old / name):
                    path.parent.mkdir(parents=True, exist_ok=True)
                if (folder / name).is_file():
                    check_mode(folder / name)
                    shutil.copymode(folder / name, new / name)
                    (folder / name).rename(old / name)
                (new / name).rename(folder / name)
        except BaseException:
            for name in names:
                if os.path.lexists(old / name):
                    os.replace(old / name, folder / name)
                elif not (new / name).exists():
                    (folder / name).unlink()
            raise
    except OSError as error:
        raise write_failed(error.filename2 or folder, error) from error
    finally:
        remove(place)


def remove_partials(folder: PathLike) -> None:
    """Remove what killed processes left in a folder; call this only if no other process writes there.

    A folder that was being replaced when the process was killed is restored. Subfolders are left alone.
    """
    if Path(folder).is_dir() and not discards_output():
        remove_where(Path(folder), lambda found: True)


def write_text(path: PathLike, text: str) -> None:
    """Write a UTF-8 text file, completely or not at all."""
    with open_output(path) as file:
        file.write(text.encode("utf-8"))


def write_json(path: PathLike, value: Any) -> None:
    """Write `value` as indented JSON, completely or not at all."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    # A file name that is not UTF-8 has lone surrogates, which JSON can only write with a backslash.
    with open_output(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def read_json(path: PathLike) -> Any:
    """Read a JSON file.

    Raises:
        UserError: there is no such file; see `parse_json`.
    """
    return parse_json(read_bytes(path, _LARGEST_JSON), shown(path))


def read_record(path: PathLike) -> dict[str, Any]:
    """Read a JSON file that can be made again; return nothing of one that is missing, damaged, or no object.

    Example:
        >>> read_record("nowhere.json")
        {}
    """
    found = None
    if kind_of(path) == "file":
        with contextlib.suppress(UserError):
            found = read_json(path)
    return found if isinstance(found, dict) else {}


def parse_json(text: str | bytes, name: str) -> Any:
    """Read JSON from bytes or text, which error messages call by a name.

    Raises:
        UserError: it is not JSON, a number in it is not finite, or a key of an object occurs twice.
    """

    def finite(number):
        value = float(number)
        if not math.isfinite(value):
            raise ValueError(f"{number[:20]} is not a finite number")
        return value

    try:
        # These functions see every float in the text, including `NaN`, and every object.
        return json.loads(text, parse_float=finite, parse_constant=finite, object_pairs_hook=without_twins)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise UserError(f"{name} is damaged: it is not JSON ({reason}). Restore or remove it.") from None


def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON as a dict; give this to `json.loads` as `object_pairs_hook`.

    Raises:
        ValueError: two of its values have the same key: readers disagree about which one counts.

    Example:
        >>> json.loads('{"a": 1, "b": 2}', object_pairs_hook=without_twins)
        {'a': 1, 'b': 2}
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twin, _)] = collections.Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {shown(repr(twin))} occurs twice in an object")
    return found

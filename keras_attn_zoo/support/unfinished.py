"""Temporary names of files and folders that are being written, and what killed processes left under such names."""

import contextlib
import functools
import os
import platform
import re
import shutil
import stat
import uuid
import zlib
from collections.abc import Callable
from pathlib import Path

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
    """Whether a name is that of a temporary file left by a killed process; see `remove_partials`."""
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

"""Locks: folders that one process uses at a time."""

import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from keras_attn_zoo.support.discarding import discards_output
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, kind_of, reason_of, shown, write_failed

try:
    import fcntl
except ImportError:
    # Windows.
    fcntl = None  # type: ignore[assignment]

_LOG = logging.getLogger(__name__)
# Windows locks bytes, and others cannot read them then: one far behind what a lock file holds.
_LOCKED_BYTE = 2**30


class InUseError(UserError):
    """Another process holds a lock."""


@contextlib.contextmanager
def locked(folder: PathLike, name: str = ".lock", wait: bool = False, deadline: float | None = None) -> Iterator[None]:
    """Keep other processes out of a folder, by a locked file with the process number and the host.

    The system releases the lock of a process that has ended, however it ended and
    whatever host its file names.

    Args:
        folder: the folder; created if necessary, with those that it is in, and then removed again if it stays empty.
        name: name of the lock file.
        wait: whether to wait if another process holds the lock, instead of raising.
        deadline: the `time.monotonic()` until which to wait; None for no limit.

    Raises:
        InUseError: another process holds the lock.
        UserError: the file system has no locks.

    Example:
        >>> with locked("runs/bahdanau"):
        ...     pass
    """
    if discards_output():
        yield
        return
    folder = Path(folder)
    path = folder / name
    said = False
    while True:
        made = [one for one in (folder, *folder.parents) if kind_of(one) is None]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_failed(path, error) from None
        try:
            # Through a link, a file elsewhere would be overwritten.
            file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666), "r+b", 0)
        except FileNotFoundError:
            # Another process has just removed the folder that it created for its lock.
            continue
        except OSError as error:
            if path.is_symlink():
                raise UserError(f"{shown(path)} is a link, but must be a file: remove it.") from None
            raise write_failed(path, error) from None
        try:
            _lock(file)
        except BlockingIOError:
            holder = _holder(file)
            file.close()
            process = f"process {holder[0]} on {holder[1]}" if holder else "another process"
            if not wait or (deadline is not None and time.monotonic() > deadline):
                raise InUseError(
                    f"{shown(folder)} is in use by {process}: wait until it is done, or stop it."
                ) from None
            if not said:
                _LOG.info("waiting for %s, which is using %s", process, shown(folder))
            said = True
            time.sleep(0.2)
            continue
        except OSError as error:
            file.close()
            raise UserError(f"cannot lock {shown(path)}: {reason_of(error)}. Use a folder on another disk.") from None
        # The previous holder may have removed the file meanwhile, and a third process may have created a new one.
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                break
        file.close()
    with file:
        # On a full disk, the lock holds without it.
        with contextlib.suppress(OSError):
            file.seek(0)
            file.truncate()
            file.write(json.dumps({"process": os.getpid(), "host": socket.gethostname()}).encode())
        try:
            yield
        finally:
            if fcntl is None:
                # Windows removes no open file.
                file.close()
            with contextlib.suppress(PermissionError):
                # Another process may have opened it meanwhile, to which it then belongs.
                path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                for one in made:
                    one.rmdir()


def _lock(file):
    """Lock an open file for this process; raise BlockingIOError if another one holds it."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    import msvcrt

    file.seek(_LOCKED_BYTE)
    try:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except PermissionError as error:
        raise BlockingIOError(*error.args) from None


def _holder(file):
    """Return the number and host of the process that a lock file names, or None."""
    file.seek(0)
    try:
        holder = json.loads(file.read(4096))
        return int(holder["process"]), shown(holder["host"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None

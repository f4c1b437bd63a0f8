"""Locks: folders that one process uses at a time."""

import contextlib
import errno
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.extras import require
from keras_attn_zoo.support.files import PathLike, discards_output, kind_of, reason_of, shown, write_failed

_LOG = logging.getLogger(__name__)
# What file systems without locks answer.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
# More often in a row than other processes remove a folder.
_REMOVED_OFTEN = 100


class InUseError(UserError):
    """Another process holds a lock."""


@contextlib.contextmanager
def locked(
    folder: PathLike,
    name: str = ".lock",
    wait: bool = False,
    deadline: float | None = None,
    used: PathLike | None = None,
) -> Iterator[None]:
    """Keep other processes out of a folder, by a locked file with the process number and the host.

    The system releases the lock of a process that has ended, however it ended and whatever host its file names.

    Args:
        folder: the folder; created if necessary, with those that it is in, and then removed again if it stays empty.
        name: name of the lock file.
        wait: whether to wait for another process that holds the lock.
        deadline: the `time.monotonic()` until which to wait; None for no limit.
        used: what messages say is in use; by default the folder.

    Raises:
        InUseError: another process holds the lock.
        UserError: the file system has no locks; filelock is not installed.

    Example:
        >>> with locked("runs/bahdanau"):
        ...     pass
    """
    if discards_output():
        yield
        return
    require("filelock", user="a lock on a folder")
    # Its import takes longer than most commands that lock nothing.
    from filelock import FileLock, Timeout

    folder = Path(folder)
    path = folder / name
    # Without its fallback, the lock of a process that has ended never stays.
    lock = FileLock(path, on_acquired=_name_holder, fallback_to_soft=False)
    said, removed = False, 0
    while True:
        made = [one for one in (folder, *folder.parents) if kind_of(one) is None]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire(blocking=False)
            break
        except Timeout:
            pass
        except FileNotFoundError as error:
            # Another process has just removed the folder that it created for its lock; in /proc, none can be made.
            removed += 1
            if removed < _REMOVED_OFTEN:
                continue
            raise write_failed(path, error) from None
        except OSError as error:
            # Through a link, a file elsewhere would be overwritten.
            if path.is_symlink():
                raise UserError(f"{shown(path)} is a link, but must be a file: remove it.") from None
            if error.errno in _NO_LOCKS:
                message = f"cannot lock {shown(path)}: {reason_of(error)}. Use a folder on another disk."
                raise UserError(message) from None
            raise write_failed(path, error) from None
        holder = _holder(path)
        if holder is None and not path.exists():
            # Its holder has just removed it.
            continue
        process = f"process {holder[0]} on {holder[1]}" if holder else "another process"
        if not wait or (deadline is not None and time.monotonic() > deadline):
            raise InUseError(f"{shown(used or folder)} is in use by {process}: wait until it is done, or stop it.")
        if not said:
            _LOG.info("waiting for %s, which is using %s", process, shown(used or folder))
        said = True
        time.sleep(0.2)
    try:
        yield
    finally:
        # Windows removes no open file: there, the release does.
        with contextlib.suppress(OSError):
            path.unlink()
        lock.release()
        with contextlib.suppress(OSError):
            for one in made:
                one.rmdir()


def _name_holder(descriptor):
    """Write this process into the file that it has locked; on a full disk, the lock holds without it."""
    with contextlib.suppress(OSError), os.fdopen(descriptor, "r+b", 0, closefd=False) as file:
        file.truncate()
        file.write(json.dumps({"process": os.getpid(), "host": socket.gethostname()}).encode())


def _holder(path):
    """Return the number and host of the process that a lock file names, or None."""
    try:
        with path.open("rb") as file:
            holder = json.loads(file.read(4096))
        return int(holder["process"]), shown(holder["host"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None

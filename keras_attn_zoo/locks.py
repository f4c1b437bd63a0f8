"""Locks: folders that one process uses at a time."""

import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.files import PathLike, discards_output, kind_of, reason_of, shown, write_failed

_LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def locked(folder: PathLike, name: str = ".lock", wait: bool = False) -> Iterator[None]:
    """Keep other processes out of a folder, by a file with the process number and the host.

    The lock of a killed process is taken over. The state of a process on another
    host is unknown: the message says which file to remove.

    Args:
        folder: the folder; created if necessary, and then removed again if it stays empty.
        name: name of the lock file.
        wait: whether to wait if another process holds the lock, instead of raising.

    Raises:
        UserError: another process holds the lock, or a process on another host left it.

    Example:
        >>> with locked("runs/bahdanau"):
        ...     pass
    """
    import fcntl

    if discards_output():
        yield
        return
    folder = Path(folder)
    path = folder / name
    said = False
    while True:
        made = kind_of(folder) is None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_failed(path, error) from None
        try:
            # Through a link, a file elsewhere would be overwritten.
            file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+b")
        except FileNotFoundError:
            # Another process has just removed the folder that it created for its lock.
            continue
        except OSError as error:
            if path.is_symlink():
                raise UserError(f"{shown(path)} is a link, but must be a file: remove it.") from None
            raise write_failed(path, error) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(file)
            file.close()
            process = f"process {holder[0]} on {holder[1]}" if holder else "another process"
            if not wait:
                raise UserError(f"{shown(folder)} is in use by {process}: wait until it is done, or stop it.") from None
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
        holder = _holder(file)
        if holder and holder[1] != socket.gethostname():
            raise UserError(
                f"{shown(folder)} was in use by process {holder[0]} on another host, {holder[1]}: if it no longer runs "
                f"there, remove {shown(path)}."
            )
        file.seek(0)
        file.truncate()
        file.write(json.dumps({"process": os.getpid(), "host": socket.gethostname()}).encode())
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            if made:
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _holder(file):
    """Return the number and host of the process that a lock file names, or None."""
    file.seek(0)
    try:
        holder = json.loads(file.read(4096))
        return int(holder["process"]), shown(holder["host"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None

"""Output that is not written, since another process writes it."""

import contextlib
import os
from collections.abc import Iterator

# Whether this process is one of several of which another one writes.
_DISCARDING: list[bool] = []


@contextlib.contextmanager
def discarding_output() -> Iterator[None]:
    """Write neither files nor standard output: several processes run the same program, and another one writes.

    Example:
        >>> from keras_attn_zoo.support.files import write_text
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

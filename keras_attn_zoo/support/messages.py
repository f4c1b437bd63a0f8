"""Messages through `logging`, and progress bars.

Each module logs under its own name. A program that uses the package sees messages as it has set up `logging`; a command
shows them with `shown`.
"""

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from keras_attn_zoo.support.escapes import printable
from keras_attn_zoo.support.extras import is_installed

PACKAGE = logging.getLogger("keras_attn_zoo")
# The bars currently drawn.
_BARS: list[Any] = []


class _Printable(logging.Formatter):
    """A message in one line, whatever names it has; a traceback below it stays as it is."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the message."""
        return printable(record.message)


class _Lines(logging.Handler):
    """Writes a message as a plain line to standard error, above any progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message; raise if the stream cannot be written to, as `print` does."""
        text = self.format(record)
        if _BARS:
            _BARS[-1].write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr)
        sys.stderr.flush()


@contextlib.contextmanager
def shown(level: int = logging.INFO) -> Iterator[None]:
    """Write the package's messages to standard error, one line each, and show progress bars there.

    Args:
        level: the lowest level of messages to write.
    """
    before = PACKAGE.level, PACKAGE.propagate
    lines = _Lines()
    lines.setFormatter(_Printable())
    PACKAGE.addHandler(lines)
    PACKAGE.setLevel(level)
    PACKAGE.propagate = False
    try:
        yield
    finally:
        PACKAGE.removeHandler(lines)
        PACKAGE.setLevel(before[0])
        PACKAGE.propagate = before[1]


@contextlib.contextmanager
def progress_bar(
    what: str, total: int | None = None, unit: str = "sentence", done: int = 0
) -> Iterator[Callable[..., None] | None]:
    """Show a progress bar with the time remaining, if messages are shown, on a terminal, and tqdm is installed.

    Args:
        what: what is being done, shown before the bar.
        total: the number of units in total; None if unknown.
        unit: what is counted; "B" for bytes, which are shown in kilobytes and so on.
        done: the number already done.

    Yields:
        a function of the number done so far and a text to show after the bar; None if no bar is shown.

    Example:
        >>> with progress_bar("translating", 500) as progress:
        ...     translator.translate(sentences, progress=progress)  # doctest: +SKIP
    """
    if not (PACKAGE.isEnabledFor(logging.INFO) and sys.stderr.isatty() and is_installed("tqdm")):
        yield None
        return
    from tqdm import tqdm

    class Bar(tqdm):
        # A single process, without a monitoring thread.
        monitor_interval = 0

    Bar.set_lock(threading.RLock())
    shape = {"unit": unit, "unit_scale": unit == "B", "initial": done, "dynamic_ncols": True}
    with Bar(desc=printable(what), total=total, file=sys.stderr, leave=False, **shape) as bar:

        def show(done: int, text: str = "") -> None:
            bar.set_postfix_str(printable(text), refresh=False)
            bar.update(done - bar.n)

        _BARS.append(bar)
        try:
            yield show
        finally:
            _BARS.remove(bar)

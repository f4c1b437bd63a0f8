"""What the package tells while it works: messages through `logging`, and bars of progress.

Each module has a logger of its own name. In a library their messages go to whoever has set up `logging`; a command
shows them by `shown`.
"""

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

PACKAGE = logging.getLogger(__package__)
# The bars that are drawn.
_BARS: list[Any] = []


class _Lines(logging.Handler):
    """Writes a message as a plain line to the standard error stream, above the bar that is drawn there."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message; a stream that cannot be written to raises, as with `print`."""
        text = self.format(record)
        if _BARS:
            _BARS[-1].write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr)
        sys.stderr.flush()


@contextlib.contextmanager
def shown(level: int = logging.INFO) -> Iterator[None]:
    """Write the package's messages to the standard error stream, one line each, and show bars of progress there.

    Args:
        level: of the least important messages that are written.

    Example:
        >>> with shown():
        ...     train_system(SYSTEMS["uniform"], corpus, "runs/uniform")  # doctest: +SKIP
    """
    before = PACKAGE.level, PACKAGE.propagate
    lines = _Lines()
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
    """Show a bar of progress with the time that is left, where messages are shown and a terminal shows them.

    Args:
        what: what is being done; stands before the bar.
        total: how many there are; None where nobody knows.
        unit: what is counted.
        done: how many were done before.

    Yields:
        a function of the number done so far, and of a text to show behind it; None where no bar is shown.

    Example:
        >>> with progress_bar("translating", 500) as progress:
        ...     translator.translate(sentences, progress=progress)  # doctest: +SKIP
    """
    if not (PACKAGE.isEnabledFor(logging.INFO) and sys.stderr.isatty()):
        yield None
        return
    from tqdm import tqdm

    # One process, and no thread that watches.
    tqdm.monitor_interval = 0
    tqdm.set_lock(threading.RLock())
    with tqdm(desc=what, total=total, unit=unit, initial=done, file=sys.stderr, leave=False, dynamic_ncols=True) as bar:

        def show(done: int, text: str = "") -> None:
            bar.set_postfix_str(text, refresh=False)
            bar.update(done - bar.n)

        _BARS.append(bar)
        try:
            yield show
        finally:
            _BARS.remove(bar)

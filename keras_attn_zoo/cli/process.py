"""What a command shares with its process: signals, standard streams, arguments, and failures of other software."""

import atexit
import contextlib
import errno
import gc
import io
import itertools
import os
import select
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from keras_attn_zoo.support.backends import configuration_file, is_out_of_memory
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.escapes import printable
from keras_attn_zoo.support.files import final

# Signals that ask a process to stop: Ctrl-C, a scheduler or container, a closed terminal.
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
# Seconds that a process has to stop before it is ended.
GRACE = 5.0
_CANNOT_WRITE = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EPERM, errno.EBADF, errno.EFBIG)
_LONGEST_MESSAGE = 4000


class Stoppable:
    """Make signals stop what runs in this context: the first raises `KeyboardInterrupt`, the second ends the process.

    The first does so from `heed` on, which is to be called where the exception is caught.
    Libraries sometimes lose an interrupt, in a destructor or while compiling, so a process still running `GRACE`
    seconds after the first signal is ended too.

    Args:
        interrupt_hint: a line to print when the process is stopped.
        last: whether the process ends after this context: signals then get the system's default, which is silent.

    Attributes:
        signal: the number of the signal received, or None.
    """

    def __init__(self, interrupt_hint: str, last: bool = False) -> None:
        self.interrupt_hint, self.last = interrupt_hint, last
        self.signal: int | None = None
        self._heeded = self._said = False
        self._former: dict[int, Any] = {}
        self._standard_error: int | None = None

    def __enter__(self) -> Self:
        """Install the signal handlers."""
        # Only the main thread may; and a process told to ignore a signal, as by `nohup`, still does.
        if threading.current_thread() is threading.main_thread():
            self._former = {
                number: signal.signal(number, self._stop)
                for number in _SIGNALS
                if signal.getsignal(number) not in (signal.SIG_IGN, None)
            }
            _fill_descriptors()
            self._read, self._write = os.pipe()
            self._standard_error = os.dup(2)
            os.set_blocking(self._write, False)
            self._former_descriptor = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
            self._former_hooks = sys.unraisablehook, sys.excepthook
            sys.unraisablehook, sys.excepthook = self._unraisable, self._uncaught
            self._watcher = threading.Thread(target=self._watch, daemon=True)
            self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the signal handlers."""
        for number, handler in self._former.items():
            signal.signal(number, signal.SIG_DFL if self.last else handler)
        if self._standard_error is not None:
            sys.unraisablehook, sys.excepthook = self._former_hooks
            signal.set_wakeup_fd(self._former_descriptor)
            os.close(self._write)
            self._watcher.join()
            os.close(self._read)
            os.close(self._standard_error)

    def heed(self) -> None:
        """Raise `KeyboardInterrupt` at the first signal, now if it has come already."""
        self._heeded = True
        if self.signal is not None:
            raise KeyboardInterrupt

    def finish(self) -> int:
        """Report that the process was stopped; return its status, or end it if nothing is left to run.

        Interrupted libraries may not survive Python's own shutdown.
        """
        number = self.signal or signal.SIGINT
        if self.last:
            self._leave(number)
        self._say_farewell()
        return 128 + number

    def _say_farewell(self):
        if not self._said:
            self._said = True
            print(f"\n{self.interrupt_hint}", file=sys.stderr, flush=True)

    def _stop(self, number, frame):
        if self.signal is None:
            self.signal = number
            if self._heeded:
                raise KeyboardInterrupt

    def _watch(self):
        """End the process at the second signal, whatever the main thread is doing."""
        first = None
        while select.select([self._read], [], [], None if first is None else GRACE)[0]:
            if not (number := os.read(self._read, 1)):
                return
            if number[0] in _SIGNALS:
                if first is not None:
                    break
                first = number[0]
        self._leave(first)

    def _unraisable(self, what):
        """End the process where Python would print an interrupt and ignore it; say nothing of what that broke."""
        if self.signal is None:
            self._former_hooks[0](what)
        elif issubclass(what.exc_type, KeyboardInterrupt):
            self._leave(self.signal)

    def _uncaught(self, *error):
        """Say nothing of what an interrupt broke: Cython prints an exception in a destructor here too."""
        if self.signal is None:
            self._former_hooks[1](*error)

    def _leave(self, number):
        # Standard error may have been silenced while a library starts.
        if self._standard_error is not None:
            os.dup2(self._standard_error, 2)
        self._say_farewell()
        os._exit(128 + number)


def prepare_streams() -> None:
    """Write text in UTF-8, whatever the locale, and open closed streams, so that no file gets their descriptors.

    Raises:
        UserError: standard output is closed.
    """
    _fill_descriptors()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    if sys.stdout is None:
        raise UserError("standard output is closed: redirect it to a file, or to /dev/null.")


def prepare_matplotlib() -> None:
    """Give matplotlib a temporary folder if it could not make its own, which it would say in two lines.

    Many commands import it, since libraries do, and few of them draw.
    """
    usual = (("XDG_CACHE_HOME", "~/.cache"), ("XDG_CONFIG_HOME", "~/.config"))
    folders = [os.path.join(os.environ.get(name) or os.path.expanduser(home), "matplotlib") for name, home in usual]
    if "MPLCONFIGDIR" in os.environ or all(map(_can_be_made, folders)):
        return
    with contextlib.suppress(OSError):
        folder = tempfile.TemporaryDirectory(prefix="matplotlib-")
        atexit.register(folder.cleanup)
        os.environ["MPLCONFIGDIR"] = folder.name


def _can_be_made(folder):
    while not os.path.lexists(folder) and os.path.dirname(folder) not in ("", folder):
        folder = os.path.dirname(folder)
    return os.path.isdir(folder) and os.access(folder, os.W_OK)


def _fill_descriptors():
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)


def collect_less_garbage() -> None:
    """Look for garbage less often, and not when the process ends.

    A backend and Keras make half a million objects that live as long as the process. Looking through them again and
    again takes a tenth of the time to the first translation, and once more a fifth of it at the end.
    """
    gc.set_threshold(50_000, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)


def drop_output() -> None:
    """Discard pending output, which Python would otherwise try to write again on exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise if an argument is not valid text.

    Raises:
        UserError: an argument is not UTF-8, or contains a NUL character.
    """
    for number, (before, argument) in enumerate(itertools.pairwise(["", *arguments]), start=1):
        place = f"argument {number}" + (f", of {before}," if before.startswith("--") else "")
        try:
            argument.encode()
        except UnicodeEncodeError:
            encoding, advice = sys.getfilesystemencoding().upper(), "convert it, or rename the file"
            if encoding != "UTF-8":
                advice = "set a UTF-8 locale, such as LC_ALL=C.UTF-8"
            raise UserError(f"{place} is not {encoding}: {argument!r}; {advice}.") from None
        if "\0" in argument:
            raise UserError(f"{place} contains a NUL character: {argument!r}.")


def one_line(text: str) -> str:
    """Return a message as one line of printable characters.

    Example:
        >>> one_line("no file 'a\\nb'")
        "no file 'a\\\\nb'"
    """
    text = printable(text.strip())
    if len(text) <= _LONGEST_MESSAGE:
        return text
    # What was wrong may come after the long value that was given.
    half = _LONGEST_MESSAGE // 2
    return f"{text[:half]}...{text[-half:]}"


def reason(error: BaseException) -> str | None:
    """Return the line that reports an error to the user, or None for a bug in the program.

    Args:
        error: an exception: bad input, or a failure of the disk, of memory, or of an imported library.
    """
    if isinstance(error, UserError):
        return one_line(error.for_shell)
    summary = one_line(f"{type(error).__name__}: {error}".strip().splitlines()[0].rstrip(" :."))
    if isinstance(error, MemoryError) or is_out_of_memory(error):
        return f"out of memory ({summary}): use smaller batches, fewer beams, a smaller model or shorter sentences."
    if (package := _failed_import(error)) is not None:
        if _is_of_configuration(package, error):
            return f"Keras cannot read its configuration {configuration_file()} ({summary}): fix or remove it."
        return f"cannot import {package} ({summary}): reinstall it, or choose another backend with --backend."
    if isinstance(error, OSError) and error.errno is not None:
        action = "write" if error.errno in _CANNOT_WRITE else "use"
        place = f" {final(Path(str(error.filename)))}" if error.filename else _unnamed(error)
        return one_line(f"cannot {action}{place}: {error.strerror}.")
    if isinstance(error, UnicodeEncodeError) and sys.getfilesystemencoding() != "utf-8":
        return f"{summary}: set a UTF-8 locale, such as LC_ALL=C.UTF-8."
    return None


def _is_of_configuration(package, error):
    """Whether Keras, or TensorFlow's copy of it, cannot use what stands in Keras' configuration file."""
    unusable = isinstance(error, AssertionError | AttributeError | TypeError) or "configuration" in str(error)
    return package in ("keras", "tensorflow") and configuration_file().is_file() and unusable


def _unnamed(error):
    """What an error without the name of a file is of, if that is known: commands write no files by themselves."""
    *_, (module, _) = _frames(error)
    return " standard output" if module.startswith(f"{__package__}.") else ""


def _frames(error):
    """Yield the module and function of each frame that an error passed through, outermost first."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        yield frame.f_globals.get("__name__", ""), frame.f_code.co_name


def _failed_import(error):
    """Return the name of the package that could not be imported; None for any other error."""
    ours = __package__.partition(".")[0]
    names = [name for name, function in _frames(error) if function == "<module>"]
    if isinstance(error, ImportError):
        names.append(error.name or "")
    packages = [name.partition(".")[0] for name in names]
    return next((name for name in packages if name not in (ours, "__main__", "")), None)

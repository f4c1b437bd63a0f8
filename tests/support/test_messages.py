"""Messages are for whoever listens: nobody in a library, the error output of a command, with a bar on a terminal."""

import contextlib
import logging
import os
import re
import select
import termios
import time

from keras_attn_zoo.support.messages import PACKAGE, progress_bar, shown

LOG = logging.getLogger("keras_attn_zoo.some.module")


@contextlib.contextmanager
def terminal():
    """A terminal in the place of the standard error stream; gives a function that returns what it was sent."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    with open(theirs, "w", encoding="utf-8") as stream, contextlib.redirect_stderr(stream):

        def sent():
            stream.flush()
            found = b""
            while select.select([ours], [], [], 0.2)[0]:
                found += os.read(ours, 1 << 16)
            return found.decode()

        yield sent
    os.close(ours)


def test_a_library_says_nothing_but_warnings(capsys):
    LOG.info("at work")
    with progress_bar("working", 3) as show:
        assert show is None
    assert capsys.readouterr() == ("", "")
    assert not PACKAGE.handlers and PACKAGE.propagate


def test_a_command_writes_plain_lines_and_no_bar_into_a_file(capsys):
    with shown():
        LOG.info("at %s", "work")
        LOG.warning("odd")
        LOG.debug("detail")
        with progress_bar("working", 3) as show:
            assert show is None
    LOG.info("done")
    assert capsys.readouterr() == ("", "at work\nodd\n")
    assert not PACKAGE.handlers and PACKAGE.propagate and not PACKAGE.isEnabledFor(logging.INFO)


def test_a_terminal_has_a_bar_with_the_time_that_is_left():
    with terminal() as read, shown():
        with progress_bar("working", 4, "step", done=1) as show:
            for done in (2, 3):
                time.sleep(0.11)
                show(done, f"step {done}")
            LOG.info("a message")
        sent = read()
    bars = re.findall(r"working: +(\d+)%.*?\| (\d)/4 \[\d\d:\d\d<(\S+),", sent)
    assert bars[0] == ("25", "1", "?") and bars[-1][:2] == ("75", "3") and re.fullmatch(r"\d\d:\d\d", bars[-1][2])
    # Messages stand above the bar, on a line of their own.
    assert re.search(r"(^|\r|\n)a message\r\n", sent)


def test_a_terminal_without_a_command_has_no_bar():
    with terminal() as read:
        with progress_bar("working", 4) as show:
            assert show is None
        assert read() == ""

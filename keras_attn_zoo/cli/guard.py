"""Run a command line: signals, streams, choice of backend; failures become one line and an exit status."""

import argparse
import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Sequence

from keras_attn_zoo.cli.device_options import on_devices
from keras_attn_zoo.cli.process import (
    Stoppable,
    check_arguments,
    collect_less_garbage,
    drop_output,
    prepare_matplotlib,
    prepare_streams,
    reason,
)
from keras_attn_zoo.support.backends import choose_backend
from keras_attn_zoo.support.extras import require
from keras_attn_zoo.support.messages import shown

# The status of a process that SIGPIPE ends, of which there is none on Windows.
_UNREAD = 141


def guarded(
    parser: argparse.ArgumentParser,
    action: Callable[[argparse.Namespace], int | None] | None,
    arguments: Sequence[str] | None = None,
    interrupt_hint: str = "",
) -> int:
    """Parse a command line, choose the backend and run; turn failures into one line and an exit status.

    Args:
        parser: a `Parser` with the options of `add_backend_argument`, and the defaults "job" and "own_backend" of a
            `Command`.
        action: function of the parsed options; None for the one that a subcommand sets.
        arguments: the command line; by default that of the process, which then exits with the status.
        interrupt_hint: added to the message when the command is interrupted; a subcommand may set its own.

    Returns:
        the exit status: 0 for success; 2 for bad input, a full disk, exhausted memory or a failing library; 130, 143
        or 129 after Ctrl-C, SIGTERM or SIGHUP; 141 if training ended because nobody reads its output.
    """
    with Stoppable(f"{parser.prog}: stopped.", last=arguments is None) as stoppable:
        try:
            stoppable.heed()
            prepare_streams()
            prepare_matplotlib()
            status = _run(parser, action, sys.argv[1:] if arguments is None else arguments, interrupt_hint, stoppable)
        except BrokenPipeError:
            drop_output()
            status = 0
        except BaseException as error:
            if stoppable.signal is None and isinstance(error, KeyboardInterrupt):
                stoppable.signal = signal.SIGINT
            text = None if stoppable.signal else reason(error)
            if text is None and stoppable.signal is None:
                raise
            if isinstance(error, OSError):
                drop_output()
            if text is not None:
                print(f"{parser.prog}: error: {text}", file=sys.stderr)
            status = 2
        if stoppable.signal is not None:
            # Whatever a library turned the interrupt into.
            status = stoppable.finish()
        return status


def _run(parser, action, arguments, interrupt_hint, stoppable):
    check_arguments(arguments)
    try:
        options, rest = parser.parse_known_args(arguments)
        # argparse ends a list of positional arguments at the first option, but those after it belong to the list too.
        more = getattr(options, "list_argument", None)
        end = rest.index("--") if "--" in rest else len(rest)
        if rest and (more is None or any(item.startswith("-") for item in rest[:end])):
            dashed = "" if more is None else "; put -- before arguments that begin with a dash"
            getattr(options, "parser", parser).error(f"unrecognized arguments: {' '.join(rest)}{dashed}")
        if rest:
            setattr(options, more, [*getattr(options, more), *rest[:end], *rest[end + 1 :]])
        hint = getattr(options, "interrupt_hint", interrupt_hint)
        stoppable.interrupt_hint = f"{stoppable.interrupt_hint} {hint}".rstrip()
        if (needs_keras := getattr(options, "needs_keras", None)) is not None and not needs_keras(options):
            with shown(logging.INFO):
                return (action or options.action)(options) or 0
        require(user=getattr(options, "parser", parser).prog, backend=True)
        own = options.own_backend(options) if options.own_backend and options.backend is None else None
        collect_less_garbage()
        job = options.job(options) if callable(options.job) else options.job
        backend = choose_backend(options.backend, job, own, getattr(options, "devices", None), arguments)
        with on_devices(options, backend) as leads, shown(logging.INFO if leads else logging.ERROR):
            try:
                return (action or options.action)(options) or 0
            except BrokenPipeError:
                # Whoever reads no more of a text has what he wants; a run that ends here does not.
                if not getattr(options, "resumes", False) or getattr(options, "plan", False):
                    raise
                with contextlib.suppress(OSError):
                    print(f"{parser.prog}: nobody reads the output any more.", file=sys.stderr)
                    print(stoppable.interrupt_hint, file=sys.stderr)
                drop_output()
                return _UNREAD
    finally:
        # While an error can still be reported.
        sys.stdout.flush()

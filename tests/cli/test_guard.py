"""How a command ends: signals, streams, and failures that are not its own."""

import contextlib
import dataclasses
import errno
import importlib.util
import io
import os
import shlex
import signal
import subprocess
import sys

import keras
import pytest

from keras_attn_zoo import cli
from keras_attn_zoo.cli import commands, process
from keras_attn_zoo.support.backends import choose_backend
from keras_attn_zoo.support.errors import UserError
from tests.cli.conftest import act


def test_a_long_message_keeps_both_ends():
    text = process.one_line("begin " + "x" * 10_000 + " end")
    assert text.startswith("begin x") and text.endswith("x end") and len(text) < 5000


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("made_of_it", [None, UserError("cannot compile"), SystemError("a library's own")])
def test_a_signal_stops_whatever_a_library_makes_of_it(attn_zoo, monkeypatch, left, name, made_of_it):
    number, before = signal.Signals[name], signal.getsignal(signal.Signals[name])

    def stopped():
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            if made_of_it is not None:
                raise made_of_it from None
            raise

    act(monkeypatch, stopped)
    status, output, error = attn_zoo("demo")
    assert (status, output) == (128 + number, "") and left.empty()
    assert error == "\nattn-zoo: stopped. Run the demonstration again to resume it.\n"
    assert signal.getsignal(number) is before


def test_a_signal_before_anything_runs(attn_zoo, monkeypatch, left):
    """While the handlers are being installed."""
    fill = process._fill_descriptors
    for number in (signal.SIGINT, signal.SIGTERM):
        monkeypatch.setattr(process, "_fill_descriptors", lambda number=number: [fill(), signal.raise_signal(number)])
        ran = []
        act(monkeypatch, lambda ran=ran: ran.append(True))
        assert attn_zoo("demo") == (128 + number, "", "\nattn-zoo: stopped.\n")
        assert not ran and left.empty()


@pytest.mark.parametrize("stops", [True, False])
def test_what_an_interrupt_broke_is_not_printed(attn_zoo, monkeypatch, left, stops):
    """A destructor fails: Python prints that by one hook, Cython by both."""

    class Broken:
        def __del__(self):
            raise KeyError(0)

    def stopped():
        broken = Broken()
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT if stops else signal.SIGURG)
        del broken
        sys.excepthook(KeyError, KeyError(0), None)

    act(monkeypatch, stopped)
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: printed.append(what.exc_type))
    monkeypatch.setattr(sys, "excepthook", lambda kind, *_: printed.append(kind))
    status, _, _ = attn_zoo("demo")
    assert (status, printed) == ((130, []) if stops else (0, [KeyError, KeyError]))


def test_ctrl_c_without_a_signal(attn_zoo, monkeypatch):
    def stop():
        raise KeyboardInterrupt

    act(monkeypatch, stop)
    status, _, error = attn_zoo("demo")
    assert status == 130 and "resume it" in error and "Traceback" not in error


@pytest.mark.parametrize(("resumes", "expected"), [(True, 141), (False, 0)])
def test_training_whose_output_nobody_reads_has_not_succeeded(attn_zoo, monkeypatch, resumes, expected):
    def write():
        raise BrokenPipeError

    act(monkeypatch, write)
    demo, *others = commands.COMMANDS
    monkeypatch.setattr(commands, "COMMANDS", [dataclasses.replace(demo, resumes=resumes), *others])
    status, _, error = attn_zoo("demo")
    assert status == expected
    said = "attn-zoo: nobody reads the output any more.\nattn-zoo: stopped. Run the demonstration again to resume it.\n"
    assert error == (said if expected else "")


def test_a_second_signal_ends_the_process_whatever_it_is_busy_with(attn_zoo, monkeypatch, left):
    ended = []

    def busy():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert left.empty()
        signal.raise_signal(signal.SIGTERM)
        ended.append(left.get(timeout=20))

    act(monkeypatch, busy)
    status, _, error = attn_zoo("demo")
    assert ended == [130] and status == 130 and error.count("stopped") == 1


def test_an_interrupt_that_a_library_loses_ends_the_process(attn_zoo, monkeypatch, left):
    ended = []

    class Lost:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)

    def destroyed():
        lost = Lost()
        del lost
        ended.append(left.get(timeout=20))

    act(monkeypatch, destroyed)
    status, _, error = attn_zoo("demo")
    assert ended == [143] and status == 143 and "Traceback" not in error

    def swallowed():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        ended.append(left.get(timeout=20))

    monkeypatch.setattr(process, "GRACE", 0.05)
    act(monkeypatch, swallowed)
    assert attn_zoo("demo")[0] == 143 and ended == [143, 143]


def test_what_ignores_a_signal_goes_on(attn_zoo, monkeypatch):
    """As under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        act(monkeypatch, lambda: signal.raise_signal(signal.SIGHUP))
        assert attn_zoo("demo") == (0, "", "")
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_process_is_stopped_twice_and_says_so_once():
    """The second signal comes while it cleans up."""
    script = """
import atexit, dataclasses, sys, time
from keras_attn_zoo import cli
from keras_attn_zoo.cli import commands
def wait(text):
    print(text, flush=True)
    time.sleep(60)
def run(options):
    try:
        wait("begun")
    finally:
        wait("cleaning up")
commands.COMMANDS[0] = dataclasses.replace(commands.COMMANDS[0], run=run)
atexit.register(wait, "leaving")
sys.argv = ["attn-zoo", "demo", "--backend", sys.argv[1]]
sys.exit(cli.main())
"""
    # JAX and PyTorch are not imported for this.
    backend = next(name for name in ("jax", "torch", "tensorflow") if importlib.util.find_spec(name) is not None)
    command = [sys.executable, "-c", script, backend]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        for text in ("begun\n", "cleaning up\n"):
            assert running.stdout.readline() == text
            running.send_signal(signal.SIGTERM)
        assert running.stdout.read() == ""
        error = running.stderr.read()
        assert running.wait() == 143
    assert error == "\nattn-zoo: stopped. Run the demonstration again to resume it.\n"


def test_a_process_that_leaves_says_nothing_more(monkeypatch, left):
    """An interrupt while Python exits would be a traceback; the system's own way of ending is quiet."""
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "argv", ["attn-zoo", "demo"])
    try:
        act(monkeypatch, lambda: None)
        assert cli.main() == 0 and signal.getsignal(signal.SIGINT) == signal.SIG_DFL and left.empty()
        signal.signal(signal.SIGINT, before)
        act(monkeypatch, lambda: signal.raise_signal(signal.SIGINT))
        assert cli.main() == 130 and left.get_nowait() == 130
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_closed_streams_are_one_line(refused, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    refused("standard input is closed", "translate", "model")
    monkeypatch.setattr(sys, "stdout", None)
    refused("standard output is closed", "systems")


def test_files_do_not_take_the_numbers_of_closed_streams(tmp_path):
    """Libraries write to descriptors 1 and 2: they would write into a file that was opened in their place."""
    script = """
import os
from keras_attn_zoo.cli.process import prepare_streams
try:
    prepare_streams()
except ValueError as error:
    said = str(error)
with open("out", "w") as file:
    print(file.fileno() > 2, said, file=file)
"""
    shell = f"{shlex.quote(sys.executable)} -c {shlex.quote(script)} <&- >&- 2>&-"
    subprocess.run(["sh", "-c", shell], cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert (tmp_path / "out").read_text().startswith("True standard output is closed")


@pytest.mark.parametrize("name", ["XDG_CACHE_HOME", "XDG_CONFIG_HOME"])
def test_matplotlib_is_quiet_where_its_folder_cannot_be_made(tmp_path, name):
    script = """
import os
from keras_attn_zoo.cli.process import prepare_matplotlib
prepare_matplotlib()
import matplotlib
print(matplotlib.get_cachedir() and matplotlib.get_configdir() == os.environ.get("MPLCONFIGDIR"))
"""
    (tmp_path / "file").write_text("")
    homes = {one: str(tmp_path / one) for one in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    paths = {"PYTHONPATH": os.getcwd(), "TMPDIR": str(tmp_path)}
    environment = {one: value for one, value in os.environ.items() if one != "MPLCONFIGDIR"} | homes | paths
    for home, expected in ((str(tmp_path / "new"), "False"), (str(tmp_path / "file" / "x"), "True")):
        command = [sys.executable, "-c", script]
        found = subprocess.run(command, env=environment | {name: home}, capture_output=True, text=True, check=True)
        assert (found.stdout.strip(), found.stderr) == (expected, "")
    assert not list(tmp_path.glob("matplotlib-*"))


def test_output_is_utf_8_whatever_the_locale(attn_zoo, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    # Half of a pair of surrogates, as a damaged file of JSON has it.
    act(monkeypatch, lambda: print("schön \ud83d"))
    assert attn_zoo("demo")[0] == 0
    assert written.getvalue() == "schön \\ud83d\n".encode()


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("sch\udcf6n", "argument 3 is not UTF-8: 'sch\\udcf6n'"),
        ("a\0b", "argument 3 contains a NUL character: 'a\\x00b'"),
    ],
)
def test_arguments_that_are_not_text(refused, argument, text):
    refused(text, "translate", "model", argument)
    refused("argument 4, of --input, ", "translate", "model", "--input", argument)


class ResourceExhaustedError(Exception):
    """As TensorFlow has it."""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (MemoryError(), "out of memory (MemoryError)"),
        (RuntimeError("RESOURCE_EXHAUSTED: 8 GB"), "out of memory (RuntimeError: RESOURCE_EXHAUSTED: 8 GB)"),
        (ResourceExhaustedError("OOM when\nallocating"), "out of memory (ResourceExhaustedError: OOM when)"),
        (OSError(errno.ENOSPC, "No space left on device", "served"), "cannot write served: No space left on device"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "out of memory"),
        (ImportError("libnix.so: failed to map segment from shared object", name="nix"), "out of memory (ImportError"),
        (ModuleNotFoundError("No module named 'nix'", name="nix"), "cannot import nix"),
        (OSError(errno.ELOOP, "Too many levels of symbolic links", "a\nb"), "cannot use a\\nb: Too many levels"),
        (OSError(errno.EBADF, "Bad file descriptor"), "cannot write: Bad file descriptor"),
        (UserError("no 'a\x1b[2J\nb'" + "c" * 9999), "no 'a\\x1b[2J\\nb'ccc"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_failures_of_the_environment_are_one_line(refused, monkeypatch, error, text):
    def fail():
        raise error

    act(monkeypatch, fail)
    refused(text, "demo")


def test_errors_of_the_program_are_not_hidden(attn_zoo, monkeypatch):
    for error in (ValueError("a bug"), RecursionError("a bug"), ImportError("a bug", name="keras_attn_zoo.nix")):

        def fail(error=error):
            raise error

        act(monkeypatch, fail)
        with pytest.raises(type(error), match="a bug"):
            attn_zoo("demo")


def test_a_library_that_breaks_while_it_is_imported(refused, monkeypatch, tmp_path):
    (tmp_path / "broken_library.py").write_text("raise TypeError('built for another version')\n")
    monkeypatch.syspath_prepend(tmp_path)
    act(monkeypatch, lambda: importlib.import_module("broken_library"))
    said = "cannot import broken_library (TypeError: built for another version): reinstall it, or choose another"
    refused(said, "demo")


def test_a_configuration_that_keras_cannot_use(tmp_path):
    (tmp_path / "keras.json").write_text('{"floatx": "float12"}')
    command = [sys.executable, "-m", "keras_attn_zoo", "evaluate", str(tmp_path), "--stored"]
    environment = {**os.environ, "KERAS_HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"Keras cannot read its configuration {tmp_path / 'keras.json'} (" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no such limit")
@pytest.mark.parametrize(
    ("kilobytes", "line", "said"),
    [
        *(
            (1_200_000, f"evaluate nix --backend {backend}", f"is limited to 1.2 GB, and {backend} needs")
            for backend in ("jax", "tensorflow", "torch")
        ),
        # It ends the process in the first steps of bahdanau.
        (
            5_000_000,
            "train --system bahdanau --run never --embedded --backend tensorflow",
            "is limited to 5.1 GB, and tensorflow needs 6.5 GB or more to train: raise",
        ),
    ],
)
def test_too_little_address_space_is_refused(kilobytes, line, said):
    """Under the limit, backends end the process without a word that helps, or hang."""
    script = f"ulimit -v {kilobytes}; exec {sys.executable} -m keras_attn_zoo {line}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert said in done.stderr and "ulimit -v" in done.stderr


def test_backend_choice(monkeypatch, tmp_path):
    backend = keras.config.backend()
    assert choose_backend(backend) == backend
    monkeypatch.setenv("KERAS_BACKEND", backend)
    assert choose_backend() == backend
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    script = "from keras_attn_zoo.support.backends import choose_backend; print(choose_backend())"

    def chosen(configured):
        (tmp_path / "keras.json").write_text(f'{{"backend": "{configured}"}}')
        environment = {key: value for key, value in os.environ.items() if key != "KERAS_BACKEND"}
        return subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert chosen("torch") == "torch"
    monkeypatch.setenv("KERAS_BACKEND", "nonsense")
    with pytest.raises(UserError, match="unknown backend 'nonsense' in KERAS_BACKEND: choose one of"):
        choose_backend()
    # Keras writes "tensorflow" by itself, so that says nothing: the fastest installed is taken.
    assert chosen("tensorflow") == "jax"
    with pytest.raises(UserError, match="unknown backend 'mxnet': choose one of jax, tensorflow, torch"):
        choose_backend("mxnet")

"""What the tests of the commands share: the command line run in this process, and a model that translates."""

import dataclasses
import queue
import signal

import pytest

from keras_attn_zoo import cli
from keras_attn_zoo.cli import commands, process
from keras_attn_zoo.runs import finished_run
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.run_folder import RunFolder

SENTENCES = ["rot haus", "hund geht blau", "katze"]


@pytest.fixture(autouse=True)
def signals_arrive():
    """What a shell has its background processes ignore, the commands leave ignored."""
    defaults = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in defaults.items()}
    yield
    for number, handler in before.items():
        # None: set by a library of C.
        signal.signal(number, handler or signal.SIG_DFL)


@pytest.fixture
def attn_zoo(capsys):
    """Run a command line; return status, output and error output."""

    def run(*arguments):
        status = cli.main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def refused(attn_zoo):
    """Run a command line of which one line says what is wrong, and nothing else is said."""

    def run(said, *arguments):
        status, output, error = attn_zoo(*arguments)
        assert (status, output, error.count("\n")) == (2, "", 1) and said in error, error

    return run


@pytest.fixture(scope="module")
def translations(trained):
    return [best[0].text for best in load_translator(trained).translate(SENTENCES)]


def act(monkeypatch, action):
    """Have the command `demo` do something else."""
    command = dataclasses.replace(commands.COMMANDS[0], run=lambda options: action())
    monkeypatch.setattr(commands, "COMMANDS", [command, *commands.COMMANDS[1:]])


@pytest.fixture
def left(monkeypatch):
    """A queue of the statuses with which a process would have ended at once."""
    statuses = queue.Queue()
    monkeypatch.setattr(process.os, "_exit", statuses.put)
    return statuses


@pytest.fixture
def any_preset(monkeypatch):
    """Have copies of a run loaded, whatever system they stand for."""
    monkeypatch.setattr("keras_attn_zoo.runs.loading.check_own_preset", lambda run: None)


@pytest.fixture
def no_pictures_of_runs(monkeypatch):
    """Have no run drawn, only what is compared: drawing takes longer than the rest of a command."""

    def draw(folder, translator, text, **options):
        path = RunFolder(folder).picture("curves")
        path.parent.mkdir(exist_ok=True)
        path.touch()
        return [path]

    monkeypatch.setattr(finished_run, "draw_run", draw)

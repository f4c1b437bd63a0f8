"""Two processes that run the command, one of which is lost; and runs to compare."""

import os
import shutil
import socket
import subprocess
import sys

import keras
import numpy as np

from keras_attn_zoo import cli
from keras_attn_zoo.devices import devices_of, using
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.training.run_log import read_log
from tests.tiny_run import TINY, interrupted_after, make_text

# Replicas of TensorFlow and processes of PyTorch draw random numbers of their own.
WITHOUT_NOISE = TINY.override(dropout=0.0, teacher_forcing=1.0)
# The command line, of which one process is killed, or finds the disk full, at its eighth step, in the third of four
# rounds: its arguments are what happens, to which process, under which variable's number, and the command's own.
LOST = """
import errno, os, signal, sys
import keras
from keras_attn_zoo import cli

end, taken = keras.callbacks.CallbackList.on_train_batch_end, []

def lost(self, *arguments, **named):
    taken.append(True)
    if len(taken) == 8 and sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if len(taken) == 8:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "log.jsonl")
    return end(self, *arguments, **named)

name, number = sys.argv[2].split("=")
if os.environ[name] == number and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
    keras.callbacks.CallbackList.on_train_batch_end = lost
sys.exit(cli.main(sys.argv[3:]))
"""
# Three steps a round.
SETTINGS = (
    "epochs=4 validations_per_epoch=1 sentences_per_batch=32 dropout=0.0 model_type=word vocabulary_size=none "
    "width=8 ffn_dim=16 num_heads=2 encoder_layers=1 decoder_layers=1"
)


def train_arguments(backend, folder, name):
    """Arguments of `attn-zoo` that train a run of this name in a folder, on the text of `make_text`."""
    text = folder / "text"
    if not text.exists():
        make_text(text)
    arguments = ["train", "--backend", backend, "--system", "transformer", "--small", "--run", str(folder / name)]
    for part in ("train", "valid", "test"):
        arguments += [f"--{part}", str(text / f"{part}.de"), str(text / f"{part}.en")]
    for setting in SETTINGS.split():
        arguments += ["--set", setting]
    return arguments


def command(arguments, environment=None, timeout=300):
    """Run a command line of Python; return status, output and errors."""
    found = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return found.returncode, found.stdout, found.stderr


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def two_of_jax():
    """The environments of two processes of JAX, with a device each."""
    address = f"127.0.0.1:{free_port()}"
    for number in range(2):
        names = {"JOB_ADDRESSES": address, "NUM_PROCESSES": "2", "PROCESS_ID": str(number)}
        yield {
            **os.environ,
            **{f"KERAS_DISTRIBUTION_{name}": value for name, value in names.items()},
            "XLA_FLAGS": "--xla_backend_optimization_level=0",
        }


def rounds(run):
    return [line["round"] for line in read_log(run / "log.jsonl") if "round" in line]


def check_log(run):
    """Compare the log of a run with that of one that is trained here, on one device in one go."""
    assert cli.main(train_arguments(keras.config.backend(), run.parent, "whole")) == 0
    compare_logs(run, run.parent / "whole")


def compare_logs(run, whole):
    """Compare the logs of a run and of one that was trained on one device in one go."""
    ours, wanted = (read_log(folder / "log.jsonl") for folder in (run, whole))
    assert len(ours) == len(wanted) > 0
    for line, other in zip(ours, wanted, strict=True):
        assert line.keys() == other.keys()
        for name in other.keys() - {"seconds", "elapsed_seconds"}:
            np.testing.assert_allclose(line[name], other[name], rtol=1e-3, atol=1e-5, err_msg=f"{other} {name}")


def check_averaged(corpus, folder):
    """Train with averages on two devices and on one, and compare the presets."""
    system = WITHOUT_NOISE.override(ema_momentum=0.75, average=2, epochs=1.0)
    one = train_system(system, corpus, folder / "one")
    with using(devices_of(2)):
        two = train_system(system, corpus, folder / "two")
    for preset in ("best", "average"):
        ours, wanted = (load_translator(run.path / preset).backbone.weights for run in (two, one))
        for weight, other in zip(ours, wanted, strict=True):
            np.testing.assert_allclose(*map(keras.ops.convert_to_numpy, (weight, other)), rtol=1e-3, atol=1e-5)


# JAX and TensorFlow keep the number of virtual devices that a process started with; PyTorch starts more processes.
ON_FOUR = """
import sys
from keras_attn_zoo.devices import devices_of, using
from keras_attn_zoo.runs.training import train_system
from tests.devices.runs import WITHOUT_NOISE
from tests.tiny_run import TINY, make_corpus

devices = devices_of(4)
assert devices.parts == 4
with using(devices):
    train_system(TINY if "noise" in sys.argv else WITHOUT_NOISE, make_corpus(), sys.argv[1], resume=True)
"""


def check_resumed(system, corpus, folder, *arguments):
    """Stop a run on two virtual devices, resume it on one and on four, and compare both with one that was not stopped.

    Args:
        system: that of `ON_FOUR` with these arguments.
        corpus, folder: the text, and a folder for the runs.
        *arguments: of `ON_FOUR`.
    """
    with using(devices_of(2)), interrupted_after(7):
        train_system(system, corpus, folder / "one")
    shutil.copytree(folder / "one", folder / "four")
    train_system(system, corpus, folder / "one", resume=True)
    on_four = ["-c", ON_FOUR, folder / "four", *arguments]
    status, _, error = command(on_four, {"XLA_FLAGS": "--xla_backend_optimization_level=0"})
    assert status == 0, error
    train_system(system, corpus, folder / "whole")
    for name in ("one", "four"):
        compare_logs(folder / name, folder / "whole")

"""Two processes of PyTorch, or four, give the numbers of one."""

import json
import shutil
import subprocess
import sys

import keras
import pytest

from keras_attn_zoo.runs.training import train_system
from tests.devices.law import OTHERS, check, numbers
from tests.devices.runs import ON_FOUR, WITHOUT_NOISE, compare_logs, rounds
from tests.devices.runs import command as run_program

if keras.config.backend() != "torch":
    pytest.skip("of PyTorch", allow_module_level=True)

# The command line of the processes: their numbers go to standard output.
PROGRAM = """
import tests.conftest
import json, sys
from keras_attn_zoo.devices import devices_of, leads, using
from tests.devices.law import OTHERS, numbers

devices = devices_of(2)
found = numbers(devices, **OTHERS.get(sys.argv[1], {"parts": 2}))
if leads():
    print(json.dumps(found))
"""


@pytest.mark.long
@pytest.mark.parametrize("name", ["transformer", *(pytest.param(other, marks=pytest.mark.slow) for other in OTHERS)])
def test_two_processes_give_the_numbers_of_one(name):
    command = [sys.executable, "-c", PROGRAM, name]
    found = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert found.returncode == 0, found.stderr
    wanted = numbers(None, **OTHERS.get(name, {"parts": 2}))
    check(json.loads(found.stdout), wanted, name)


# The second process is killed in the third of four rounds.
KILLED = """
import os, signal, sys
from keras_attn_zoo.devices import devices_of, using
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.translators import Translator
from tests.devices.runs import WITHOUT_NOISE
from tests.tiny_run import make_corpus

devices = devices_of(2)
step, taken = Translator.train_step, []

def die(self, *arguments):
    taken.append(True)
    if len(taken) == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, *arguments)

if not devices.leads:
    Translator.train_step = die
with using(devices):
    train_system(WITHOUT_NOISE, make_corpus(), sys.argv[1])
"""


@pytest.mark.slow
def test_a_run_whose_process_was_killed_resumes_on_one_and_on_four_to_the_numbers_of_one(corpus, tmp_path):
    command = [sys.executable, "-c", KILLED, tmp_path / "run"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=900)
    last = found.stderr.strip().splitlines()[-1]
    assert found.returncode == 1
    assert "process 1 of 2 lost another one (process 2 was ended by signal 9)" in last and "resume the run" in last
    assert rounds(tmp_path / "run") == [1, 2]
    shutil.copytree(tmp_path / "run", tmp_path / "four")
    train_system(WITHOUT_NOISE, corpus, tmp_path / "run", resume=True)
    status, _, error = run_program(["-c", ON_FOUR, tmp_path / "four"])
    assert status == 0, error
    train_system(WITHOUT_NOISE, corpus, tmp_path / "whole")
    for name in ("run", "four"):
        compare_logs(tmp_path / name, tmp_path / "whole")


@pytest.mark.slow
def test_a_comparison_of_two_processes_is_planned_trained_and_scored_again(tmp_path):
    """Whatever one process writes before the other looks for it must not part their ways."""
    compare = ["-m", "keras_attn_zoo", "compare", "--backend", "torch", "--devices", "2", "--out", tmp_path / "runs"]
    compare += ["--systems", "uniform", "--scale", "smoke", "--set", "epochs=1"]
    for more, wanted in ((["--plan"], "| to do |"), ([], "case:mixed"), (["--lowercase"], "case:lc")):
        status, output, error = run_program([*compare, *more])
        assert status == 0, error
        assert wanted in output

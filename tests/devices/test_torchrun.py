"""The command under `torchrun`, as docs/how-to/devices.md has it."""

import itertools
import os
import re
import shlex
from pathlib import Path

import keras
import pytest

from tests.devices.runs import LOST, check_log, command, free_port, rounds, train_arguments

if keras.config.backend() != "torch":
    pytest.skip("of PyTorch", allow_module_level=True)

import torch
import torch.distributed as dist

from keras_attn_zoo.devices import processes
from keras_attn_zoo.support.errors import UserError

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "devices.md"
TORCHRUN = ("-m", "torch.distributed.run")


def documented(number):
    """The options of a torchrun in the documentation, for two processes of this machine, and what they run."""
    blocks = re.findall(r"^torchrun .*?^```", DOCS.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    words = shlex.split(blocks[number].removesuffix("```").replace("\\\n", " "))
    here = {"--nnodes": "1", "--nproc-per-node": "2", "--rdzv-endpoint": f"localhost:{free_port()}"}
    end = words.index("keras_attn_zoo")
    options = [here.get(before, word) for before, word in itertools.pairwise(words[:end])]
    return options, words[end:]


@pytest.mark.slow
def test_the_documented_command_gives_the_numbers_of_one_process(tmp_path):
    options, words = documented(0)
    ours = train_arguments("torch", tmp_path, "run")
    assert words[:2] == ["keras_attn_zoo", "train"]
    assert {word for word in words if word.startswith("--")} <= set(ours)
    status, output, error = command([*TORCHRUN, *options, "keras_attn_zoo", *ours])
    assert status == 0, error
    # One process writes.
    assert output.count("| system") == 1 and error.count("round 4/4") == 1
    check_log(tmp_path / "run")


@pytest.mark.slow
def test_torchrun_restarts_a_run_whose_process_was_killed(tmp_path):
    script = tmp_path / "lost.py"
    script.write_text(LOST, encoding="utf-8")
    ours = train_arguments("torch", tmp_path, "run")
    options, words = documented(1)
    assert words[-1] == "--resume" and options[-2:] == ["-m", "--"]
    fresh_addresses = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    lost = [*TORCHRUN, *options[:-2], "--", script, "killed", "RANK=1"]
    status, _, error = command([*lost, *ours, "--resume"], fresh_addresses)
    assert status == 0, error
    assert "exitcode: -9" in error and error.count("round 4/4") == 1
    assert rounds(tmp_path / "run") == [1, 2, 3, 4]
    check_log(tmp_path / "run")


# The leading process computes; the other one is killed.
WAITING = """
import os, signal, time
from keras_attn_zoo.devices import devices_of, using

devices = devices_of(2)
with using(devices):
    if not devices.leads:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(120)
"""


@pytest.mark.slow
def test_a_process_that_would_wait_forever_ends_with_one_line():
    """So it would with NCCL, whose sums wait for a process that has ended."""
    status, _, error = command(["-c", WAITING], timeout=60)
    (line,) = [line for line in error.splitlines() if "error" in line]
    assert status == 2 and "process 1 of 2 lost another one (process 2 was ended by signal 9)" in line


@pytest.mark.parametrize(
    "count, said",
    [(4, "cpu:gloo,cuda:nccl"), (0, "gloo"), (1, "there are 1 GPUs for 2 processes: start one process per GPU.")],
)
def test_each_process_of_torchrun_takes_its_own_gpu(monkeypatch, count, said):
    """The second of the second machine, without GPUs to try it on."""
    taken, joined = [], []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setattr(dist, "init_process_group", lambda backend, timeout: joined.append(backend))
    monkeypatch.setattr(dist, "get_rank", lambda: 3)
    monkeypatch.setattr(dist, "get_world_size", lambda: 4)
    for name, value in {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    if count == 1:
        with pytest.raises(UserError, match=said):
            processes.processes_of(None)
        return
    devices = processes.processes_of(None)
    assert joined == [said] and taken == ([1] if count else [])
    assert (devices.process, devices.processes) == (3, 4) and not devices.leads


def test_no_more_processes_are_started_than_a_machine_bears(monkeypatch):
    monkeypatch.setattr(processes, "_Worker", None)
    most = max(8, os.cpu_count())
    with pytest.raises(UserError, match=f"^there are {most} devices, not 1000: give --devices {most}, or all"):
        processes.processes_of(1000)


def test_processes_that_cannot_join_say_what_to_do(monkeypatch):
    def refuse(backend, timeout):
        raise RuntimeError("Gloo connectFullMesh failed with [gloo/tcp/pair.cc:152] timed out connecting: refused")

    monkeypatch.setattr(dist, "init_process_group", refuse)
    monkeypatch.setenv("WORLD_SIZE", "2")
    wanted = r"failed with timed out connecting: refused\).*--max-restarts, set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
    with pytest.raises(UserError, match=wanted):
        processes.processes_of(None)

"""Devices under PyTorch: one process for each, which add up sums and gradients by `torch.distributed`."""

import contextlib
import datetime
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import torch
import torch.distributed as dist

from keras_attn_zoo.devices.context import SEEDS_APART, Devices, first_sentence
from keras_attn_zoo.support.backends import parts_of_processor
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.types import Tensor, TensorTree

# Number, count, port and parent of a process that the leading one has started.
_WORKER = "KERAS_ATTN_ZOO_WORKER"
# The others wait while the leading process trains subwords and encodes the corpus; a process that ends is seen at once.
_PATIENCE = datetime.timedelta(hours=24)
# Seconds that processes get to end by themselves when their work is done.
_GRACE = 5.0
_HOST = "127.0.0.1"


class Processes(Devices):
    """Processes with a device each, of one machine or of several.

    `torchrun` starts them, or else the leading process starts the others, which run its command line again.

    Args:
        workers: the processes that this one has started.
    """

    def __init__(self, workers: Sequence["_Worker"] = ()) -> None:
        self.process, self.processes = dist.get_rank(), dist.get_world_size()
        self.parts = self.processes
        self._workers = workers

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Leave the group in the end; what this process has started ends with it."""
        threads = torch.get_num_threads()
        if not torch.cuda.is_available():
            here = int(os.environ.get("LOCAL_WORLD_SIZE") or self.processes)
            torch.set_num_threads(max(1, threads // here))
        patience, ended = 0.0, threading.Event()
        if self._workers:
            threading.Thread(target=self._watch, args=(ended,), daemon=True).start()
        try:
            yield
            self.wait()
            patience = _GRACE
        finally:
            ended.set()
            torch.set_num_threads(threads)
            for worker in self._workers:
                worker.end(patience)
            dist.destroy_process_group()

    def gather(self, rows: TensorTree) -> TensorTree:
        """Return the rows that all processes have computed, in order, on every process."""

        def joined(x):
            # As bytes, which all data types are.
            mine = torch.from_numpy(np.ascontiguousarray(x).reshape(-1).view("uint8"))
            parts = [torch.empty_like(mine) for _ in range(self.processes)]
            with self._talking():
                dist.all_gather(parts, mine)
            return np.concatenate([part.numpy().view(x.dtype).reshape(x.shape) for part in parts])

        return keras.tree.map_structure(joined, rows)

    def sum(self, tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Return the sums of tensors over all processes; None where there is no tensor."""
        given = [tensor for tensor in tensors if tensor is not None]
        summed: dict[int, Tensor] = {}
        for dtype in dict.fromkeys(tensor.dtype for tensor in given):
            ours = [tensor for tensor in given if tensor.dtype == dtype]
            # One message, since each costs the time of a round trip.
            flat = torch.cat([tensor.reshape(-1) for tensor in ours])
            with self._talking():
                dist.all_reduce(flat)
            for tensor, piece in zip(ours, flat.split([tensor.numel() for tensor in ours]), strict=True):
                summed[id(tensor)] = piece.view(tensor.shape)
        return [None if tensor is None else summed[id(tensor)] for tensor in tensors]

    def wait(self) -> None:
        """Wait until all processes are here."""
        with self._talking():
            dist.all_reduce(torch.zeros(1))

    def broadcast(self, data: bytes) -> bytes:
        """Return the bytes that the leading process gave."""
        size = torch.tensor([len(data)])
        with self._talking():
            dist.broadcast(size, 0)
            buffer = torch.zeros(int(size), dtype=torch.uint8)
            if self.leads:
                buffer[:] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            dist.broadcast(buffer, 0)
        return buffer.numpy().tobytes()

    def separate_noise(self, model: Any) -> None:
        """Let each process draw other random numbers in the seed generators of a model."""
        for variable in model.non_trainable_variables if self.process else ():
            if variable.path.endswith("seed_generator_state"):
                variable.assign(variable + np.array([SEEDS_APART * self.process, 0]))

    @contextlib.contextmanager
    def _talking(self) -> Iterator[None]:
        """Report a process that no longer answers."""
        try:
            yield
        except RuntimeError as error:
            raise self.lost_another(self._dead_worker() or first_sentence(error)) from None

    def _watch(self, ended):
        """End this process if another one of this machine has ended, and NCCL, unlike gloo, waits for it forever."""
        while not ended.wait(1):
            if (why := self._failure()) is not None and not ended.wait(_GRACE):
                print(f"error: {self.lost_another(why)}", file=sys.stderr, flush=True)
                for worker in self._workers:
                    worker.end(0)
                os._exit(2)

    def _failure(self):
        return next((why for worker in self._workers if (why := worker.failure()) is not None), None)

    def _dead_worker(self):
        # What it wrote before it ended is more telling than a closed connection.
        for _ in range(100 if self._workers else 0):
            if (why := self._failure()) is not None:
                return why
            time.sleep(0.1)
        return None


class _Worker:
    """A process that runs this one's command line again, silently."""

    def __init__(self, number, count, port):
        self.number = number
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115
        environment = {**os.environ, _WORKER: f"{number}/{count}/{port}/{os.getpid()}"}
        self._process = subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._messages,
            env=environment,
        )

    def failure(self):
        """Return why the process has ended; None if it has not, or has done its work."""
        status = self._process.poll()
        if not status:
            return None
        if status < 0:
            return f"process {self.number + 1} was ended by signal {-status}"
        self._messages.seek(0)
        lines = self._messages.read().decode(errors="replace").strip().splitlines()
        return f"process {self.number + 1} failed: {lines[-1]}" if lines else f"process {self.number + 1} failed"

    def end(self, patience):
        """Wait up to this many seconds, then end the process."""
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._messages.close()


def processes_of(count: int | None) -> Processes | None:
    """Return this many processes, or one per GPU for None; None if that is a single one.

    Args:
        count: number of processes; on a CPU, they share its cores.

    Raises:
        UserError: there are fewer GPUs; `torchrun` has started another number.
    """
    if worker := os.environ.get(_WORKER):
        number, count, port, parent = map(int, worker.split("/"))
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        _join(number, count, port)
        return Processes()
    started = int(os.environ.get("WORLD_SIZE") or 1)
    if started > 1:
        if count not in (None, started):
            raise UserError(f"torchrun has started {started} processes, not {count}: leave out --devices.")
        _take_device(int(os.environ.get("LOCAL_RANK") or 0))
        try:
            dist.init_process_group(backends(), timeout=_PATIENCE)
        except RuntimeError as error:
            # By default, the processes of a restart find the addresses of those before.
            raise UserError(
                f"the {started} processes cannot reach each other ({first_sentence(error)}): check --rdzv-endpoint and "
                "the network; with --max-restarts, set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1."
            ) from None
        return Processes()
    gpus = torch.cuda.is_available()
    available = torch.cuda.device_count() if gpus else parts_of_processor(count or 1)
    count = count or available
    if count > available:
        what = "GPUs" if gpus else "devices"
        raise UserError(f"there are {available} {what}, not {count}: give --devices {available}, or all.")
    if count == 1:
        return None
    # The system chooses a free port.
    store = dist.TCPStore(_HOST, 0, count, is_master=True, wait_for_workers=False, timeout=_PATIENCE)
    workers = [_Worker(number, count, store.port) for number in range(1, count)]
    _join(0, count, store=store)
    return Processes(workers)


def _join(number, count, port=None, store=None):
    """Join the processes of this machine."""
    # A machine need not know its own name.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    _take_device(number)
    store = store or dist.TCPStore(_HOST, port, count, is_master=False, timeout=_PATIENCE)
    dist.init_process_group(backends(), store=store, rank=number, world_size=count, timeout=_PATIENCE)


def backends() -> str:
    """Return what adds up tensors on a CPU, and on GPUs where there are any."""
    return "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"


def _take_device(number):
    if not torch.cuda.is_available():
        return
    if number >= (available := torch.cuda.device_count()):
        raise UserError(f"there are {available} GPUs for {number + 1} processes: start one process per GPU.")
    torch.cuda.set_device(number)


def _end_with(parent):
    """End this process when the one that started it is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)

"""The devices that share the rows of every batch, and how rows are divided among them."""

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import keras
import numpy as np

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import discarding_output
from keras_attn_zoo.support.types import TensorTree

# Between the seeds of two devices: more than the layers of a model.
SEEDS_APART = 0x1000003
_CURRENT: list["Devices"] = []
_Plain = TypeVar("_Plain")


class Devices:
    """Several devices, of this process or of several processes, that share the rows of every batch.

    All processes run the same program on the same batches; each computes its own rows. The loss and its gradient
    are sums over tokens divided once, so that N devices give the numbers of one.

    A subclass adds what its backend needs. Outside `using`, there is one device and nothing to share.

    Attributes:
        parts: how many parts the rows of a batch are divided into.
        processes: how many processes there are.
        process: the number of this one, from 0; the first leads: it alone writes files and messages.
    """

    parts = 1
    processes = 1
    process = 0

    def lost_another(self, why: str) -> UserError:
        """Return the error for a process that no longer answers."""
        return UserError(
            f"process {self.process + 1} of {self.processes} lost another one ({why}): what was saved after the last "
            "round is kept; resume the run when the processes can run again."
        )

    @property
    def leads(self) -> bool:
        """Whether this process writes files and messages."""
        return self.process == 0

    def share(self, batch: tuple[TensorTree, np.ndarray, np.ndarray]) -> tuple[TensorTree, np.ndarray, np.ndarray]:
        """Return this process's rows of a batch `(x, y, weights)`, filled up with rows of weight zero."""
        x, y, weights = batch
        missing = -len(y) % self.parts
        filled = self.fill((x, y))
        weights = np.concatenate([weights, np.zeros((missing, *weights.shape[1:]), weights.dtype)])
        return self.own((*filled, weights))

    def fill(self, rows: TensorTree) -> TensorTree:
        """Fill arrays up with copies of their last row until every part has equally many rows."""

        def filled(x):
            missing = -len(x) % self.parts
            return np.concatenate([x, np.repeat(x[-1:], missing, axis=0)]) if missing else x

        return keras.tree.map_structure(filled, rows)

    def own(self, rows: TensorTree) -> TensorTree:
        """Return this process's rows of arrays that are filled up."""

        def block(x):
            size = len(x) // self.processes
            return x[self.process * size : (self.process + 1) * size]

        return rows if self.processes == 1 else keras.tree.map_structure(block, rows)

    def gather(self, rows: TensorTree) -> TensorTree:
        """Return the rows that all processes have computed, in order, on every process."""
        return rows

    def over_rows(self, function: Callable[..., TensorTree]) -> Callable[..., TensorTree]:
        """Return a function that divides the rows of its arguments among the devices of this process.

        Args:
            function: function of a tree that belongs to all rows, such as weights, and of trees of rows; its results
                have equally many rows for each row of its arguments.
        """
        return function

    def wait(self) -> None:
        """Wait until all processes are here."""

    def from_leader(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield in all processes what an iterable yields in the leading one: plain data."""
        if self.processes == 1:
            yield from items
        elif self.leads:
            for item in items:
                self.broadcast(json.dumps([item]).encode())
                yield item
            self.broadcast(b"[]")
        else:
            while received := json.loads(self.broadcast(b"")):
                yield received[0]

    def separate_noise(self, model: Any) -> None:
        """Let the parts of a batch draw different random numbers in a model that is about to be trained."""

    def broadcast(self, data: bytes) -> bytes:
        """Return the bytes that the leading process gave."""
        return data

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Make the backend use the devices."""
        yield


def first_sentence(error: BaseException) -> str:
    """Return what a library in C++ says of an error, without the place in its sources.

    Example:
        >>> first_sentence(RuntimeError("[gloo/tcp/pair.cc:553] Connection closed by peer. Check the logs."))
        'Connection closed by peer'
    """
    text = re.sub(r"\[\S+\.(cc|cpp|h):\d+\] ", "", str(error) or type(error).__name__)
    return text.split(". ")[0].splitlines()[0]


def current() -> Devices | None:
    """Return the devices in use, or None for a single one."""
    return _CURRENT[-1] if _CURRENT else None


def leads() -> bool:
    """Return whether this process writes files and messages."""
    return not _CURRENT or _CURRENT[-1].leads


def wait() -> None:
    """Wait until all processes are here, so that each finds what the leading one has written."""
    if _CURRENT:
        _CURRENT[-1].wait()


def agreed(decision: _Plain) -> _Plain:
    """Return the leading process's decision, plain data, in all processes.

    Let them agree on whatever depends on the machine, or on files that the leading process may have changed before
    another one looks.

    Example:
        >>> agreed(True)
        True
    """
    if not _CURRENT or _CURRENT[-1].processes == 1:
        return decision
    return json.loads(_CURRENT[-1].broadcast(json.dumps(decision).encode()))


@contextlib.contextmanager
def using(devices: Devices | None) -> Iterator[None]:
    """Use several devices, or one for None: models built, trained and searched here share their batches among them."""
    if devices is None:
        yield
        return
    writing = contextlib.nullcontext() if devices.leads else discarding_output()
    with devices.scope(), writing:
        _CURRENT.append(devices)
        try:
            yield
        finally:
            _CURRENT.remove(devices)


@contextlib.contextmanager
def leader_first() -> Iterator[None]:
    """Let the leading process run the body, then the others, which find what it wrote; then all go on.

    Example:
        >>> with leader_first():
        ...     data = prepare_data(corpus, settings, folder)  # doctest: +SKIP
    """
    devices = current()
    if devices is not None and not devices.leads:
        devices.wait()
    yield
    if devices is not None:
        if devices.leads:
            devices.wait()
        devices.wait()

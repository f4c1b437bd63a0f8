"""The log of a training run: a line of JSON per step and per round."""

import contextlib
import json
import math
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_attn_zoo.devices import wait
from keras_attn_zoo.evaluation.timing import CompilationClock
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import (
    PathLike,
    check_size,
    discards_output,
    open_input,
    open_output,
    read_failed,
    reason_of,
    shown,
)
from keras_attn_zoo.support.types import Logs

# Training cannot continue once one of these is NaN or infinite.
_FINITE = ("loss", "gradient_norm", "val_loss")
# Bytes of a log, of millions of steps, and of one of its lines, which have hundreds.
_LARGEST, _LONGEST_LINE = 2**30, 2**20


class RunLog(keras.callbacks.Callback):
    """Write the figures of every step and every round as lines of JSON.

    Use it to draw curves and to time a run. A resumed run continues the file: lines of steps that will be repeated are
    removed first. A loss or gradient that is not finite stops training before anything is saved.

    Lines: `{"step": n, "loss": ..., "gradient_norm": ..., "learning_rate": ..., "seconds": ...}` per step, with the
    figures of its own batch, and `{"round": r, "step": n, "val_loss": ..., ...}` per round. A step also has the
    `elapsed_seconds` since the first step of its call of `fit` began. They tell where a process, which compiles again,
    took over, and are a wall time: a resumed run has the lines of an uninterrupted one in all else.

    Args:
        path: file to write.
        batches: the `TranslationBatches` that are trained on; their shapes separate compilation from running.

    Attributes:
        last: the line of the last step, as a dict.

    Raises:
        UserError: training has reached NaN or infinity; the file cannot be written.

    Example:
        >>> model.fit(**fit_arguments(batches), callbacks=[RunLog("log.jsonl", batches)])  # doctest: +SKIP
    """

    def __init__(self, path: PathLike, batches: Any) -> None:
        super().__init__()
        self.path = Path(path)
        self.batches = batches

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Open the file, and remove lines that will be written again."""
        self.step = self._first = self.batches.round * len(self.batches)
        kept = [line for line in read_log(self.path) if line["step"] <= self.step] if self.path.exists() else []
        with open_output(self.path) as file:
            file.write("".join(json.dumps(line) + "\n" for line in kept).encode())
        path = Path(os.devnull) if discards_output() else self.path
        self._file = path.open("a", encoding="utf-8")
        wait()

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Start the clock of a step."""
        self._began = time.perf_counter()
        if self.step == self._first:
            self._fit_began = self._began

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Write a step."""
        numbers = {name: float(value) for name, value in logs.items()}
        now = time.perf_counter()
        self._check_finite(numbers, self.step + 1)
        # Batches are counted from the round in which `fit` began.
        shape = self.batches.bound(self.step - self._first)
        self.step += 1
        learning_rate = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        times = {"seconds": now - self._began, "elapsed_seconds": now - self._fit_began}
        figures = {"learning_rate": learning_rate, **times, "shape": shape}
        self.last = {"step": self.step, **numbers, **figures}
        self._write(self.last)

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Write a round."""
        numbers = {name: float(value) for name, value in logs.items()}
        self._check_finite(numbers, self.step)
        self._write({"round": epoch + 1, "step": self.step, **numbers})
        with self._named():
            self._file.flush()
            if not discards_output():
                # Before the state, without which it may be: what was trained must have been logged.
                os.fsync(self._file.fileno())

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Close the file."""
        with self._named():
            self._file.close()

    def _check_finite(self, numbers, step):
        """Raise if a figure is not finite; the files on disk are older."""
        wrong = next((name for name in _FINITE if not math.isfinite(numbers.get(name, 0.0))), None)
        if wrong is None:
            return
        self._file.close()
        rounds = (step - 1) // len(self.batches)
        kept = f"the state after round {rounds} is kept" if rounds else "no round was complete"
        learning_rate = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        raise UserError(
            f"training stopped at step {step}, where {wrong} is {numbers[wrong]}: {kept}. Try a lower learning_rate "
            f"(now {learning_rate:g}), a smaller clip_norm or more warmup_steps, in another run folder."
        )

    def _write(self, line):
        # JSON has no infinity, and a perplexity may overflow although its loss is finite.
        line = {k: v if not isinstance(v, float) or math.isfinite(v) else None for k, v in line.items()}
        with self._named():
            self._file.write(json.dumps(line) + "\n")

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Let an error of the disk name the file."""
        try:
            yield
        except OSError as error:
            raise UserError(
                f"cannot write {shown(self.path)}: {reason_of(error)}. Free some space, then resume."
            ) from None


def read_log(path: PathLike) -> list[dict[str, Any]]:
    """Read the lines of a `RunLog`, without a last line cut short by a kill; numbers that are not finite become None.

    Raises:
        UserError: there is no such file, or it is not a log.
    """
    check_size(path, _LARGEST)
    records: list[dict[str, Any]] = []
    with open_input(path) as file:
        lines = iter(lambda: file.readline(_LONGEST_LINE + 1), b"")
        try:
            _read_records(path, lines, records)
        except (OSError, MemoryError) as error:
            raise read_failed(path, error) from None
    return records


def _read_records(path, lines, records):
    for number, line in enumerate(lines, start=1):
        if len(line) > _LONGEST_LINE:
            raise UserError(f"{shown(path)} line {number} has more than {_LONGEST_LINE:,} bytes: the log is damaged.")
        try:
            record = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise UserError(f"{shown(path)} is not UTF-8 ({error.reason}): the log is damaged.") from None
        except (ValueError, RecursionError):
            # Only the last line has no end.
            if not line.endswith(b"\n"):
                break
            raise UserError(f"{shown(path)} line {number} is not JSON: the log is damaged.") from None
        if not _is_record(record):
            raise UserError(f"{shown(path)} line {number} is neither a step nor a round: the log is damaged.")
        records.append({k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()})


def read_steps(path: PathLike) -> list[dict[str, Any]]:
    """Read the lines of the steps alone; see `read_log`."""
    return [line for line in read_log(path) if "shape" in line]


def clock_of(steps: Iterable[dict[str, Any]]) -> CompilationClock:
    """Return a clock of the steps in a log, by their shapes.

    Logs of earlier versions do not tell where a run was resumed: all their steps count as those of one process.

    Example:
        >>> clock_of([{"shape": [8, 8], "seconds": 5.0}, {"shape": [8, 8], "seconds": 1.0}]).steady
        2.0
    """
    clock = CompilationClock()
    for step in steps:
        # Both begin with the first step, and with no other.
        if step.get("elapsed_seconds") == step["seconds"]:
            clock.begin_process()
        clock.record(tuple(step["shape"]), step["seconds"])
    return clock


def _is_record(record):
    """Whether a value has the fields that readers of a log expect of a line."""
    if not isinstance(record, dict) or type(record.get("step")) is not int:
        return False
    numbers = {name: value for name, value in record.items() if name != "shape"}
    if not all(value is None or type(value) in (int, float) for value in numbers.values()):
        return False
    # What no float holds, nothing computes with.
    if any(type(value) is int and abs(value) > 2**63 for value in numbers.values()):
        return False
    if "round" in record:
        return type(record["round"]) is int
    shape = record.get("shape")
    is_shape = isinstance(shape, list) and all(type(size) is int for size in shape)
    return is_shape and all(
        type(value) in (int, float) and 0 <= value < math.inf for value in map(record.get, ("seconds", "tokens"))
    )

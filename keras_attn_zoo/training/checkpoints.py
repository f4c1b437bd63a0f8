"""The checkpoints of a training: presets of the last and of the best rounds."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_attn_zoo.devices import leads
from keras_attn_zoo.support.files import PathLike, atomic_path, remove
from keras_attn_zoo.support.types import Logs
from keras_attn_zoo.training.run_log import read_log


class Checkpoints(keras.callbacks.Callback):
    """Save every round as a preset, and keep the last and the best of them.

    Use it to average weights of several rounds. What is kept follows from the log alone, so a resumed run keeps the
    same. A round that ends early, since a budget is spent, is not saved. Put it after the log.

    Args:
        folder: where the presets are written, see `checkpoint_name`.
        log: path of the `RunLog`.
        batches: the `TranslationBatches` that are trained on.
        monitor: "val_bleu", of which more is better, or a loss.
        last, best: how many rounds are kept.
        first: rounds up to this one are left out, counted from 1: those before a model has all its layers.

    Example:
        >>> callbacks = [log, Checkpoints("checkpoints", log.path, batches, last=5)]  # doctest: +SKIP
    """

    def __init__(
        self,
        folder: PathLike,
        log: PathLike,
        batches: Any,
        monitor: str = "val_loss",
        last: int = 0,
        best: int = 0,
        first: int = 0,
    ) -> None:
        super().__init__()
        self.folder, self.log, self.batches = Path(folder), log, batches
        self.monitor, self.last, self.best, self.first = monitor, last, best, first

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Read the figures of earlier rounds."""
        self._figures = figures_of_rounds(self.log, self.monitor)

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Save the round; remove those that are now neither among the last nor among the best."""
        number = epoch + 1
        if number <= self.first or ends_early(self.model, self.batches, epoch):
            return
        self._figures[number] = float(logs[self.monitor])
        rounds = {one: figure for one, figure in self._figures.items() if one > self.first}
        kept = {*last_rounds(rounds, self.last), *best_rounds(rounds, self.best, self.monitor)}
        if not leads():
            return
        if number in kept:
            with atomic_path(self.folder / checkpoint_name(number)) as aside:
                self.model.save_to_preset(str(aside))
        for one in rounds.keys() - kept:
            remove(self.folder / checkpoint_name(one))


def checkpoint_name(number: int) -> str:
    """Return the name of the preset of a round.

    Example:
        >>> checkpoint_name(12)
        'round-12'
    """
    return f"round-{number}"


def figures_of_rounds(log: PathLike, monitor: str) -> dict[int, float]:
    """Return a figure of every round in a `RunLog` that has as many steps as the first; NaN if it is not finite."""
    rounds = [line for line in read_log(log) if "round" in line]
    whole = [line for line in rounds if line["step"] == line["round"] * rounds[0]["step"]]
    return {line["round"]: math.nan if (figure := line.get(monitor)) is None else figure for line in whole}


def last_rounds(rounds: Iterable[int], count: int) -> list[int]:
    """Return the last rounds, the latest one last.

    Example:
        >>> last_rounds([1, 2, 3], 2)
        [2, 3]
    """
    return sorted(rounds)[-count:] if count else []


def best_rounds(figures: Mapping[int, float], count: int, monitor: str) -> list[int]:
    """Return the best rounds by a figure, the best one first; of equal ones, the earlier.

    Example:
        >>> best_rounds({1: 3.0, 2: 2.0, 3: 2.5}, 2, "val_loss")
        [2, 3]
    """
    finite = [number for number, figure in figures.items() if math.isfinite(figure)]
    return sorted(finite, key=lambda number: (sign_of(monitor) * figures[number], number))[:count]


def sign_of(monitor: str) -> float:
    """Return by what a figure is multiplied so that less is better."""
    return -1.0 if monitor == "val_bleu" else 1.0


def ends_early(model: keras.Model, batches: Any, epoch: int) -> bool:
    """Return whether a round ends before its last batch, as one does in which a budget is spent."""
    return int(ops.convert_to_numpy(model.optimizer.iterations)) < (epoch + 1) * len(batches)

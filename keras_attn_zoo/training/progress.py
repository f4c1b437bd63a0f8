"""Progress of training: a message for each round, and a bar of the steps."""

import logging
import time
from collections.abc import Callable
from typing import Any

import keras

from keras_attn_zoo.support.types import Logs

_LOG = logging.getLogger(__name__)


class Progress(keras.callbacks.Callback):
    """Report each round through `logging`, and each step in a progress bar.

    Args:
        batches: the `TranslationBatches` that are trained on.
        rounds: total number of rounds; None if unknown.
        name: the prefix of every message.
        show: function of the number of steps done and a text, see `progress_bar`; None shows no steps.
    """

    def __init__(
        self, batches: Any, rounds: int | None, name: str = "", show: Callable[..., None] | None = None
    ) -> None:
        super().__init__()
        self.batches, self.rounds, self.name, self.show = batches, rounds, name, show

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Continue counting from the steps done before."""
        self._steps = self.batches.round * len(self.batches)

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Start the clock of a round."""
        self._round, self._round_began, self._tokens = epoch, time.perf_counter(), 0.0

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Show a step."""
        self._steps += 1
        if self.show is None:
            return
        self._tokens += float(logs["tokens"])
        speed = self._tokens / (time.perf_counter() - self._round_began)
        text = f"{self._label()}, loss {float(logs['loss']):.3f}, {speed:.0f} tokens/s"
        self.show(self._steps, text)

    def _label(self):
        return f"round {self._round + 1}" + (f"/{self.rounds}" if self.rounds else "")

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Report a round."""
        seconds = time.perf_counter() - self._round_began
        numbers = [f"loss {logs['loss']:.3f}"]
        if "alignment_loss" in logs:
            numbers.append(f"alignment loss {logs['alignment_loss']:.3f}")
        if "val_loss" in logs:
            numbers.append(f"valid loss {logs['val_loss']:.3f}  perplexity {logs['val_perplexity']:.2f}")
        if "val_bleu" in logs:
            numbers.append(f"BLEU {logs['val_bleu']:.1f}")
        label = f"{self.name}  {self._label()}".strip()
        _LOG.info("%s  %s  %s", label, "  ".join(numbers), clock_time(seconds))


def parameter_count(parameters: float) -> str:
    """Write a number of parameters in millions, or exactly if there are few.

    Example:
        >>> parameter_count(2_240_000), parameter_count(34_176)
        ('2.2 M', '34,176')
    """
    return f"{parameters / 1e6:,.1f} M" if parameters >= 1e5 else f"{round(parameters):,}"


def clock_time(seconds: float) -> str:
    """Write seconds as minutes and seconds, or hours and minutes.

    Example:
        >>> clock_time(83)
        '1:23'
    """
    seconds = round(seconds)
    if seconds >= 3600:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02d}"
    return f"{seconds // 60}:{seconds % 60:02d}"

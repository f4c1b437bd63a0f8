"""Progress of training on the terminal: one line that moves, one that stays a round."""

import sys
import time

import keras


class Progress(keras.callbacks.Callback):
    """Show step, loss, speed and the time that is left.

    On a terminal a line moves with every step; elsewhere, as in a log file,
    only the line of each round is written.

    Args:
        batches: the `TranslationBatches` that are trained on.
        rounds: number of rounds in all.
        name: what stands before every line.
        stream: where to write; by default the standard error stream.
    """

    def __init__(self, batches, rounds, name="", stream=None):
        super().__init__()
        self.batches, self.rounds, self.name = batches, rounds, name
        self.stream = stream or sys.stderr
        self.moves = self.stream.isatty()

    def on_train_begin(self, logs=None):
        """Start the clock."""
        self._steps_before = self.batches.round * len(self.batches)
        self._began, self._steps = time.perf_counter(), 0

    def on_epoch_begin(self, epoch, logs=None):
        """Start the clock of a round."""
        self._round, self._round_began, self._tokens = epoch, time.perf_counter(), 0.0

    def on_train_batch_end(self, batch, logs=None):
        """Show a step."""
        self._steps += 1
        if not self.moves:
            return
        self._tokens += float(logs["tokens"])
        speed = self._tokens / (time.perf_counter() - self._round_began)
        done = self._steps_before + self._steps
        left = (self.rounds * len(self.batches) - done) * (time.perf_counter() - self._began) / self._steps
        self._show(
            f"{self._label(self._round)}  step {done}/{self.rounds * len(self.batches)}  "
            f"loss {float(logs['loss']):.3f}  {speed:.0f} tokens/s  {clock_time(left)} left",
            end="\r",
        )

    def on_epoch_end(self, epoch, logs=None):
        """Leave the line of a round."""
        seconds = time.perf_counter() - self._round_began
        numbers = [f"loss {logs['loss']:.3f}"]
        if "val_loss" in logs:
            numbers.append(f"valid loss {logs['val_loss']:.3f}  perplexity {logs['val_perplexity']:.2f}")
        if "val_bleu" in logs:
            numbers.append(f"BLEU {logs['val_bleu']:.1f}")
        self._show(f"{self._label(epoch)}  {'  '.join(numbers)}  {clock_time(seconds)}", end="\n")

    def _label(self, epoch):
        return f"{self.name}  round {epoch + 1}/{self.rounds}".strip()

    def _show(self, text, end):
        clear = "\x1b[2K" if self.moves else ""
        self.stream.write(f"{clear}{text}{end}")
        self.stream.flush()


def clock_time(seconds):
    """Write seconds as minutes and seconds, or hours and minutes.

    Example:
        >>> clock_time(83)
        '1:23'
    """
    seconds = round(seconds)
    if seconds >= 3600:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02d}"
    return f"{seconds // 60}:{seconds % 60:02d}"

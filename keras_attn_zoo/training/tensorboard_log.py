"""The log of a training run for TensorBoard."""

from pathlib import Path
from typing import Any

import keras

from keras_attn_zoo.devices import leads
from keras_attn_zoo.support.extras import require
from keras_attn_zoo.support.files import PathLike, remove
from keras_attn_zoo.support.types import Logs
from keras_attn_zoo.training.run_log import RunLog, read_log


class TensorBoardLog(keras.callbacks.Callback):
    """Write the figures of a `RunLog` as scalars that TensorBoard shows, `step/loss`, `round/val_loss` and so on.

    Needs the package `tensorboard`, and no TensorFlow. All have the number of the step as their place. A resumed run
    writes the folder anew, from its log, so no step is there twice. Put it after the log.

    Args:
        folder: where to write; it is removed first.
        log: the `RunLog` of the run.

    Raises:
        MissingPackageError: tensorboard is not installed.

    Example:
        >>> callbacks = [log, TensorBoardLog("tensorboard", log)]  # doctest: +SKIP
    """

    def __init__(self, folder: PathLike, log: RunLog) -> None:
        super().__init__()
        require("tensorboard", user="a log for TensorBoard", extra="tensorboard")
        self.folder, self.log = Path(folder), log

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Write what the log has so far."""
        if not leads():
            return
        from tensorboard.summary import Writer

        remove(self.folder)
        self._writer: Any = Writer(str(self.folder))
        for line in read_log(self.log.path):
            self._add(line)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Write a step."""
        if leads():
            self._add(self.log.last)

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Write a round."""
        if leads():
            self._add({"round": epoch + 1, "step": self.log.step, **logs})
            self._writer.flush()

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Close the files."""
        if leads():
            self._writer.close()

    def _add(self, line):
        kind = "round" if "round" in line else "step"
        for name, value in line.items():
            if name not in ("step", "round", "shape") and value is not None:
                self._writer.add_scalar(f"{kind}/{name}", float(value), line["step"])

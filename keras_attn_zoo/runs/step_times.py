"""How long training steps take: of chosen batches, with a translator that nobody keeps."""

import time
from collections.abc import Sequence
from typing import Any

import keras

from keras_attn_zoo.data.batches import Batch, TranslationBatches, fit_arguments
from keras_attn_zoo.support.types import Logs
from keras_attn_zoo.translators import Translator


class _Chosen(keras.utils.PyDataset):
    """Some batches, over and over: TensorFlow reads ahead."""

    repeat, round, num_batches = True, 0, None

    def __init__(self, batches: TranslationBatches, indices: Sequence[int]) -> None:
        super().__init__(workers=1)
        self.batches, self.indices = batches, indices

    def __len__(self) -> int:
        """Count them."""
        return len(self.indices)

    def __getitem__(self, index: int) -> Batch:
        """Build a batch."""
        return self.batches[self.indices[index % len(self)]]


class _StepTimes(keras.callbacks.Callback):
    """Record the seconds of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Start the clock."""
        self._began = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Record a step, once its loss is there."""
        float(logs["loss"])
        self.seconds.append(time.perf_counter() - self._began)


def step_seconds(translator: Translator, batches: TranslationBatches, indices: Sequence[int]) -> list[float]:
    """Train a compiled translator on the batches with these numbers; return the seconds of each step.

    The first step of a call takes longer than others, as `fit` begins; one of a new shape compiles too.
    """
    times = _StepTimes()
    chosen: Any = _Chosen(batches, indices)
    translator.fit(**fit_arguments(chosen), epochs=1, callbacks=[times], verbose=0)
    return times.seconds

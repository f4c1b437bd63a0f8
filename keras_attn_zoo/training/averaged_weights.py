"""The exponential moving average of the weights in their place, while a model is scored and saved."""

import contextlib
from collections.abc import Iterator

import keras
from keras import ops

from keras_attn_zoo.support.types import Logs
from keras_attn_zoo.training.adam import Adam


class AveragedWeights(keras.callbacks.Callback):
    """Score and save every round with the moving average of the weights.

    The averages that our `Adam(..., use_ema=True, ema_momentum=μ)` keeps take the place of
    the weights from the beginning of the validation to the end of the round:

        a(1) = w(1),   a(t) = μ·a(t-1) + (1 - μ)·w(t)

    Training goes on with w. Put it behind the callbacks that score or save the model,
    and before `ResumableState`, which saves both.

    Example:
        >>> callbacks = [BestPreset("best"), AveragedWeights(), state]  # doctest: +SKIP

    Source: Polyak and Juditsky, Acceleration of stochastic approximation by averaging, 1992; with a window that
    decays as in Keras.

    Differences from `keras.callbacks.SwapEMAWeights`: weights come back to the last bit under TensorFlow too; the last
    round is no exception.
    """

    def __init__(self) -> None:
        super().__init__()
        self._swapped = contextlib.ExitStack()

    def on_test_begin(self, logs: Logs | None = None) -> None:
        """Put the averages in."""
        self._swapped.enter_context(averaged_weights(self.model))

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Put the weights back."""
        self._swapped.close()


@contextlib.contextmanager
def averaged_weights(model: keras.Model) -> Iterator[None]:
    """Put the moving averages of a model's optimizer in the place of the weights; without any, leave them.

    Example:
        >>> with averaged_weights(model):  # doctest: +SKIP
        ...     model.save_to_preset("averaged")
    """
    pairs = model.optimizer.averages() if isinstance(model.optimizer, Adam) else []
    # Copies: under JAX, two variables would share a buffer, and a step gives both away.
    kept = [ops.copy(weight) for weight, _ in pairs]
    for weight, average in pairs:
        weight.assign(ops.copy(average))
    try:
        yield
    finally:
        for (weight, _), value in zip(pairs, kept, strict=True):
            weight.assign(value)

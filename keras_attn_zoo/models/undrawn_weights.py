"""Models created without drawing initial weights, since a file is about to be loaded into them."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_attn_zoo.errors import UserError

# Keras' initialisers that draw random numbers.
_RANDOM = (
    "GlorotNormal",
    "GlorotUniform",
    "HeNormal",
    "HeUniform",
    "LecunNormal",
    "LecunUniform",
    "Orthogonal",
    "RandomNormal",
    "RandomUniform",
    "TruncatedNormal",
    "VarianceScaling",
)
# Those that do not: their numbers are only counted.
_FIXED = ("Constant", "Ones", "Zeros")
_OTHER_NAMES = {"RandomNormal": "normal", "RandomUniform": "uniform", "Ones": "one", "Zeros": "zero"}
# Numbers of a model that are not in its file, such as those of metrics.
_UNSAVED = 10_000


@contextlib.contextmanager
def undrawn_weights(stored: int | None = None) -> Iterator[None]:
    """Start layers created here with zeros instead of weights drawn from an initialiser that they name.

    Drawing random numbers, orthogonal matrices above all, takes most of the time of
    loading a small model. Initialisers created earlier or in other threads draw as
    usual; those created here do so afterwards.

    Args:
        stored: how many numbers the file has. A model that needs more is refused before it takes up memory.

    Raises:
        UserError: a model with more weights than `stored` is created.

    Example:
        >>> with undrawn_weights():
        ...     layer = keras.layers.Dense(2)
        ...     layer.build((None, 3))
        >>> float(keras.ops.sum(keras.ops.abs(layer.kernel)))
        0.0
    """
    made: list[tuple[Any, type]] = []
    count = _Count(stored)
    names = {}
    for name in (*_RANDOM, *_FIXED):
        stand_in = _stand_in(getattr(keras.initializers, name), made, count, name in _RANDOM)
        names[name] = names[_snake_case(name)] = names[_OTHER_NAMES.get(name, name)] = stand_in
    try:
        # Keras looks here first, and only in this thread.
        with keras.saving.custom_object_scope(names):
            yield
    finally:
        for initializer, original in made:
            initializer.__class__ = original


class _Count:
    """Counts the numbers of a model that is being created."""

    def __init__(self, stored):
        self.stored, self.numbers = stored, 0

    def add(self, shape):
        self.numbers += int(np.prod(shape, dtype=object))
        if self.stored is not None and self.numbers > self.stored + _UNSAVED:
            raise UserError(
                f"the configuration makes a model of more than {self.numbers:,} numbers, but its weights are only "
                f"{self.stored:,}: restore the preset, or download it again."
            )


def _stand_in(original, made, count, random):
    """Return a subclass of an initialiser that counts, and returns zeros if random; `made` gets its instances."""

    class Undrawn(original):
        @classmethod
        def from_config(cls, config):
            initializer = cls(**config)
            made.append((initializer, original))
            return initializer

        def __call__(self, shape, dtype=None, **kwargs):
            count.add(shape)
            if not random:
                return super().__call__(shape, dtype, **kwargs)
            # From NumPy, since a compiled backend would compile zeros for every shape.
            return keras.ops.convert_to_tensor(np.zeros(shape, "float32"), dtype)

    # Layers that copy others by their configuration, such as `Bidirectional`, find it by this name.
    Undrawn.__name__, Undrawn.__module__ = original.__name__, original.__module__
    return Undrawn


def _snake_case(name):
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")

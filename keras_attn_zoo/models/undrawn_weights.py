"""Models created without drawing initial weights, since a file is about to be loaded into them."""

import contextlib
import contextvars
import functools
import threading
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
_OTHER_NAMES = {"RandomNormal": "normal", "RandomUniform": "uniform", "Orthogonal": "OrthogonalInitializer"}
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
    names = {}
    for name in _RANDOM:
        stand_in = _stand_in(getattr(keras.initializers, name), made)
        names[name] = names[_snake_case(name)] = names[_OTHER_NAMES.get(name, name)] = stand_in
    try:
        # Keras looks here first, and only in this thread.
        with _counted(_Count(stored)), keras.saving.custom_object_scope(names):
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


_counting: contextvars.ContextVar[_Count | None] = contextvars.ContextVar("counting", default=None)
_changing = threading.Lock()
_loading = 0


@contextlib.contextmanager
def _counted(count):
    """Count the numbers of every weight before it takes up memory, whatever it starts with.

    Keras has no place of its own for that. Its method is replaced only while models are loaded, and counts only in the
    threads that load them.
    """
    global _loading
    layer = keras.layers.Layer
    with _changing:
        _loading += 1
        if _loading == 1:
            layer.add_weight = _counting_method(layer.add_weight)
    token = _counting.set(count)
    try:
        yield
    finally:
        _counting.reset(token)
        with _changing:
            _loading -= 1
            if not _loading:
                layer.add_weight = layer.add_weight.__wrapped__


def _counting_method(add_weight):
    @functools.wraps(add_weight)
    def add(self, shape=None, *args, **kwargs):
        count = _counting.get()
        if count is not None:
            count.add(() if shape is None else shape)
        return add_weight(self, shape, *args, **kwargs)

    return add


def _stand_in(original, made):
    """Return a subclass of a random initialiser that returns zeros; `made` gets its instances."""

    class Undrawn(original):
        @classmethod
        def from_config(cls, config):
            initializer = cls(**config)
            made.append((initializer, original))
            return initializer

        def __call__(self, shape, dtype=None, **kwargs):
            # From NumPy, since a compiled backend would compile zeros for every shape.
            return keras.ops.convert_to_tensor(np.zeros(shape, "float32"), dtype)

    # Layers that copy others by their configuration, such as `Bidirectional`, find it by this name.
    Undrawn.__name__, Undrawn.__module__ = original.__name__, original.__module__
    return Undrawn


def _snake_case(name):
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")

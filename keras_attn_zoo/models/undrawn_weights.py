"""Models created without drawing initial weights, since a file is about to be loaded into them."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

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


@contextlib.contextmanager
def undrawn_weights() -> Iterator[None]:
    """Start layers created here with zeros instead of weights drawn from an initialiser that they name.

    Drawing random numbers, orthogonal matrices above all, takes most of the time of
    loading a small model. Initialisers created earlier or in other threads draw as
    usual; those created here do so afterwards.

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
        original = getattr(keras.initializers, name)
        stand_in = _stand_in(original, made)
        names[name] = names[_snake_case(name)] = stand_in
    try:
        # Keras looks here first, and only in this thread.
        with keras.saving.custom_object_scope(names):
            yield
    finally:
        for initializer, original in made:
            initializer.__class__ = original


def _stand_in(original, made):
    """Return a subclass of an initialiser that returns zeros; its instances are added to `made`."""

    class Zeros(original):
        @classmethod
        def from_config(cls, config):
            initializer = cls(**config)
            made.append((initializer, original))
            return initializer

        def __call__(self, shape, dtype=None):
            # From NumPy, since a compiled backend would compile zeros for every shape.
            return keras.ops.convert_to_tensor(np.zeros(shape, "float32"), dtype)

    # Layers that copy others by their configuration, such as `Bidirectional`, find it by this name.
    Zeros.__name__, Zeros.__module__ = original.__name__, original.__module__
    return Zeros


def _snake_case(name):
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")

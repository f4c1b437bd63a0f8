"""Models created without drawing initial weights, since a file is about to be loaded into them."""

import contextlib
from collections.abc import Iterator

import keras
import numpy as np

from keras_attn_zoo.support.errors import UserError

# Those that draw no random numbers are fast, and their layers may count on them.
_DRAW_NOTHING = ("Zeros", "Ones", "Constant", "Identity", "STFT")
_OTHER_NAMES = {"RandomNormal": "normal", "RandomUniform": "uniform", "Zeros": "zero", "Ones": "one"}
# Numbers of a model that are not in its file, such as those of metrics.
_UNSAVED = 10_000


@contextlib.contextmanager
def without_drawing(stored: int | None = None) -> Iterator[None]:
    """Start layers created here with zeros instead of weights drawn from an initialiser that they name.

    Drawing random numbers, orthogonal matrices above all, takes most of the time of loading a small model. Initialisers
    created earlier or in other threads draw as usual; those created here do so afterwards.

    Args:
        stored: how many numbers the file has. A model that needs more is refused before it takes up memory.

    Raises:
        UserError: a model with more weights than `stored` is created.

    Example:
        >>> with without_drawing():
        ...     layer = keras.layers.Dense(2)
        ...     layer.build((None, 3))
        >>> float(keras.ops.sum(keras.ops.abs(layer.kernel)))
        0.0
    """
    loading, names = _Loading(stored), {}
    for name, original in vars(keras.initializers).items():
        if isinstance(original, type) and original is not keras.initializers.Initializer:
            stand_in = _stand_in(original, loading)
            names[name] = names[_snake_case(name)] = names[_OTHER_NAMES.get(name, name)] = stand_in
    try:
        # Keras looks here first, and only in this thread.
        with keras.saving.custom_object_scope(names):
            yield
    finally:
        loading.done = True


class _Loading:
    """Counts the numbers of a model that is being created."""

    def __init__(self, stored):
        self.stored, self.numbers, self.done = stored, 0, False

    def add(self, shape):
        self.numbers += int(np.prod(shape, dtype=object))
        if self.stored is not None and self.numbers > self.stored + _UNSAVED:
            raise UserError(
                f"the configuration makes a model of more than {self.numbers:,} numbers, but its weights are only "
                f"{self.stored:,}: restore the preset, or download it again."
            )


def _stand_in(original, loading):
    """Return a subclass of an initialiser that counts while a model is loaded, and returns zeros for random numbers."""

    class Undrawn(original):
        # Keras writes it into configurations by its class.
        __class__ = property(lambda self: original if loading.done else type(self))

        def __call__(self, shape, dtype=None, **kwargs):
            if loading.done:
                return super().__call__(shape, dtype, **kwargs)
            loading.add(shape)
            if original.__name__ in _DRAW_NOTHING:
                return super().__call__(shape, dtype, **kwargs)
            # From NumPy, since a compiled backend would compile zeros for every shape.
            return keras.ops.convert_to_tensor(np.zeros(shape, "float32"), dtype)

    # Layers that copy others by their configuration, such as `Bidirectional`, find it by this name.
    Undrawn.__name__ = original.__name__
    return Undrawn


def _snake_case(name):
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")

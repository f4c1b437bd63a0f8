"""Several kernels from one initialiser, each with different random numbers."""

import keras

from keras_attn_zoo.support.types import Initializer, Shape


def fresh_initializer(initializer: Initializer) -> Initializer:
    """Return an initialiser for one more weight: a copy, so that no two weights draw the same numbers.

    A plain function is returned unchanged.
    """
    return initializer.clone() if isinstance(initializer, keras.Initializer) else initializer


def add_kernel(layer: keras.layers.Layer, name: str, shape: Shape, autocast: bool = True) -> keras.Variable:
    """Add a weight to a layer being built, drawn by its `kernel_initializer`."""
    initializer = fresh_initializer(layer.kernel_initializer)
    return layer.add_weight(name=name, shape=shape, initializer=initializer, autocast=autocast)

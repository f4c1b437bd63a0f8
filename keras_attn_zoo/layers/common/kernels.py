"""Kernels of one initialiser: each draws numbers of its own."""

import keras

from keras_attn_zoo.types import Initializer, Shape


def fresh_initializer(initializer: Initializer) -> Initializer:
    """Return an initialiser for one more weight: a copy, so that no two weights draw the same numbers.

    A plain function is returned unchanged.
    """
    return initializer.clone() if isinstance(initializer, keras.Initializer) else initializer


def add_kernel(layer: keras.layers.Layer, name: str, shape: Shape) -> keras.Variable:
    """Add a weight that the layer's `kernel_initializer` draws, while it is built."""
    return layer.add_weight(name=name, shape=shape, initializer=fresh_initializer(layer.kernel_initializer))

"""Calls compiled, and calls of unknown sizes: the same request to every backend."""

import keras
import numpy as np
from keras import ops, tree

BACKEND = keras.config.backend()


def to_numpy(outputs):
    """A tree of tensors as float32 NumPy arrays; NumPy knows no bfloat16."""
    return tree.map_structure(lambda x: ops.convert_to_numpy(ops.cast(x, "float32")), outputs)


def compiled(function, to_arrays=True):
    """`function` from arrays to arrays, or to tensors; in one piece on jax, which would compile it op by op else."""
    if BACKEND == "jax":
        import jax

        function = jax.jit(function)

    def call(*args):
        outputs = function(*tree.map_structure(ops.convert_to_tensor, args))
        return to_numpy(outputs) if to_arrays else outputs

    return call


def of_unknown_sizes(function, inputs):
    """`function` of a dict of arrays, traced once on TensorFlow, with no size known but the width of floats."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        def spec(x):
            width = [x.shape[-1]] if x.dtype == np.float32 else []
            return tf.TensorSpec([None] * (x.ndim - len(width)) + width, x.dtype)

        function = tf.function(function, input_signature=[tree.map_structure(spec, inputs)])
    return compiled(function)

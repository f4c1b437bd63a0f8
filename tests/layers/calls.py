"""Calls compiled, and calls of unknown sizes: the same request to every backend."""

import keras
import numpy as np
from keras import ops, tree

BACKEND = keras.config.backend()
# Largest difference, relative to the largest number that is expected, or to 1.
TOLERANCE = {"float32": 2e-6, "mixed_bfloat16": 2e-2}


def to_numpy(outputs):
    """A tree of tensors as float32 NumPy arrays; NumPy knows no bfloat16."""
    return tree.map_structure(lambda x: ops.convert_to_numpy(ops.cast(x, "float32")), outputs)


def assert_close(actual, desired, policy, what=""):
    largest = max(1.0, np.max(np.abs(desired), initial=0))
    np.testing.assert_allclose(actual, desired, rtol=0, atol=TOLERANCE[policy] * largest, err_msg=what)


def compiled(function, to_arrays=True):
    """`function` from arrays to arrays, or to tensors; in one piece on jax, which would compile it op by op else."""
    if BACKEND == "jax":
        import jax

        function = jax.jit(function)

    def call(*args):
        outputs = function(*tree.map_structure(ops.convert_to_tensor, args))
        return to_numpy(outputs) if to_arrays else outputs

    return call


def of_unknown_sizes(function, inputs, no_width=()):
    """`function` of a dict of arrays, traced once on TensorFlow, with no size known but the width of floats.

    The inputs named in `no_width` have none.
    """
    if BACKEND == "tensorflow":
        import tensorflow as tf

        def spec(name, x):
            width = [x.shape[-1]] if x.dtype == np.float32 and name not in no_width else []
            return tf.TensorSpec([None] * (x.ndim - len(width)) + width, x.dtype)

        function = tf.function(function, input_signature=[{name: spec(name, x) for name, x in inputs.items()}])
    return compiled(function)


def value_and_gradients(layer, function, inputs):
    """Value of a scalar function of a dict of arrays; its gradients by weight of a layer, and by input, as NumPy."""
    inputs = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
    variables = layer.trainable_variables
    if BACKEND == "jax":
        import jax

        def loss(weights, inputs):
            with keras.StatelessScope(state_mapping=list(zip(variables, weights, strict=True))):
                return function(inputs)

        value, (by_weight, by_input) = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(
            [v.value for v in variables], inputs
        )
    elif BACKEND == "tensorflow":
        import tensorflow as tf

        @tf.function(autograph=False)
        def run(inputs):
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                value = function(inputs)
            return value, tape.gradient(value, [[v.value for v in variables], inputs])

        value, (by_weight, by_input) = run(inputs)
    else:
        inputs = {name: x.requires_grad_() for name, x in inputs.items()}
        value = function(inputs)
        value.backward()
        by_weight = [v.value.grad for v in variables]
        by_input = {name: x.grad for name, x in inputs.items()}
        value = value.detach()
    start = f"{layer.name}/"
    paths = [v.path.removeprefix(start) for v in variables]
    return to_numpy(value), dict(zip(paths, to_numpy(by_weight), strict=True)), to_numpy(by_input)


def eager_gradients(function, inputs):
    """Gradients of a scalar function by each input of a dict of NumPy arrays, differentiated operation by operation."""
    if BACKEND == "jax":
        import jax

        return to_numpy(jax.grad(function)(inputs))
    tensors = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
    if BACKEND == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = function(tensors)
        return to_numpy(tape.gradient(value, tensors))
    tensors = {name: x.requires_grad_() for name, x in tensors.items()}
    function(tensors).backward()
    return {name: to_numpy(x.grad) for name, x in tensors.items()}

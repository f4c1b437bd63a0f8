"""One loop over positions that trains on every backend, with lengths unknown when it is traced."""

import keras
from keras import ops, tree


def scan(step, initial_state, inputs):
    """Run `state, output = step(state, input)` over the first axis of `inputs`.

    Random numbers must be drawn before the loop and passed in `inputs`.

    Args:
        step: function of a state and one slice of `inputs`, to the next state and one output, both trees of tensors.
        initial_state: tree of tensors; every step must keep shapes and types.
        inputs: tree of tensors `(length, ...)`, `length` at least 1.

    Returns:
        The last state, and the outputs stacked to `(length, ...)`.

    Example:
        >>> total, sums = scan(lambda s, x: (s + x, s + x), ops.zeros(()), ops.ones((3,)))  # 3, [1, 2, 3]
    """
    if keras.config.backend() == "tensorflow":
        return _tensorflow_scan(step, initial_state, inputs)
    return ops.scan(step, initial_state, inputs)


def _tensorflow_scan(step, initial_state, inputs):
    """`tf.while_loop` with a bound: its gradient compiles under XLA, that of `ops.scan` does not."""
    import tensorflow as tf

    length = ops.shape(tree.flatten(inputs)[0])[0]

    def take(index):
        return tree.map_structure(lambda x: x[index], inputs)

    # The first step stands before the loop: it shows what the outputs look like.
    state, first = step(initial_state, take(0))
    state = tree.map_structure(tf.convert_to_tensor, state)
    outputs = tree.map_structure(
        lambda y: tf.TensorArray(y.dtype, size=length, element_shape=y.shape).write(0, y), first
    )

    def body(index, state, outputs):
        state, output = step(state, take(index))
        outputs = tree.map_structure(lambda array, y: array.write(index, y), outputs, output)
        return index + 1, state, outputs

    _, state, outputs = tf.while_loop(
        lambda index, *_: index < length,
        body,
        (1, state, outputs),
        maximum_iterations=length - 1,
    )
    return state, tree.map_structure(lambda array: array.stack(), outputs)

"""Loops over positions, cumulative sums and caches that train on every backend, whether lengths are known or not."""

from collections.abc import Callable, Sequence

import keras
from keras import ops, tree

from keras_attn_zoo.kernels.loop_products import scan_with_weights
from keras_attn_zoo.support.processor import is_jax_on_cpu
from keras_attn_zoo.support.types import Tensor, TensorTree

_BLOCK = 32


def scan(
    step: Callable[[TensorTree, TensorTree], tuple[TensorTree, TensorTree]],
    initial_state: TensorTree,
    inputs: TensorTree,
    reverse: bool = False,
    weights: Sequence[Tensor] = (),
) -> tuple[TensorTree, TensorTree]:
    """Run `state, output = step(state, input)` over the first axis of `inputs`.

    Random numbers must be drawn before the loop and passed in `inputs`.

    Args:
        step: function of a state and one slice of `inputs`, to the next state and one output, both trees of tensors.
        initial_state: tree of tensors; every step must keep shapes and types.
        inputs: tree of tensors `(length, ...)`, `length` at least 1.
        reverse: whether to begin with the last slice; the outputs are in the order of the inputs either way.
        weights: in training, matrices that `step` multiplies by, of which gradients are wanted. By JAX on a CPU, they
            are then computed for all positions at once; `step` is traced twice, and has first derivatives by reverse
            mode alone.

    Returns:
        The last state, and the outputs stacked to `(length, ...)`.

    Example:
        >>> total, sums = scan(lambda s, x: (s + x, s + x), ops.zeros(()), ops.ones((3,)))  # 3, [1, 2, 3]
    """
    if keras.config.backend() == "tensorflow":
        return _tensorflow_scan(step, initial_state, inputs, reverse)
    if keras.config.backend() == "torch":
        return _torch_scan(step, initial_state, inputs, reverse)
    if weights and is_jax_on_cpu():
        return scan_with_weights(step, initial_state, inputs, reverse, weights)
    return ops.scan(step, initial_state, inputs, reverse=reverse)


def before_loop(x: Tensor) -> Tensor:
    """Return an array of which a loop takes slices, computed before the loop.

    Otherwise, XLA may compute a slice of a product as the product of a slice: one position at a time again.

    Example:
        >>> before_loop(ops.ones((3,)))  # [1, 1, 1]
    """
    if keras.config.backend() != "jax":
        return x
    from jax.lax import optimization_barrier

    return optimization_barrier(x)


def _tensorflow_scan(step, initial_state, inputs, reverse):
    """`tf.while_loop` with a bound: its gradient compiles under XLA, that of `ops.scan` does not."""
    import tensorflow as tf

    length = ops.shape(tree.flatten(inputs)[0])[0]

    def at(index):
        return length - 1 - index if reverse else index

    # A slice of an array would have an array of zeros over all positions as its gradient, at every position.
    inputs = tree.map_structure(
        lambda x: tf.TensorArray(x.dtype, size=length, element_shape=x.shape[1:]).unstack(x), inputs
    )

    def take(index):
        return tree.map_structure(lambda array: array.read(at(index)), inputs)

    # The first step runs before the loop, to determine the outputs' shapes and types.
    state, first = step(initial_state, take(0))
    state = tree.map_structure(tf.convert_to_tensor, state)
    outputs = tree.map_structure(
        lambda y: tf.TensorArray(y.dtype, size=length, element_shape=y.shape).write(at(0), y), first
    )

    def body(index, state, outputs):
        state, output = step(state, take(index))
        outputs = tree.map_structure(lambda array, y: array.write(at(index), y), outputs, output)
        return index + 1, state, outputs

    _, state, outputs = tf.while_loop(
        lambda index, *_: index < length,
        body,
        (1, state, outputs),
        maximum_iterations=length - 1,
    )
    return state, tree.map_structure(lambda array: array.stack(), outputs)


def _torch_scan(step, state, inputs, reverse):
    """`ops.scan`, in which each position's gradient of `inputs` is no array of zeros over all positions."""
    import torch

    arrays = [torch.unbind(x) for x in tree.flatten(inputs)]
    outputs = []
    for slices in zip(*(reversed(array) if reverse else array for array in arrays), strict=True):
        state, output = step(state, tree.pack_sequence_as(inputs, slices))
        outputs.append(output)
    return state, tree.map_structure(lambda *ys: torch.stack(ys), *(reversed(outputs) if reverse else outputs))


def cumulative_sum(x: Tensor) -> Tensor:
    """Return the cumulative sums of `x`, `(batch, length, width)`, over positions.

    Example:
        >>> cumulative_sum(ops.ones((1, 3, 2)))  # [[[1, 1], [2, 2], [3, 3]]]
    """
    if keras.config.backend() != "jax" or not isinstance(x.shape[1], int):
        return ops.cumsum(x, axis=1)
    # XLA sums whole windows for a cumulative sum: a product with a triangle of ones per block costs far less.
    batch, length, width = x.shape
    blocks = -(-length // _BLOCK)
    size = -(-length // blocks)
    x = ops.reshape(ops.pad(x, [[0, 0], [0, blocks * size - length], [0, 0]]), (batch, blocks, size, width))
    sums = ops.matmul(ops.tril(ops.ones((size, size), dtype=x.dtype)), x)
    if blocks > 1:
        before = ops.cumsum(sums[:, :, -1:], axis=1) - sums[:, :, -1:]
        sums = sums + before
    return ops.reshape(sums, (batch, blocks * size, width))[:, :length]


def write(array: Tensor, update: Tensor, index: int | Tensor, axis: int) -> Tensor:
    """Return `array` with `update`, of size 1 along `axis`, written at an index, as into the growing cache of a search.

    Example:
        >>> write(ops.zeros((2, 3)), ops.ones((2, 1)), 1, axis=1)  # [[0, 1, 0], [0, 1, 0]]
    """
    if keras.config.backend() == "tensorflow":
        # TensorFlow has no gradient of `ops.slice_update`.
        places = ops.arange(array.shape[axis]) == index
        return ops.where(ops.reshape(places, [-1 if i == axis else 1 for i in range(len(array.shape))]), update, array)
    return ops.slice_update(array, [index if i == axis else 0 for i in range(len(array.shape))], update)


def first(array: Tensor, length: int | Tensor, axis: int) -> Tensor:
    """Return the first `length` elements of `array` along `axis`.

    Example:
        >>> first(ops.ones((2, 3)), 2, axis=1)  # [[1, 1], [1, 1]]
    """
    if keras.config.backend() == "jax" and not isinstance(length, int):
        # A symbolic size in JAX: a slice would have the size `min(array.shape[axis], length)`.
        return ops.take(array, ops.arange(length), axis=axis)
    return array[(slice(None),) * axis + (slice(length),)]


def at_most(length: int | Tensor, bound: int, message: str) -> int | Tensor:
    """Return `length`; raise if it exceeds `bound`, as soon as it is known or, under TensorFlow, at run time.

    Args:
        length: an integer, or a scalar tensor if the length of a batch is unknown.
        bound: an integer.
        message: the error message; `{}` is replaced by the length.

    Example:
        >>> at_most(3, 5, "too long: {}")
        3
    """
    if isinstance(length, int):
        if length > bound:
            raise ValueError(message.format(length))
        return length
    if keras.config.backend() != "tensorflow" or not hasattr(length, "graph"):
        return length
    import tensorflow as tf

    with tf.control_dependencies([tf.debugging.Assert(length <= bound, [message.format("unknown many"), length])]):
        return tf.identity(length)

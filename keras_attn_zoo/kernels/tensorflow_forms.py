"""Forms for TensorFlow: operations whose gradients it lacks otherwise, checks at run time, dropout."""

import math
from collections.abc import Callable, Sequence

import keras
from keras import ops, tree

from keras_attn_zoo.kernels.forms import plain
from keras_attn_zoo.kernels.portable import embeddings, loops, noise
from keras_attn_zoo.support.types import Tensor, TensorTree


def scan(
    step: Callable[[TensorTree, TensorTree], tuple[TensorTree, TensorTree]],
    initial_state: TensorTree,
    inputs: TensorTree,
    reverse: bool = False,
    weights: Sequence[Tensor] = (),
) -> tuple[TensorTree, TensorTree]:
    """Run `tf.while_loop` with a bound: its gradient compiles under XLA, that of `ops.scan` does not."""
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
        lambda index, *_: index < length, body, (1, state, outputs), maximum_iterations=length - 1
    )
    return state, tree.map_structure(lambda array: array.stack(), outputs)


def write(array: Tensor, update: Tensor, index: int | Tensor, axis: int) -> Tensor:
    """Return `array` with `update` written at an index, by a choice: `ops.slice_update` has no gradient."""
    places = ops.arange(array.shape[axis]) == index
    return ops.where(ops.reshape(places, [-1 if i == axis else 1 for i in range(len(array.shape))]), update, array)


def rows(table: Tensor, ids: Tensor) -> Tensor:
    """Return rows with a product in between: the gradient of the table is then dense, as an optimizer needs it."""
    return plain(embeddings.rows)(table * 1.0, ids)


def at_most(length: int | Tensor, bound: int, message: str) -> int | Tensor:
    """Return `length`; raise at run time if it was not known when the graph was made."""
    import tensorflow as tf

    if not hasattr(length, "graph"):
        return plain(loops.at_most)(length, bound, message)
    with tf.control_dependencies([tf.debugging.Assert(length <= bound, [message.format("unknown many"), length])]):
        return tf.identity(length)


def dropout(x: Tensor, rate: float, seed: keras.random.SeedGenerator) -> Tensor:
    """Drop by 16 random bits for each number, two numbers to a word of the generator; none is made a float."""
    import tensorflow as tf

    if rate > noise.HIGHEST_RATE:
        return plain(noise.dropout)(x, rate, seed)
    keep, shape = 1.0 - rate, ops.shape(x)
    count = math.prod(shape) if all(isinstance(size, int) for size in shape) else tf.reduce_prod(shape)
    words = tf.random.stateless_uniform(
        [(count + 1) // 2], tf.cast(seed.next(), "int32"), minval=None, maxval=None, dtype=tf.uint32
    )
    bits = tf.reshape(tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:count], shape)
    kept = bits < tf.constant(noise.bound_of_kept(rate, 16), tf.uint16)
    return ops.where(kept, x / ops.cast(keep, x.dtype), ops.zeros((), x.dtype))


def is_replica() -> bool:
    """Return whether TensorFlow has a strategy for several devices."""
    import tensorflow as tf

    return tf.distribute.has_strategy()

"""Loops over positions and growing caches, whether lengths are known or not."""

import operator
from collections.abc import Callable, Sequence

from keras import ops

from keras_attn_zoo.kernels.forms import operation
from keras_attn_zoo.support.types import Tensor, TensorTree


@operation
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
        weights: in training, matrices that `step` multiplies by, of which gradients are wanted; given once, they may be
            computed for all positions at once, and then have first derivatives by reverse mode alone.

    Returns:
        The last state, and the outputs stacked to `(length, ...)`.

    Example:
        >>> total, sums = scan(lambda s, x: (s + x, s + x), ops.zeros(()), ops.ones((3,)))  # 3, [1, 2, 3]
    """
    return ops.scan(step, initial_state, inputs, reverse=reverse)


@operation
def each(function: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Return what a function makes of every slice along the first axis, one after the other, stacked.

    The function must return the same of all slices at once.

    Example:
        >>> each(lambda x: 2 * x, ops.arange(3))  # [0, 2, 4]
    """
    return scan(lambda state, x: (state, function(x)), ops.zeros(()), inputs)[1]


@operation
def fold(
    step: Callable[..., Tensor], start: Tensor, inputs: Sequence[tuple[Tensor, int]], constants: Sequence[Tensor] = ()
) -> Tensor:
    """Run `found = step(found, *slices, *constants)` over the slices of inputs, each along its axis; return the last.

    Args:
        step: function of tensors, which knows no others.
        start: the first `found`, whose shape and type every step must keep.
        inputs: pairs of a tensor and an axis, of the same size.
        constants: tensors.

    Example:
        >>> fold(ops.maximum, ops.zeros((2,)), [(ops.array([[1.0, 2.0], [-1.0, -2.0]]), 1)])  # [2, 0]
    """
    length = ops.shape(inputs[0][0])[inputs[0][1]]

    def run(i, found):
        return step(found, *(x[(slice(None),) * axis + (i,)] for x, axis in inputs), *constants)

    return ops.fori_loop(0, length, run, start)


@operation
def chunks(length: int | Tensor, most: int) -> tuple[int | Tensor, int | Tensor]:
    """Return how many positions a chunk of a loop has, at most `most`, and how many chunks hold `length` positions.

    Example:
        >>> chunks(70, 32)
        (32, 3)
    """
    size = min(most, length) if isinstance(length, int) else most
    return size, (length + size - 1) // size


@operation
def recurrent_layer(
    cell: str,
    inputs: Tensor,
    states: Sequence[Tensor],
    mask: Tensor | None,
    weights: Sequence[Tensor],
    reverse: bool,
    loop: Callable[[], tuple[list[Tensor], Tensor]],
) -> tuple[list[Tensor], Tensor]:
    """Return the last states of a GRU or LSTM and its outputs `(length, batch, units)`: what a `scan` returns.

    Args:
        cell: "gru" or "lstm".
        inputs: `(batch, length, width)`.
        states: the first ones, `(batch, units)` each.
        mask: bool `(batch, length)`, false on padding, or None.
        weights: kernel, recurrent kernel and bias, as Keras has them.
        reverse: whether to begin with the last position.
        loop: runs the `scan`.

    Example:
        >>> recurrent_layer("gru", ops.ones((1, 2, 3)), [], None, [], False, lambda: ([], ops.ones((2, 1, 4))))[0]
        []
    """
    return loop()


@operation
def write(array: Tensor, update: Tensor, index: int | Tensor, axis: int) -> Tensor:
    """Return `array` with `update`, of size 1 along `axis`, written at an index, as into the growing cache of a search.

    Example:
        >>> write(ops.zeros((2, 3)), ops.ones((2, 1)), 1, axis=1)  # [[0, 1, 0], [0, 1, 0]]
    """
    return ops.slice_update(array, [index if i == axis else 0 for i in range(len(array.shape))], update)


@operation
def usually(condition: Tensor, usual: Callable[[], Tensor], rare: Callable[[], Tensor]) -> Tensor:
    """Return what one function returns or, where a condition does not hold, another one, which is seldom needed.

    Example:
        >>> usually(ops.array(True), lambda: ops.ones(()), lambda: ops.zeros(()))  # 1
    """
    return ops.cond(condition, usual, rare)


@operation
def known_index(index: Tensor) -> int | Tensor:
    """Return a scalar tensor of integers as a plain integer if it has a value, which it has not in a graph.

    Example:
        >>> known_index(ops.array(3))
        3
    """
    try:
        # Not `int`, in which TensorFlow's AutoGraph sees a cast.
        return operator.index(index)
    except TypeError:
        return index


@operation
def first(array: Tensor, length: int | Tensor, axis: int) -> Tensor:
    """Return the first `length` elements of `array` along `axis`.

    Example:
        >>> first(ops.ones((2, 3)), 2, axis=1)  # [[1, 1], [1, 1]]
    """
    return array[(slice(None),) * axis + (slice(length),)]


@operation
def at_most(length: int | Tensor, bound: int, message: str) -> int | Tensor:
    """Return `length`; raise if it exceeds `bound`, as soon as it is known.

    Args:
        length: an integer, or a scalar tensor if the length of a batch is unknown.
        bound: an integer.
        message: the error message; `{}` is replaced by the length.

    Example:
        >>> at_most(3, 5, "too long: {}")
        3
    """
    if isinstance(length, int) and length > bound:
        raise ValueError(message.format(length))
    return length

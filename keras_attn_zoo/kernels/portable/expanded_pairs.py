"""The recurrence of expanded keys and values."""

from collections.abc import Callable

from keras import ops

from keras_attn_zoo.kernels.forms import operation
from keras_attn_zoo.kernels.portable.linear_maps import matrix_product, transposed_matrix
from keras_attn_zoo.kernels.portable.loops import scan
from keras_attn_zoo.support.types import Tensor


def with_pair(at: dict[str, Tensor], key: Tensor, value: Tensor, axis: int = -1) -> tuple[Tensor, Tensor]:
    """Attend from one position to one more pair of key and value.

    Args:
        at: "query" `(batch, heads, key_dim)`; "context" of the source alone `(batch, heads, value_dim)`; "normalizer",
            the logarithm of the source's normaliser, and "real", false where nothing is attended to,
            `(batch, heads, 1)`; in training "noise", the dropout of the pair.
        key, value: the pair, `(batch, heads, ...)`.
        axis: the axis of `key_dim` and `value_dim`, if the others stand in another order.

    Returns:
        the heads' contexts, and the share of the pair `(batch, heads, 1)`, in float32.
    """
    energy = ops.sum(ops.cast(at["query"] * key, "float32"), axis=axis, keepdims=True)
    share = ops.where(at["real"], ops.sigmoid(energy - at["normalizer"]), 0.0)
    own = ops.cast(share, at["query"].dtype)
    return (1 - own) * at["context"] + own * at.get("noise", 1) * value, share


@operation
def pair_recurrence(steps: dict[str, Tensor], kernel: Tensor, bias: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """Attend from all positions to one more pair, an affine map of the previous position's contexts.

    The sentences of a batch stand last: then a step moves nothing, and multiplies the large matrix by a small one.

    Args:
        steps: for every position, the argument `at` of `with_pair`, `(target, heads, ..., batch)`.
        kernel: the matrix of the map, of all heads' contexts `(heads · value_dim, heads · (key_dim + value_dim))`, or
            head by head `(heads, value_dim, key_dim + value_dim)`. Products are computed in its type.
        bias: that of the map, `(heads, key_dim + value_dim)`.
        first: the pair before the first position, and after any with nothing to attend to, of the same shape.

    Returns:
        the contexts `(target, heads, value_dim, batch)`, and the shares of the pair `(target, heads, 1, batch)`, both
        in float32.
    """
    bias, first = (of_batch(one, steps["query"]) for one in (bias, first))
    _, (_, contexts, shares) = scan(pair_position(transposed_matrix(kernel), bias, first), first, steps)
    return contexts, shares


def of_batch(pair: Tensor, query: Tensor) -> Tensor:
    """Return a pair for each sentence."""
    return ops.broadcast_to(ops.cast(pair, query.dtype)[..., None], (*pair.shape, ops.shape(query)[-1]))


def pair_position(transposed: Tensor, bias: Tensor, first: Tensor) -> Callable:
    """Return one position of the loop: to the pair that it leaves; the pair it found, its contexts and shares."""

    def position(pair, at):
        context, share = with_pair(at, *ops.split(pair, [at["query"].shape[1]], axis=1), axis=1)
        left = ops.where(leaves_pair(at["real"], transposed), mapped(context, transposed) + bias, first)
        return left, (pair, context, share)

    return position


def leaves_pair(real: Tensor, kernel: Tensor) -> Tensor:
    """Return whether a position leaves a pair of its contexts: of all heads if any attends, or of each that does."""
    return ops.any(real, axis=-3, keepdims=True) if len(kernel.shape) == 2 else real


def mapped(x: Tensor, factor: Tensor) -> Tensor:
    """Return products of a matrix and the columns of x, `(heads, size, batch)`: of all heads, or of each."""
    kind, heads, batch = x.dtype, x.shape[0], ops.shape(x)[2]
    x = ops.cast(x, factor.dtype)
    if len(factor.shape) == 3:
        return ops.cast(ops.matmul(factor, x), kind)
    x = ops.reshape(x, (factor.shape[1], batch))
    found = matrix_product(factor, x)
    return ops.cast(ops.reshape(found, (heads, factor.shape[0] // heads, batch)), kind)

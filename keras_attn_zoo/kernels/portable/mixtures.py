"""The normaliser of a mixture of softmaxes, for all pairs of positions."""

from keras import ops

from keras_attn_zoo.kernels.forms import operation
from keras_attn_zoo.kernels.portable.masks import EXCLUDED
from keras_attn_zoo.support.types import Tensor

# A sum of products of numbers up to 1 that is below this may have lost terms that float32 cannot represent.
SMALLEST_TOTAL = 1e-25
# Vocabulary entries that are processed at once, for all pairs.
_SLICE = 32


@operation
def log_normalizer(left: Tensor, right: Tensor) -> Tensor:
    """Return log Σ_v exp(left_iv + right_jv) for all pairs i, j.

    Args:
        left: `(batch, n, vocabulary)`, float32.
        right: `(batch, m, vocabulary)`, float32.

    Returns:
        float32 `(batch, n, m)`.

    Example:
        >>> log_normalizer(ops.zeros((1, 2, 4)), ops.zeros((1, 3, 4)))  # log 4, (1, 2, 3)
    """
    return ops.logsumexp(pairs_of(left, right), axis=-1)


def guarded_log_normalizer(left: Tensor, right: Tensor) -> Tensor:
    """Return the normaliser with a maximum for each pair, correct at any range, in slices of the vocabulary."""
    lefts, rights = slices_of(left), slices_of(right)
    start = ops.zeros_like(ops.matmul(left[..., :1], ops.transpose(right[..., :1], (0, 2, 1)))) + EXCLUDED

    def add(i, total):
        return ops.logaddexp(total, ops.logsumexp(pairs_of(lefts[i], rights[i]), axis=-1))

    return ops.fori_loop(0, lefts.shape[0], add, start)


def slices_of(x: Tensor) -> Tensor:
    """Cut `(batch, n, vocabulary)` into `(slices, batch, n, slice)`; the last is padded with entries that add 0."""
    vocabulary = x.shape[-1]
    count = -(-vocabulary // _SLICE)
    x = ops.pad(x, ((0, 0), (0, 0), (0, count * _SLICE - vocabulary)), constant_values=EXCLUDED)
    return ops.transpose(ops.reshape(x, (*ops.shape(x)[:2], count, _SLICE)), (2, 0, 1, 3))


def pairs_of(left: Tensor, right: Tensor) -> Tensor:
    """Return the sums left_iv + right_jv of all pairs i, j, `(batch, n, m, vocabulary)`."""
    return left[:, :, None] + right[:, None]

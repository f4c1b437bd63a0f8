"""The normaliser of a mixture for all pairs of positions, in slices of the vocabulary: correct at any range."""

from keras import ops

from keras_attn_zoo.kernels.masks import EXCLUDED
from keras_attn_zoo.support.types import Tensor

# Vocabulary entries that are processed at once, for all pairs.
_SLICE = 32


def guarded_log_normalizer(left: Tensor, right: Tensor) -> Tensor:
    """Return the normaliser with a separate maximum for each pair: correct at any range, slice by slice."""
    lefts, rights = slices_of(left), slices_of(right)
    start = ops.zeros_like(ops.matmul(left[..., :1], ops.transpose(right[..., :1], (0, 2, 1)))) + EXCLUDED

    def add(i, total):
        return ops.logaddexp(total, ops.logsumexp(pairs_of(lefts[i], rights[i]), axis=-1))

    return ops.fori_loop(0, lefts.shape[0], add, start)


def slices_of(x: Tensor) -> Tensor:
    """`(batch, n, vocabulary)` as `(slices, batch, n, slice)`; the last slice is padded with entries that add 0."""
    vocabulary = x.shape[-1]
    count = -(-vocabulary // _SLICE)
    x = ops.pad(x, ((0, 0), (0, 0), (0, count * _SLICE - vocabulary)), constant_values=EXCLUDED)
    return ops.transpose(ops.reshape(x, (*ops.shape(x)[:2], count, _SLICE)), (2, 0, 1, 3))


def pairs_of(left: Tensor, right: Tensor) -> Tensor:
    """The sums left_iv + right_jv of all pairs i, j, `(batch, n, m, vocabulary)`."""
    return left[:, :, None] + right[:, None]

"""The distribution of a mixture of softmaxes whose logits are sums: two matrix products, and their guard."""

from keras import ops

from keras_attn_zoo.kernels import EXCLUDED, SMALLEST_TOTAL, guarded_log_normalizer, usually
from keras_attn_zoo.support.types import Tensor, TensorTree

# A float32 below this may be flushed to zero: such a weight is treated as 0.
SMALLEST_WEIGHT = 1.2e-38


def exponentials(right: Tensor) -> TensorTree:
    """Return what `log_mixture` needs of the right-hand logits `(batch, m, vocabulary)`, computed once per search."""
    right = _constant(right)
    largest = ops.max(right, axis=-1, keepdims=True)
    exponential = ops.exp(right - largest)
    columns = ops.transpose(exponential, (0, 2, 1))
    return {"logits": right, "largest": largest, "exponentials": exponential, "columns": columns}


def log_mixture(prior: Tensor, left: Tensor, right: TensorTree, normalizer: Tensor | None = None) -> Tensor:
    """Return log Σ_j prior_ij softmax_v(left_i + right_j) for all v: a mixture's full distribution.

    It takes two matrix products, like the normaliser; where that needs its guard,
    one pass over all v for each j. It has no gradient, so it is not for training.

    Args:
        prior: `(batch, n, m)`, weights of the softmaxes.
        left: `(batch, n, vocabulary)`, float32.
        right: the result of `exponentials`.
        normalizer: the result of `log_normalizer` for the same logits, if already computed.

    Returns:
        float32 `(batch, n, vocabulary)`; impossible entries are large and negative, and so may be entries less likely
        than about 1e-13, if the logits are far apart.

    Example:
        >>> log_mixture(ops.ones((1, 2, 1)), ops.zeros((1, 2, 4)), exponentials(ops.zeros((1, 1, 4))))  # -log 4
    """
    prior, left = _constant(prior), _constant(left)
    left_max = ops.max(left, axis=-1, keepdims=True)
    if normalizer is None:
        # XLA, on a CPU, multiplies several rows by a matrix twice as fast as by the transpose of one, a single row half
        # as fast.
        single = left.shape[1] == 1
        columns = ops.transpose(right["exponentials"], (0, 2, 1)) if single else right["columns"]
        total = ops.matmul(ops.exp(left - left_max), columns)
    else:
        normalizer = _constant(normalizer)
        total = ops.exp(normalizer - left_max - ops.transpose(right["largest"], (0, 2, 1)))

    def by_products():
        mixed = ops.matmul(prior / ops.maximum(total, SMALLEST_TOTAL), right["exponentials"])
        return left - left_max + ops.log(ops.maximum(mixed, SMALLEST_WEIGHT))

    def guarded():
        logits = right["logits"]
        share = ops.log(ops.maximum(prior, SMALLEST_WEIGHT)) - (
            guarded_log_normalizer(left, logits) if normalizer is None else normalizer
        )

        def add(j, mixed):
            one = share[:, :, j, None] + left + logits[:, j, None]
            return ops.logaddexp(mixed, ops.where(prior[:, :, j, None] >= SMALLEST_WEIGHT, one, EXCLUDED))

        return ops.fori_loop(0, ops.shape(logits)[1], add, ops.zeros_like(left) + EXCLUDED)

    return usually(ops.min(total) > SMALLEST_TOTAL, by_products, guarded)


def _constant(x):
    """A tensor without a gradient."""
    # Converted last: in eager differentiation, JAX returns the original NumPy array, which no loop can index.
    return ops.convert_to_tensor(ops.stop_gradient(ops.convert_to_tensor(x)))

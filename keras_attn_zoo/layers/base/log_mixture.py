"""The distribution of a mixture of softmaxes whose logits are sums: two matrix products, and their guard."""

from keras import ops, tree

from keras_attn_zoo.kernels import EXCLUDED, SMALLEST_TOTAL, fold, guarded_log_normalizer, usually
from keras_attn_zoo.support.types import Tensor, TensorTree

# A float32 below this may be flushed to zero: such a weight is treated as 0.
SMALLEST_WEIGHT = 1.2e-38


def exponentials(right: Tensor) -> TensorTree:
    """Return what `log_mixture` needs of the right-hand logits `(batch, m, vocabulary)`, computed once per search."""
    largest = ops.stop_gradient(ops.max(right, axis=-1, keepdims=True))
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
    prior, left, right = tree.map_structure(constant, (prior, left, right))
    left_max = ops.max(left, axis=-1, keepdims=True)
    if normalizer is None:
        total = _totals(left - left_max, right)
    else:
        normalizer = constant(normalizer)
        total = ops.exp(normalizer - left_max - ops.transpose(right["largest"], (0, 2, 1)))

    def by_products():
        mixed = ops.matmul(prior / ops.maximum(total, SMALLEST_TOTAL), right["exponentials"])
        return left - left_max + ops.log(ops.maximum(mixed, SMALLEST_WEIGHT))

    def guarded():
        shift = guarded_log_normalizer(left, right["logits"]) if normalizer is None else normalizer
        return _by_position(ops.logaddexp, prior, left, right["logits"], shift)

    return usually(ops.min(total) > SMALLEST_TOTAL, by_products, guarded)


def log_maximum(prior: Tensor, left: Tensor, right: TensorTree, normalizer: Tensor | None = None) -> Tensor:
    """Return log max_j prior_ij softmax_v(left_i + right_j) for all v, without a gradient; see `log_mixture`.

    It takes one pass over all v for each j.

    Example:
        >>> log_maximum(ops.ones((1, 2, 1)), ops.zeros((1, 2, 4)), exponentials(ops.zeros((1, 1, 4))))  # -log 4
    """
    prior, left, right = tree.map_structure(constant, (prior, left, right))
    normalizer = product_normalizer(left, right) if normalizer is None else constant(normalizer)
    return _by_position(ops.maximum, prior, left, right["logits"], normalizer)


def product_normalizer(left: Tensor, right: TensorTree) -> Tensor:
    """Return log Σ_v exp(left_iv + right_jv), with gradients, by the product of matrices alone.

    Use it in a loop of training, and in a search that remembers its alignment; see `log_normalizer`, whose guard it
    lacks: where the largest entries of left_i and right_j are far apart, by about 57 in the exponent, it is too large.

    Args:
        left: `(batch, n, vocabulary)`, float32.
        right: the result of `exponentials`.

    Returns:
        float32 `(batch, n, m)`.

    Example:
        >>> product_normalizer(ops.zeros((1, 2, 4)), exponentials(ops.zeros((1, 3, 4))))  # log 4, (1, 2, 3)
    """
    largest = ops.stop_gradient(ops.max(left, axis=-1, keepdims=True))
    total = _totals(left - largest, right)
    return ops.log(ops.maximum(total, SMALLEST_TOTAL)) + largest + ops.transpose(right["largest"], (0, 2, 1))


def _totals(left, right):
    """Σ_v exp(left_iv) exp(right_jv - max right_j), `(batch, n, m)`."""
    # XLA, on a CPU, multiplies several rows by a matrix twice as fast as by the transpose of one, a single row half as
    # fast.
    single = left.shape[1] == 1
    columns = ops.transpose(right["exponentials"], (0, 2, 1)) if single else right["columns"]
    return ops.matmul(ops.exp(left), columns)


def _by_position(combine, prior, left, logits, normalizer):
    """Combine log prior_ij softmax_v(left_i + logits_j) over j, one after the other."""
    share = ops.log(ops.maximum(prior, SMALLEST_WEIGHT)) - normalizer
    share = ops.where(prior >= SMALLEST_WEIGHT, share, EXCLUDED)

    def add(found, share, logits, left):
        return combine(found, share[..., None] + left + logits[:, None])

    return fold(add, ops.zeros_like(left) + EXCLUDED, [(share, 2), (logits, 1)], [left])


def constant(x: Tensor) -> Tensor:
    """Return a tensor without its gradient."""
    # Converted last: in eager differentiation, JAX returns the original NumPy array, which no loop can index.
    return ops.convert_to_tensor(ops.stop_gradient(ops.convert_to_tensor(x)))

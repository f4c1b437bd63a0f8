"""The normaliser of a mixture of softmaxes whose logits are sums: a product of two matrices, and what guards it."""

from keras import ops

# A sum below this, of products of two numbers of at most 1, may have lost what float32 cannot hold.
_SMALLEST = 1e-25
# Below it a float32 may be flushed to zero: such a weight counts as none.
SMALLEST_WEIGHT = 1.2e-38
# Vocabulary entries that the guard holds for all pairs at once.
_SLICE = 32
_EXCLUDED = -1e30


def log_normalizer(left, right):
    """Return log Σ_v exp(left_iv + right_jv) for all pairs i, j, without an array of pairs times vocabulary.

        Z_ij = Σ_v exp(left_iv - max left_i) · exp(right_jv - max right_j)

    is one product of two matrices. Every factor is at most 1, so nothing overflows;
    where the largest entries of left_i and right_j stand far apart, by some 57 in
    the exponent, Z_ij is too small to be trusted, and the whole is computed again,
    in slices of the vocabulary with a maximum for each pair: right at any range,
    and many times slower. The gradients are computed in the same two ways.

    Args:
        left: `(batch, n, vocabulary)`, float32.
        right: `(batch, m, vocabulary)`, float32.

    Returns:
        float32 `(batch, n, m)`.

    Example:
        >>> log_normalizer(ops.zeros((1, 2, 4)), ops.zeros((1, 3, 4)))  # log 4, (1, 2, 3)
    """
    return _log_normalizer(ops.convert_to_tensor(left), ops.convert_to_tensor(right))


def exponentials(right):
    """Return what `log_mixture` needs of the right-hand logits `(batch, m, vocabulary)`: computed once a search."""
    right = _constant(right)
    largest = ops.max(right, axis=-1, keepdims=True)
    return {"logits": right, "largest": largest, "exponentials": ops.exp(right - largest)}


def log_mixture(prior, left, right, normalizer=None):
    """Return log Σ_j prior_ij softmax_v(left_i + right_j) for all v: a mixture's full distribution.

    Two products of matrices, like the normaliser; where that needs its guard, one
    pass over all v for each j. Not for training: it has no gradient.

    Args:
        prior: `(batch, n, m)`, weights of the softmaxes.
        left: `(batch, n, vocabulary)`, float32.
        right: what `exponentials` gave.
        normalizer: what `log_normalizer` gave for the same logits, where that has been computed already.

    Returns:
        float32 `(batch, n, vocabulary)`; what is impossible is large and negative, and so may be, of logits that stand
        far apart, what is less likely than some 1e-13.

    Example:
        >>> log_mixture(ops.ones((1, 2, 1)), ops.zeros((1, 2, 4)), exponentials(ops.zeros((1, 1, 4))))  # -log 4
    """
    prior, left = _constant(prior), _constant(left)
    left_max = ops.max(left, axis=-1, keepdims=True)
    if normalizer is None:
        total = ops.matmul(ops.exp(left - left_max), ops.transpose(right["exponentials"], (0, 2, 1)))
    else:
        normalizer = _constant(normalizer)
        total = ops.exp(normalizer - left_max - ops.transpose(right["largest"], (0, 2, 1)))

    def by_products():
        mixed = ops.matmul(prior / ops.maximum(total, _SMALLEST), right["exponentials"])
        return left - left_max + ops.log(ops.maximum(mixed, SMALLEST_WEIGHT))

    def guarded():
        logits = right["logits"]
        share = ops.log(ops.maximum(prior, SMALLEST_WEIGHT)) - (
            _guarded(left, logits) if normalizer is None else normalizer
        )

        def add(j, mixed):
            one = share[:, :, j, None] + left + logits[:, j, None]
            return ops.logaddexp(mixed, ops.where(prior[:, :, j, None] >= SMALLEST_WEIGHT, one, _EXCLUDED))

        return ops.fori_loop(0, ops.shape(logits)[1], add, ops.zeros_like(left) + _EXCLUDED)

    return ops.cond(ops.min(total) > _SMALLEST, by_products, guarded)


def _constant(x):
    """A tensor without a gradient."""
    # Converted last: differentiated eagerly, JAX gives back the NumPy array that came, which no loop can index.
    return ops.convert_to_tensor(ops.stop_gradient(ops.convert_to_tensor(x)))


@ops.custom_gradient
def _log_normalizer(left, right):
    left_max, right_max = ops.max(left, axis=-1, keepdims=True), ops.max(right, axis=-1, keepdims=True)
    left_exp, right_exp = ops.exp(left - left_max), ops.exp(right - right_max)
    shift = left_max + ops.transpose(right_max, (0, 2, 1))
    total = ops.matmul(left_exp, ops.transpose(right_exp, (0, 2, 1)))
    exact = ops.min(total) > _SMALLEST
    result = ops.cond(
        exact,
        lambda: ops.log(ops.maximum(total, _SMALLEST)) + shift,
        lambda: _guarded(left, right),
    )

    def gradient(*args, upstream=None):
        upstream = args[0] if upstream is None else upstream

        def by_products():
            ratio = upstream / ops.maximum(total, _SMALLEST)
            return (
                left_exp * ops.matmul(ratio, right_exp),
                right_exp * ops.matmul(ops.transpose(ratio, (0, 2, 1)), left_exp),
            )

        return ops.cond(exact, by_products, lambda: _guarded_gradients(left, right, result, upstream))

    return result, gradient


def _slices(x):
    """`(batch, n, vocabulary)` as `(slices, batch, n, slice)`; the last one is filled up with what counts nothing."""
    vocabulary = x.shape[-1]
    count = -(-vocabulary // _SLICE)
    x = ops.pad(x, ((0, 0), (0, 0), (0, count * _SLICE - vocabulary)), constant_values=_EXCLUDED)
    return ops.transpose(ops.reshape(x, (*ops.shape(x)[:2], count, _SLICE)), (2, 0, 1, 3))


def _pairs(left, right):
    return left[:, :, None] + right[:, None]


def _guarded(left, right):
    """The normaliser with a maximum of its own for each pair."""
    lefts, rights = _slices(left), _slices(right)
    start = ops.zeros_like(ops.matmul(left[..., :1], ops.transpose(right[..., :1], (0, 2, 1)))) + _EXCLUDED

    def add(i, total):
        return ops.logaddexp(total, ops.logsumexp(_pairs(lefts[i], rights[i]), axis=-1))

    return ops.fori_loop(0, lefts.shape[0], add, start)


def _guarded_gradients(left, right, result, upstream):
    """The gradients, slice by slice."""

    def slices(xs):
        share = ops.exp(_pairs(*xs) - result[..., None]) * upstream[..., None]
        return ops.sum(share, axis=2), ops.sum(share, axis=1)

    gradients = ops.map(slices, (_slices(left), _slices(right)))
    return tuple(
        ops.reshape(ops.transpose(g, (1, 2, 0, 3)), (*ops.shape(x)[:2], -1))[..., : x.shape[-1]]
        for g, x in zip(gradients, (left, right), strict=True)
    )

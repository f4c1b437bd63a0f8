"""How energies become weights: softmax, and the sparse ones, which give most positions a weight of exactly 0.

All run in float32 and keep a mask as `masked_softmax` does: what it excludes gets 0, and so does a row without anything
to attend. Sparsemax and entmax are exact, by sorting, with gradients of their own: both need the weights alone.
"""

from keras import ops

from keras_attn_zoo.layers.common.masks import masked_softmax

# Below every threshold where the largest energy is 0, and small enough to be summed up without loss.
_OUTSIDE = -2.0
_EXCLUDED = -1e30


def sparsemax(energies, mask=None):
    """The point of the simplex that is nearest to the energies: p_j = max(e_j - τ, 0).

    Args:
        energies: `(..., source)`, any float type.
        mask: bool, broadcastable to `energies`, or None.

    Returns:
        float32 weights shaped like `energies`.

    Source: Martins and Astudillo 2016, algorithm 1.

    Example:
        >>> sparsemax([[0.0, 0.5, 3.0], [1.0, 1.0, 0.0]])  # [[0, 0, 1], [0.5, 0.5, 0]]
    """
    return _masked(_sparsemax, energies, mask)


def entmax15(energies, mask=None):
    """Halfway between softmax and sparsemax: p_j = max(e_j / 2 - τ, 0)².

    Args, returns: see `sparsemax`.

    Source: Peters, Niculae and Martins 2019, algorithm 2 (α = 1.5).

    Example:
        >>> entmax15([[0.0, 0.0, -5.0]])  # [[0.5, 0.5, 0]]
    """
    return _masked(_entmax15, energies, mask)


NORMALIZERS = {"softmax": masked_softmax, "sparsemax": sparsemax, "entmax15": entmax15}


def _masked(normalize, energies, mask):
    energies = ops.cast(energies, "float32")
    if mask is None:
        return normalize(energies)
    mask = ops.cast(mask, "bool")
    return ops.where(mask, normalize(ops.where(mask, energies, _EXCLUDED)), 0.0)


def plain_sparsemax(energies):
    """`sparsemax` of float32 energies without a mask, differentiated operation by operation."""
    shifted, largest_first, rank, sums = _sorted(energies)
    inside = 1.0 + rank * largest_first > sums
    return ops.maximum(shifted - _at_last(inside, (sums - 1.0) / rank), 0.0)


def plain_entmax15(energies):
    """`entmax15` of float32 energies without a mask, differentiated operation by operation."""
    shifted, largest_first, rank, sums = _sorted(energies / 2)
    mean = sums / rank
    # 1 less the squared distances from the mean: negative beyond the support.
    left = 1.0 - (ops.cumsum(ops.square(largest_first), axis=-1) - sums * mean)
    # The root of what is not positive would give its gradient, 0 times infinity, to all.
    thresholds = mean - ops.where(left > 0, ops.sqrt(ops.where(left > 0, left, 1.0) / rank), 0.0)
    inside = thresholds <= largest_first
    return ops.square(ops.maximum(shifted - _at_last(inside, thresholds), 0.0))


def _sorted(energies):
    """Energies whose largest is 0; these from the largest on, with their ranks and the sums up to each."""
    shifted = ops.maximum(energies - ops.max(energies, axis=-1, keepdims=True), _OUTSIDE)
    largest_first = ops.flip(ops.sort(shifted, axis=-1), axis=-1)
    rank = ops.cumsum(ops.ones_like(largest_first), axis=-1)
    return shifted, largest_first, rank, ops.cumsum(largest_first, axis=-1)


def _at_last(inside, thresholds):
    """The threshold at the last rank inside the support, `(..., 1)`; the ranks inside come first."""
    last = ops.sum(ops.cast(inside, "int32"), axis=-1, keepdims=True) - 1
    return ops.take_along_axis(thresholds, last, axis=-1)


@ops.custom_gradient
def _sparsemax(energies):
    weights = plain_sparsemax(energies)

    def gradient(*args, upstream=None):
        upstream = args[0] if upstream is None else upstream
        return _project(upstream, ops.cast(weights > 0, "float32"))

    return weights, gradient


@ops.custom_gradient
def _entmax15(energies):
    weights = plain_entmax15(energies)

    def gradient(*args, upstream=None):
        upstream = args[0] if upstream is None else upstream
        return _project(upstream, ops.sqrt(weights))

    return weights, gradient


def _project(upstream, share):
    """The Jacobian diag(s) - s sᵀ / Σ s times what comes from above."""
    mean = ops.sum(share * upstream, axis=-1, keepdims=True) / ops.sum(share, axis=-1, keepdims=True)
    return share * (upstream - mean)

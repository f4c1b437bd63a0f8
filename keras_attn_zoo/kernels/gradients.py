"""Hand-written backward passes, each beside a plain form, whose gradient by the backend a test compares it with."""

from keras import ops, tree

from keras_attn_zoo.kernels.function_transforms import custom_gradient, is_transformed
from keras_attn_zoo.kernels.labels import is_largest, of_labels, smoothed, with_values_of_labels
from keras_attn_zoo.kernels.pair_normalizer import guarded_log_normalizer, pairs_of, slices_of
from keras_attn_zoo.kernels.thresholds import (
    at_last,
    searched_entmax15,
    searched_sparsemax,
    sorted_energies,
    sorts_better,
)
from keras_attn_zoo.support.types import Tensor, TensorTree

# A sum of products of numbers up to 1 that is below this may have lost terms that float32 cannot represent.
SMALLEST_TOTAL = 1e-25


def upstream_of(inputs: TensorTree, upstream: TensorTree) -> Tensor:
    """The upstream gradient: PyTorch passes it by name, after the inputs; the other backends pass only it."""
    return tree.flatten(inputs if upstream is None else upstream)[0]


# The normalisers of sparse attention; the plain forms sort.


def plain_sparsemax(energies: Tensor) -> Tensor:
    """The plain form of `sparsemax_of`."""
    shifted, largest_first, rank, sums = sorted_energies(energies)
    inside = 1.0 + rank * largest_first > sums
    return ops.maximum(shifted - at_last(inside, (sums - 1.0) / rank), 0.0)


def plain_entmax15(energies: Tensor) -> Tensor:
    """The plain form of `entmax15_of`."""
    shifted, largest_first, rank, sums = sorted_energies(energies / 2)
    mean = sums / rank
    # 1 minus the squared distances from the mean: negative beyond the support.
    left = 1.0 - (ops.cumsum(ops.square(largest_first), axis=-1) - sums * mean)
    # The gradient of the root at 0, infinity times 0, would be NaN for all entries.
    thresholds = mean - ops.where(left > 0, ops.sqrt(ops.where(left > 0, left, 1.0) / rank), 0.0)
    inside = thresholds <= largest_first
    return ops.square(ops.maximum(shifted - at_last(inside, thresholds), 0.0))


def sparsemax_of(energies: Tensor) -> Tensor:
    """Sparsemax of float32 energies without a mask; the gradient needs only the weights."""
    return plain_sparsemax(energies) if is_transformed() else _sparsemax_of(energies)


@custom_gradient
def _sparsemax_of(energies):
    weights = plain_sparsemax(energies) if sorts_better(energies) else searched_sparsemax(energies)

    def gradient(*args, upstream=None):
        upstream = upstream_of(args, upstream)
        return _project(upstream, ops.cast(weights > 0, "float32"))

    return weights, gradient


def entmax15_of(energies: Tensor) -> Tensor:
    """Entmax of α = 1.5 of float32 energies without a mask; the gradient needs only the weights."""
    return plain_entmax15(energies) if is_transformed() else _entmax15_of(energies)


@custom_gradient
def _entmax15_of(energies):
    weights = plain_entmax15(energies) if sorts_better(energies) else searched_entmax15(energies)

    def gradient(*args, upstream=None):
        upstream = upstream_of(args, upstream)
        return _project(upstream, ops.sqrt(weights))

    return weights, gradient


def _project(upstream, share):
    """The Jacobian diag(s) - s sᵀ / Σ s times the upstream gradient."""
    mean = ops.sum(share * upstream, axis=-1, keepdims=True) / ops.sum(share, axis=-1, keepdims=True)
    return share * (upstream - mean)


# The normaliser of a mixture of softmaxes.


def plain_log_normalizer(left: Tensor, right: Tensor) -> Tensor:
    """The plain form of `log_normalizer`, by an array of pairs times vocabulary."""
    return ops.logsumexp(pairs_of(left, right), axis=-1)


def log_normalizer(left: Tensor, right: Tensor) -> Tensor:
    """Return log Σ_v exp(left_iv + right_jv) for all pairs i, j, without an array of pairs times vocabulary.

        Z_ij = Σ_v exp(left_iv - max left_i) · exp(right_jv - max right_j)

    is one product of two matrices. Every factor is at most 1, so nothing overflows.
    If the largest entries of left_i and right_j are far apart, by about 57 in the
    exponent, Z_ij is too small to be trusted, and everything is computed again in
    slices of the vocabulary with a maximum for each pair, which is correct at any
    range and many times slower. The gradients are computed in the same two ways.

    Args:
        left: `(batch, n, vocabulary)`, float32.
        right: `(batch, m, vocabulary)`, float32.

    Returns:
        float32 `(batch, n, m)`.

    Example:
        >>> log_normalizer(ops.zeros((1, 2, 4)), ops.zeros((1, 3, 4)))  # log 4, (1, 2, 3)
    """
    if is_transformed():
        return plain_log_normalizer(left, right)
    return _log_normalizer(ops.convert_to_tensor(left), ops.convert_to_tensor(right))


@custom_gradient
def _log_normalizer(left, right):
    left_max, right_max = ops.max(left, axis=-1, keepdims=True), ops.max(right, axis=-1, keepdims=True)
    left_exp, right_exp = ops.exp(left - left_max), ops.exp(right - right_max)
    shift = left_max + ops.transpose(right_max, (0, 2, 1))
    total = ops.matmul(left_exp, ops.transpose(right_exp, (0, 2, 1)))
    exact = ops.min(total) > SMALLEST_TOTAL
    result = ops.cond(
        exact,
        lambda: ops.log(ops.maximum(total, SMALLEST_TOTAL)) + shift,
        lambda: guarded_log_normalizer(left, right),
    )

    def gradient(*args, upstream=None):
        upstream = upstream_of(args, upstream)

        def by_products():
            ratio = upstream / ops.maximum(total, SMALLEST_TOTAL)
            return (
                left_exp * ops.matmul(ratio, right_exp),
                right_exp * ops.matmul(ops.transpose(ratio, (0, 2, 1)), left_exp),
            )

        return ops.cond(exact, by_products, lambda: _guarded_gradients(left, right, result, upstream))

    return result, gradient


def _guarded_gradients(left, right, result, upstream):
    """The gradients, slice by slice."""

    def slices(xs):
        share = ops.exp(pairs_of(*xs) - result[..., None]) * upstream[..., None]
        return ops.sum(share, axis=2), ops.sum(share, axis=1)

    gradients = ops.map(slices, (slices_of(left), slices_of(right)))
    return tuple(
        ops.reshape(ops.transpose(g, (1, 2, 0, 3)), (*ops.shape(x)[:2], -1))[..., : x.shape[-1]]
        for g, x in zip(gradients, (left, right), strict=True)
    )


# The loss per token.


def plain_token_losses(logits: Tensor, labels: Tensor, label_smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return loss, nll and correctness of every token, from the log-probabilities; the gradient is the backend's."""
    log_probs = ops.log_softmax(logits, axis=-1)
    gold = of_labels(log_probs, labels)
    uniform = -ops.mean(log_probs, axis=-1) if label_smoothing else 0.0
    return smoothed(-gold, uniform, label_smoothing), -gold, is_largest(log_probs, gold)


def fused_token_losses(logits: Tensor, labels: Tensor, label_smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `plain_token_losses` does; the gradient softmax(z) - (1 - ε) [v = y] - ε/V takes one pass.

    Compilers alone would scatter the gold part of the gradient into an array of zeros as large as the logits.
    """
    share = label_smoothing / logits.shape[-1]

    @custom_gradient
    def function(logits, labels):
        largest = ops.max(logits, axis=-1)
        normalizer = ops.sum(ops.exp(logits - largest[..., None]), axis=-1)
        log_normalizer = largest + ops.log(normalizer)
        gold = of_labels(logits, labels)
        nll = log_normalizer - gold
        uniform = log_normalizer - ops.mean(logits, axis=-1) if label_smoothing else 0.0

        def gradient(*upstream):
            # Only the loss, the first output, has a gradient; nll and correctness are only reported.
            upstream = tree.flatten(upstream)[0][..., None]
            is_gold = ops.arange(logits.shape[-1], dtype="int32") == labels[..., None]
            target = ops.where(is_gold, 1.0 - label_smoothing + share, share)
            # Not exp(z - log_normalizer): for large logits, the logarithm has too few digits.
            of_logits = ops.exp(logits - largest[..., None]) * (upstream / normalizer[..., None]) - upstream * target
            return of_logits, None

        return (smoothed(nll, uniform, label_smoothing), nll, is_largest(logits, gold)), gradient

    return function(logits, labels)


def kept_token_losses(logits: Tensor, labels: Tensor, label_smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `plain_token_losses` does; the softmax is kept for the gradient, softmax(z) - (1 - ε) [v = y] - ε/V.

    As few passes over the logits as there can be without a compiler that joins them: one operation for the softmax,
    and for the gradient one product, in which only the numbers of the gold tokens are then replaced.
    """
    share = label_smoothing / logits.shape[-1]
    still = ops.stop_gradient(logits)
    softmax, largest, gold = ops.softmax(still), ops.max(still, axis=-1), of_labels(still, labels)
    # The largest probability is 1 over the normaliser.
    log_normalizer = largest - ops.log(ops.max(softmax, axis=-1))
    nll = log_normalizer - gold
    uniform = log_normalizer - ops.mean(still, axis=-1) if label_smoothing else 0.0
    loss = smoothed(nll, uniform, label_smoothing)

    @custom_gradient
    def of(logits, labels, softmax, loss, nll):
        def gradient(*args, upstream=None):
            upstream = upstream_of(args, upstream)[..., None]
            found = softmax * upstream - share * upstream if label_smoothing else softmax * upstream
            of_gold = ops.exp(-nll)[..., None] * upstream - (1.0 - label_smoothing + share) * upstream
            return with_values_of_labels(found, labels, of_gold), None, None, None, None

        return loss, gradient

    return of(logits, labels, softmax, loss, nll), nll, ops.cast(gold >= largest, "float32")

"""Backward passes written by hand, for every backend that takes them: shorter or more exact than those it derives."""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import backend, ops, tree

from keras_attn_zoo.kernels.forms import takes_written_gradients
from keras_attn_zoo.kernels.known_weights import is_inference
from keras_attn_zoo.kernels.portable.expanded_pairs import leaves_pair, mapped, of_batch, pair_position
from keras_attn_zoo.kernels.portable.label_losses import of_labels, smoothed
from keras_attn_zoo.kernels.portable.linear_maps import kernel_gradient, transposed_matrix
from keras_attn_zoo.kernels.portable.loops import scan
from keras_attn_zoo.kernels.portable.mixtures import SMALLEST_TOTAL, guarded_log_normalizer, pairs_of, slices_of
from keras_attn_zoo.kernels.portable.sparse_normalizers import shifted_energies
from keras_attn_zoo.support.types import Tensor, TensorTree

# A threshold of entmax that has moved by no more than this is as near as float32 tells after one more round.
_ALMOST = 1e-4


def custom_gradient(function: Callable[..., tuple[Any, Callable]]) -> Callable:
    """Apply `keras.ops.custom_gradient`, but return the result alone in `inference`.

    TensorFlow keeps every hand-written gradient of a graph, and with it the graph, until the process ends.

    Example:
        >>> custom_gradient(lambda x: (x * x, lambda *args, upstream=None: args))(keras.ops.ones(()))  # 1.0
    """
    differentiable = keras.ops.custom_gradient(function)

    @functools.wraps(function)
    def run(*tensors):
        return function(*tensors)[0] if is_inference() else differentiable(*tensors)

    return run


def recomputed(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Apply `keras.remat`, but not in `inference`, nor where the backend takes no hand-written gradients.

    Example:
        >>> recomputed(keras.ops.tanh)(keras.ops.zeros(()))  # 0
    """
    again = keras.remat(function)

    @functools.wraps(function)
    def run(*tensors):
        return function(*tensors) if is_inference() or not takes_written_gradients() else again(*tensors)

    return run


def upstream_of(inputs: TensorTree, upstream: TensorTree) -> Tensor:
    """Return the upstream gradient: PyTorch passes it by name, after the inputs; other backends pass only it."""
    return tree.flatten(inputs if upstream is None else upstream)[0]


# The normalisers of sparse attention, whose gradient needs only the weights. Thresholds are found by Newton's method,
# since XLA sorts slowly: it approaches them from below and never overshoots, since the sum of weights is convex in the
# threshold, and takes a few rounds; the result is exact.


@custom_gradient
def sparsemax(energies: Tensor) -> Any:
    """Return sparsemax of float32 energies without a mask."""
    shifted = shifted_energies(energies)

    def closer(threshold):
        """The threshold of the positions above the present one: exact as soon as these are the support."""
        inside = shifted > threshold
        total = ops.sum(ops.where(inside, shifted, 0.0), axis=-1, keepdims=True)
        return (total - 1.0) / ops.sum(ops.cast(inside, "float32"), axis=-1, keepdims=True)

    weights = ops.maximum(shifted - _threshold(shifted, closer, 0.0), 0.0)

    def gradient(*args, upstream=None):
        return _project(upstream_of(args, upstream), ops.cast(weights > 0, "float32"))

    return weights, gradient


@custom_gradient
def entmax15(energies: Tensor) -> Any:
    """Return entmax of α = 1.5 of float32 energies without a mask."""
    shifted = shifted_energies(energies / 2)

    def closer(threshold):
        """Newton's step for the root of the summed weights, which is straight where all weights are equal."""
        above = ops.maximum(shifted - threshold, 0.0)
        root = ops.sqrt(ops.sum(ops.square(above), axis=-1, keepdims=True))
        return threshold + (root - 1.0) * root / ops.sum(above, axis=-1, keepdims=True)

    # The number of digits doubles in each round: after one more there are none to be gained.
    threshold = closer(_threshold(shifted, closer, _ALMOST))
    weights = ops.square(ops.maximum(shifted - threshold, 0.0))

    def gradient(*args, upstream=None):
        return _project(upstream_of(args, upstream), ops.sqrt(weights))

    return weights, gradient


def _threshold(shifted, closer, tolerance):
    """The threshold `(..., 1)`: `closer` takes it nearer from below, until no row moves by more than a tolerance."""

    def move(threshold, _):
        nearer = ops.maximum(threshold, closer(threshold))
        return nearer, ops.any(nearer - threshold > tolerance)

    start = ops.zeros_like(shifted[..., :1]) - 1.0
    return ops.while_loop(lambda _, moved: moved, move, move(start, None))[0]


def _project(upstream, share):
    """The Jacobian diag(s) - s sᵀ / Σ s times the upstream gradient."""
    mean = ops.sum(share * upstream, axis=-1, keepdims=True) / ops.sum(share, axis=-1, keepdims=True)
    return share * (upstream - mean)


# The normaliser of a mixture of softmaxes.


def log_normalizer(left: Tensor, right: Tensor) -> Tensor:
    """Return log Σ_v exp(left_iv + right_jv) without an array of pairs times vocabulary.

        Z_ij = Σ_v exp(left_iv - max left_i) · exp(right_jv - max right_j)

    is one product of two matrices. Every factor is at most 1, so nothing overflows. If the largest entries of left_i
    and right_j are far apart, by about 57 in the exponent, Z_ij is too small to be trusted, and everything is computed
    again in slices of the vocabulary with a maximum for each pair, which is correct at any range and many times slower.
    The gradients are computed in the same two ways.
    """
    return _log_normalizer(ops.convert_to_tensor(left), ops.convert_to_tensor(right))


@custom_gradient
def _log_normalizer(left, right):
    left_max, right_max = ops.max(left, axis=-1, keepdims=True), ops.max(right, axis=-1, keepdims=True)
    left_exp, right_exp = ops.exp(left - left_max), ops.exp(right - right_max)
    shift = left_max + ops.transpose(right_max, (0, 2, 1))
    total = ops.matmul(left_exp, ops.transpose(right_exp, (0, 2, 1)))
    exact = ops.min(total) > SMALLEST_TOTAL
    result = ops.cond(
        exact, lambda: ops.log(ops.maximum(total, SMALLEST_TOTAL)) + shift, lambda: guarded_log_normalizer(left, right)
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


def token_losses(logits: Tensor, labels: Tensor, label_smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return loss, nll and correctness; the softmax is kept for the gradient, softmax(z) - (1 - ε) [v = y] - ε/V.

    As few passes over the logits as there can be: one operation for the softmax, and for the gradient one product, in
    which only the numbers of the gold tokens are then replaced. Compilers alone would scatter the gold part of the
    gradient into an array of zeros as large as the logits.
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
            return _with_values_of_labels(found, labels, of_gold), None, None, None, None

        return loss, gradient

    return of(logits, labels, softmax, loss, nll), nll, ops.cast(gold >= largest, "float32")


def _with_values_of_labels(values, labels, of_labels):
    """The first argument with the numbers of the labels replaced."""
    rows, labels = ops.reshape(values, (-1, values.shape[-1])), ops.reshape(labels, (-1,))
    places = ops.stack([ops.arange(ops.shape(labels)[0], dtype="int32"), labels], axis=-1)
    return ops.reshape(ops.scatter_update(rows, places, ops.reshape(of_labels, (-1,))), ops.shape(values))


# The recurrence of expanded keys and values.


def pair_recurrence(steps: dict[str, Tensor], kernel: Tensor, bias: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the recurrence does; the gradient of the matrix is one product over all positions, after the loop."""
    # They have no gradient, but are arguments all the same: a closure would keep them beyond the trace they belong to.
    constant = [name for name in ("real", "noise") if name in steps]
    sizes = [steps[name].shape[2] for name in ("query", "context")]

    @custom_gradient
    def recur(query, plain, normalizer, kernel, bias, first, *constants):
        constants = dict(zip(constant, constants, strict=True))
        given = {"query": query, "context": plain, "normalizer": normalizer, **constants}
        begin = of_batch(first, query)
        position = pair_position(transposed_matrix(kernel), of_batch(bias, query), begin)
        _, (pairs, contexts, shares) = scan(position, begin, given)

        def gradient(*inputs, upstream=None):
            upstream = upstream_of(inputs, upstream)
            at = {**constants, "query": query, "context": contexts, "pair": pairs, "share": shares}
            at["to_context"] = ops.cast(upstream[:, :, : sizes[1]], query.dtype)
            at["to_share"] = upstream[:, :, sizes[1] :]

            def back(left, at):
                """From the gradient of the pair that a position leaves to that of the pair it finds."""
                to_context = at["to_context"] + mapped(ops.where(leaves_pair(at["real"], kernel), left, 0.0), kernel)
                _, value = ops.split(at["pair"], sizes[:1], axis=1)
                own, noise = ops.cast(at["share"], query.dtype), at.get("noise", 1)
                # With the plain context x and the share p: (1 - p) (value - x) = value - context.
                of_value = ops.cast((noise * value - at["context"]) * to_context, "float32")
                to_share = (1.0 - at["share"]) * at["to_share"] + ops.sum(of_value, axis=1, keepdims=True)
                to_energy = at["share"] * to_share
                found = [ops.cast(to_energy, query.dtype) * at["query"], own * noise * to_context]
                return ops.concatenate(found, axis=1), (left, to_context, to_energy)

            to_first, (to_pairs, to_contexts, to_energies) = scan(back, ops.zeros_like(begin), at, reverse=True)
            to_query = ops.cast(to_energies, query.dtype) * pairs[:, :, : sizes[0]]
            to_plain = (1 - ops.cast(shares, query.dtype)) * to_contexts
            through = ops.where(leaves_pair(constants["real"], kernel), to_pairs, 0.0)
            of_bias = ops.sum(through, axis=(0, 3))
            of_first = ops.sum(to_pairs - through, axis=(0, 3)) + ops.sum(to_first, axis=2)
            of_biases = (ops.cast(of_bias, bias.dtype), ops.cast(of_first, first.dtype))
            of_kernel = _gradient_of(kernel, contexts, through)
            return to_query, to_plain, -to_energies, of_kernel, *of_biases, *(None for _ in constants)

        found = [ops.cast(contexts, "float32"), shares]
        return ops.concatenate(found, axis=2), gradient

    given = (steps["query"], steps["context"], steps["normalizer"], kernel, bias, first)
    found = recur(*given, *(steps[name] for name in constant))
    return found[:, :, : sizes[1]], found[:, :, sizes[1] :]


def _gradient_of(kernel, contexts, through):
    """The gradient of the kernel, over all positions and sentences."""
    if len(kernel.shape) == 2:
        contexts, through = (ops.transpose(x, (0, 3, 1, 2)) for x in (contexts, through))
        contexts, through = (ops.reshape(x, (-1, x.shape[2] * x.shape[3])) for x in (contexts, through))
        found = kernel_gradient(contexts, through, backend.standardize_dtype(kernel.dtype))
    else:
        found = ops.einsum("inxb,inyb->nxy", contexts, through)
    return ops.cast(found, kernel.dtype)

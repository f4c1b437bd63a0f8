"""The recurrence of expanded keys and values, with a hand-written backward pass."""

from keras import backend, ops

from keras_attn_zoo.kernels.bfloat16 import transposed_in_memory
from keras_attn_zoo.kernels.function_transforms import custom_gradient, is_transformed
from keras_attn_zoo.kernels.gradients import upstream_of
from keras_attn_zoo.kernels.loops import scan
from keras_attn_zoo.kernels.product_gradients import kernel_gradient, summed_product
from keras_attn_zoo.support.processor import is_jax_on_cpu
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


def plain_pair_recurrence(
    steps: dict[str, Tensor], kernel: Tensor, bias: Tensor, first: Tensor
) -> tuple[Tensor, Tensor]:
    """The plain form of `pair_recurrence`, with the gradient of the loop left to the backend."""
    bias, first = (_of_batch(one, steps["query"]) for one in (bias, first))
    _, (_, contexts, shares) = scan(_position(ops.swapaxes(kernel, -1, -2), bias, first), first, steps)
    return contexts, shares


def pair_recurrence(steps: dict[str, Tensor], kernel: Tensor, bias: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """Attend from all positions to one more pair, an affine map of the previous position's contexts.

    The sentences of a batch stand last: then a step moves nothing, and multiplies the large matrix by a small one. Left
    to the backend, the gradient of the matrix would accumulate inside the loop, by a product at every position; here it
    is one product over all positions, after the loop.

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
    if is_transformed():
        return plain_pair_recurrence(steps, kernel, bias, first)
    # They have no gradient, but are arguments all the same: a closure would keep them beyond the trace they belong to.
    constant = [name for name in ("real", "noise") if name in steps]
    sizes = [steps[name].shape[2] for name in ("query", "context")]

    @custom_gradient
    def recur(query, plain, normalizer, kernel, bias, first, *constants):
        constants = dict(zip(constant, constants, strict=True))
        given = {"query": query, "context": plain, "normalizer": normalizer, **constants}
        begin = _of_batch(first, query)
        position = _position(_turned(kernel), _of_batch(bias, query), begin)
        _, (pairs, contexts, shares) = scan(position, begin, given)

        def gradient(*inputs, upstream=None):
            upstream = upstream_of(inputs, upstream)
            at = {**constants, "query": query, "context": contexts, "pair": pairs, "share": shares}
            at["to_context"] = ops.cast(upstream[:, :, : sizes[1]], query.dtype)
            at["to_share"] = upstream[:, :, sizes[1] :]

            def back(left, at):
                """From the gradient of the pair that a position leaves to that of the pair it finds."""
                to_context = at["to_context"] + _mapped(ops.where(_leaves(at["real"], kernel), left, 0.0), kernel)
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
            through = ops.where(_leaves(constants["real"], kernel), to_pairs, 0.0)
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


def _of_batch(pair, query):
    """A pair for each sentence."""
    return ops.broadcast_to(ops.cast(pair, query.dtype)[..., None], (*pair.shape, ops.shape(query)[-1]))


def _position(turned, bias, first):
    """One position of the loop: the pair that it leaves; the pair it found, its contexts and shares."""

    def position(pair, at):
        context, share = with_pair(at, *ops.split(pair, [at["query"].shape[1]], axis=1), axis=1)
        left = ops.where(_leaves(at["real"], turned), _mapped(context, turned) + bias, first)
        return left, (pair, context, share)

    return position


def _leaves(real, kernel):
    """Whether a position leaves a pair made from its contexts: of all heads if any attends, or of each that does."""
    return ops.any(real, axis=-3, keepdims=True) if len(kernel.shape) == 2 else real


def _turned(kernel):
    """The kernel with its last two axes exchanged, before the loop."""
    if len(kernel.shape) == 2 and backend.standardize_dtype(kernel.dtype) == "bfloat16" and is_jax_on_cpu():
        return transposed_in_memory(kernel)
    return ops.swapaxes(kernel, -1, -2)


def _mapped(x, factor):
    """Products of a matrix and the columns of x, `(heads, size, batch)`: of all heads, or of each."""
    kind, heads, batch = x.dtype, x.shape[0], ops.shape(x)[2]
    x = ops.cast(x, factor.dtype)
    if len(factor.shape) == 3:
        return ops.cast(ops.matmul(factor, x), kind)
    x = ops.reshape(x, (factor.shape[1], batch))
    found = summed_product(factor, x)
    return ops.cast(ops.reshape(found, (heads, factor.shape[0] // heads, batch)), kind)


def _gradient_of(kernel, contexts, through):
    """The gradient of the kernel, over all positions and sentences."""
    if len(kernel.shape) == 2:
        contexts, through = (ops.transpose(x, (0, 3, 1, 2)) for x in (contexts, through))
        contexts, through = (ops.reshape(x, (-1, x.shape[2] * x.shape[3])) for x in (contexts, through))
        found = kernel_gradient(contexts, through, backend.standardize_dtype(kernel.dtype))
    else:
        found = ops.einsum("inxb,inyb->nxy", contexts, through)
    return ops.cast(found, kernel.dtype)

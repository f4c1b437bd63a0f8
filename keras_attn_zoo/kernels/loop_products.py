"""Loops over positions in training by JAX on a CPU, with the gradients of weights as one product each, after the loop.

JAX adds up a weight's gradient position by position: Σ_i x_iᵀ δ_i, with few rows in each x_i, and all of the weight
read and written each time. Here the loop returns all x_i and δ_i, of which one product makes Xᵀ Δ.
"""

import contextvars
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras import backend, ops, tree

from keras_attn_zoo.kernels.bfloat16 import transposed_in_memory
from keras_attn_zoo.kernels.product_gradients import kernel_gradient, summed_product
from keras_attn_zoo.kernels.small_batch_products import turned_sum, uses_turned
from keras_attn_zoo.support.types import Tensor, TensorTree

_PRODUCTS: contextvars.ContextVar[Any] = contextvars.ContextVar("products", default=None)


def in_loop() -> bool:
    """Return whether the code runs in a step of `scan_with_weights`."""
    return _PRODUCTS.get() is not None


def product_in_loop(x: Tensor, kernel: Tensor, compute_dtype: str) -> Tensor | None:
    """Return x W in float32 if W is a weight of the `scan_with_weights` whose step calls this; otherwise None.

    Args:
        x: `(rows, inputs)`, or rows of each sentence, `(batch, rows, inputs)`.
        kernel: W, `(inputs, outputs)`, or one matrix for each sentence, `(batch, inputs, outputs)`.
        compute_dtype: the type of the factors.
    """
    products = _PRODUCTS.get()
    return None if products is None else products.multiply(x, kernel, compute_dtype)


def weighted_sum(weights: Tensor, value: Tensor) -> Tensor:
    """Return Σ_j α_ij v_j of weights `(batch, target, source)` and values `(batch, source, width)`, in their type.

    Example:
        >>> weighted_sum(ops.ones((2, 1, 3)), ops.ones((2, 3, 4)))  # (2, 1, 4), all 3
    """
    kind = backend.standardize_dtype(value.dtype)
    weights = ops.cast(weights, kind)
    found = product_in_loop(weights, value, kind)
    return ops.matmul(weights, value) if found is None else found


def scan_with_weights(
    step: Callable[[TensorTree, TensorTree], tuple[TensorTree, TensorTree]],
    initial_state: TensorTree,
    inputs: TensorTree,
    reverse: bool,
    weights: Sequence[Tensor],
) -> tuple[TensorTree, TensorTree]:
    """Run `loops.scan`; see there."""
    import jax

    weights = list(weights)
    uses = _count(step, initial_state, inputs, weights)
    if not uses:
        return jax.lax.scan(step, initial_state, inputs, reverse=reverse)
    factors = [use.factors(weights[use.place]) for use in uses]

    def zeros_beside():
        """Zeros beside the products: δ_i is their gradient."""
        length = tree.flatten(inputs)[0].shape[0]
        return [ops.zeros((length, *use.shape), "float32") for use in uses]

    def run(beside, state, inputs):
        def position(state, at):
            beside, at = at
            with _Products(weights, zip(factors, beside, strict=True)) as products:
                state, output = step(state, at)
            return state, (output, products.inputs)

        state, (outputs, found) = jax.lax.scan(position, state, (beside, inputs), reverse=reverse)
        return (state, outputs), found

    run, constants = _closed(run, zeros_beside(), initial_state, inputs)

    @jax.custom_vjp
    def loop(weights, state, inputs, constants):
        return run(constants, zeros_beside(), state, inputs)[0]

    def forward(weights, state, inputs, constants):
        results, pull, found = jax.vjp(run, constants, zeros_beside(), state, inputs, has_aux=True)
        return results, (pull, found, weights)

    def backward(kept, upstream):
        pull, found, weights = kept
        of_constants, deltas, of_state, of_inputs = pull(upstream)
        of_weights = [ops.zeros_like(weight) for weight in weights]
        for use, x, delta in zip(uses, found, deltas, strict=True):
            of_weights[use.place] += ops.cast(use.gradient(x, delta), of_weights[use.place].dtype)
        return _differentiated_once((of_weights, of_state, of_inputs, of_constants), weights)

    loop.defvjp(forward, backward)
    return loop(weights, initial_state, inputs, constants)


def _closed(function, *arguments):
    """A function without a closure, and the constants that it takes first: all values that come from outside.

    `jax.closure_convert` leaves those without a gradient, such as masks, in the closure, where they would outlive their
    trace if the model is compiled inside of what is differentiated.
    """
    import jax
    from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

    traced, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    structure = jax.tree.structure(shapes)

    def of(constants, *arguments):
        found = jaxpr_as_fun(ClosedJaxpr(traced.jaxpr, constants))(*jax.tree.leaves(arguments))
        return jax.tree.unflatten(structure, found)

    return of, list(traced.consts)


def _differentiated_once(gradients, weights):
    """Gradients that raise if they are differentiated: theirs would lack what depends on the weights."""
    import jax

    @jax.custom_jvp
    def of(gradients, weights):
        return gradients

    @of.defjvp
    def raise_error(primals, tangents):
        raise NotImplementedError(
            "under JAX on a CPU, an RNN in training has first derivatives alone: for the gradient of a gradient, call "
            "it with `training=False`."
        )

    leaves, structure = jax.tree.flatten(gradients)
    real = [place for place, leaf in enumerate(leaves) if leaf.dtype != jax.dtypes.float0]
    for place, leaf in zip(real, of([leaves[place] for place in real], weights), strict=True):
        leaves[place] = leaf
    return jax.tree.unflatten(structure, leaves)


class _Use(NamedTuple):
    """A product in a step: the place of its weight among all, the shape of its result, and the type of its factors."""

    place: int
    shape: tuple[int, ...]
    compute_dtype: str

    def factors(self, weight):
        """W in the type of the products and, if that is faster, Wᵀ."""
        kernel = ops.cast(weight, self.compute_dtype)
        is_turned = len(self.shape) == 2 and uses_turned(self.compute_dtype, self.shape[0])
        return kernel, transposed_in_memory(kernel) if is_turned else None

    def gradient(self, x, delta):
        """Xᵀ Δ of all positions, in float32."""
        if len(self.shape) == 3:
            x, delta = (_rows_of_each_sentence(one) for one in (x, delta))
            return ops.matmul(ops.transpose(x, (0, 2, 1)), delta)
        x, delta = (ops.reshape(one, (-1, one.shape[-1])) for one in (x, delta))
        return kernel_gradient(x, delta, self.compute_dtype)


class _Products:
    """The products of one step with weights, and their inputs x_i in the same order.

    `given` has factors and zeros for each; without it, the uses are only noted.
    """

    def __init__(self, weights, given=None):
        self._place = {id(weight): place for place, weight in enumerate(weights)}
        self._given = given
        self.uses = []
        self.inputs = []

    def __enter__(self):
        self._token = _PRODUCTS.set(self)
        self._trace = _trace()
        return self

    def __exit__(self, *error):
        _PRODUCTS.reset(self._token)

    def multiply(self, x, kernel, compute_dtype):
        place, ranks = self._place.get(id(kernel)), (len(x.shape), len(kernel.shape))
        known = ranks == (2, 2) and compute_dtype in ("float32", "bfloat16")
        if place is None or not (known or (ranks == (3, 3) and compute_dtype == "float32")):
            return None
        # What JAX traces by itself, such as the body of `keras.remat`, it may use again elsewhere.
        if _trace() != self._trace:
            return None
        # Arrays of float32 are written faster.
        self.inputs.append(ops.cast(x, "float32"))
        if self._given is None:
            shape = (*x.shape[:-1], kernel.shape[-1])
            self.uses.append(_Use(place, shape, compute_dtype))
            return ops.zeros(shape, "float32")
        return _multiply(x, *next(self._given), compute_dtype)


def _trace():
    from jax.extend.core import get_opaque_trace_state

    return get_opaque_trace_state(convention="keras_attn_zoo")


def _rows_of_each_sentence(x):
    """From `(length, batch, rows, width)` to `(batch, length · rows, width)`."""
    return ops.reshape(ops.transpose(x, (1, 0, 2, 3)), (x.shape[1], -1, x.shape[3]))


def _count(step, state, inputs, weights):
    """The uses of weights in a step, in their order."""
    import jax

    uses = []

    def count(state, at):
        with _Products(weights) as products:
            found = step(state, at)
        uses.extend(products.uses)
        return found

    jax.eval_shape(count, state, tree.map_structure(lambda x: x[0], inputs))
    return uses


def _multiply(x, factors, beside, compute_dtype):
    """x W, whose gradient goes to x and to the zeros beside it."""
    import jax

    @jax.custom_vjp
    def of(x, kernel, turned, beside):
        x = ops.cast(x, compute_dtype)
        return summed_product(x, kernel) if turned is None else turned_sum(x, turned)

    def forward(x, kernel, turned, beside):
        return of(x, kernel, turned, beside), (kernel, turned)

    kind = x.dtype

    def backward(kept, delta):
        kernel, turned = kept
        cast = ops.cast(delta, compute_dtype)
        of_x = summed_product(cast, kernel, True) if turned is None else turned_sum(cast, kernel)
        return ops.cast(of_x, kind), *jax.tree.map(ops.zeros_like, kept), delta

    of.defvjp(forward, backward)
    return of(x, *jax.lax.stop_gradient(factors), beside)

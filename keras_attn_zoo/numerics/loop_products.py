"""Loops over positions in training by JAX on a CPU, with the gradients of weights as one product each, after the loop.

JAX adds up a weight's gradient position by position: Σ_i x_iᵀ δ_i, with few rows in each x_i, and all of the weight
read and written each time. Here the loop returns all x_i and δ_i, of which one product makes Xᵀ Δ.
"""

import contextvars
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras import ops, tree

from keras_attn_zoo.numerics.bfloat16 import product_in_float32, transposed_in_memory
from keras_attn_zoo.numerics.few_rows import turned_sum, uses_turned
from keras_attn_zoo.numerics.product_gradients import bfloat16_kernel_gradient
from keras_attn_zoo.types import Tensor, TensorTree

_PRODUCTS: contextvars.ContextVar[Any] = contextvars.ContextVar("products", default=None)


def in_loop() -> bool:
    """Return whether the code runs in a step of `scan_with_weights`."""
    return _PRODUCTS.get() is not None


def product_in_loop(x: Tensor, kernel: Tensor, compute_dtype: str) -> Tensor | None:
    """Return x W in float32 if W is a weight of the `scan_with_weights` whose step calls this; otherwise None.

    Args:
        x: `(rows, inputs)`, or one row for each sentence, `(batch, 1, inputs)`.
        kernel: W, `(inputs, outputs)`, or one matrix for each sentence, `(batch, inputs, outputs)`.
        compute_dtype: the type of the factors.
    """
    products = _PRODUCTS.get()
    return None if products is None else products.multiply(x, kernel, compute_dtype)


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
    length = tree.flatten(inputs)[0].shape[0]
    # Zeros beside the products: δ_i is their gradient.
    beside = [ops.zeros((length, *use.shape), "float32") for use in uses]
    factors = [use.factors(weights[use.weight]) for use in uses]

    def run(beside, state, inputs):
        def position(state, at):
            beside, at = at
            with _Products(weights, uses, factors, beside) as products:
                state, output = step(state, at)
            return state, (output, products.inputs)

        state, (outputs, found) = jax.lax.scan(position, state, (beside, inputs), reverse=reverse)
        return (state, outputs), found

    run, constants = jax.closure_convert(run, beside, initial_state, inputs)

    @jax.custom_vjp
    def loop(weights, state, inputs, constants):
        return run(beside, state, inputs, *constants)[0]

    def forward(weights, state, inputs, constants):
        results, pull, found = jax.vjp(run, beside, state, inputs, *constants, has_aux=True)
        return results, (pull, found, weights)

    def backward(kept, upstream):
        pull, found, weights = kept
        deltas, of_state, of_inputs, *of_constants = pull(upstream)
        of_weights = [ops.zeros_like(weight) for weight in weights]
        for use, x, delta in zip(uses, found, deltas, strict=True):
            of_weights[use.weight] += ops.cast(use.gradient(x, delta), of_weights[use.weight].dtype)
        return of_weights, of_state, of_inputs, of_constants

    loop.defvjp(forward, backward)
    return loop(weights, initial_state, inputs, constants)


class _Use(NamedTuple):
    """A product in a step: the place of its weight among all, the shape of its result, and the type of its factors."""

    weight: int
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
            # Positions become the rows of each sentence.
            return ops.matmul(ops.transpose(x[:, :, 0], (1, 2, 0)), ops.transpose(delta[:, :, 0], (1, 0, 2)))
        x, delta = (ops.cast(ops.reshape(one, (-1, one.shape[-1])), self.compute_dtype) for one in (x, delta))
        if self.compute_dtype == "bfloat16":
            return bfloat16_kernel_gradient(x, delta)
        return ops.matmul(ops.transpose(x), delta)


class _Products:
    """The products of one step with weights, and their inputs x_i in the order of `uses`."""

    def __init__(self, weights, uses=None, factors=(), beside=()):
        self._place = {id(weight): place for place, weight in enumerate(weights)}
        self._counts = uses is None
        self._given = iter(zip(factors, beside, strict=True))
        self.uses = [] if uses is None else uses
        self.inputs = []

    def __enter__(self):
        from jax.extend.core import get_opaque_trace_state

        self._token = _PRODUCTS.set(self)
        self._trace = get_opaque_trace_state()
        return self

    def __exit__(self, *error):
        _PRODUCTS.reset(self._token)

    def multiply(self, x, kernel, compute_dtype):
        from jax.extend.core import get_opaque_trace_state

        place = self._place.get(id(kernel))
        if place is None or compute_dtype not in ("float32", "bfloat16"):
            return None
        # What JAX traces by itself, such as the body of `keras.remat`, it may use again elsewhere.
        if get_opaque_trace_state() != self._trace:
            return None
        # Arrays of float32 are written faster.
        self.inputs.append(ops.cast(x, "float32"))
        if self._counts:
            shape = (*x.shape[:-1], kernel.shape[-1])
            self.uses.append(_Use(place, shape, compute_dtype))
            return ops.zeros(shape, "float32")
        return _multiply(x, *next(self._given), compute_dtype)


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
        return _product(x, kernel, False) if turned is None else turned_sum(x, turned)

    def forward(x, kernel, turned, beside):
        return of(x, kernel, turned, beside), (kernel, turned)

    def backward(kept, delta):
        kernel, turned = kept
        cast = ops.cast(delta, compute_dtype)
        of_x = _product(cast, kernel, True) if turned is None else turned_sum(cast, kernel)
        return ops.cast(of_x, x.dtype), *jax.tree.map(ops.zeros_like, kept), delta

    of.defvjp(forward, backward)
    return of(x, *jax.lax.stop_gradient(factors), beside)


def _product(x, kernel, transposed):
    if x.dtype == "bfloat16":
        return product_in_float32(x, kernel, transposed)
    return ops.matmul(x, ops.swapaxes(kernel, -1, -2) if transposed else kernel)

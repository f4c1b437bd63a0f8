"""Forms for JAX on a CPU: products as XLA computes them fastest, loops in training, the steps of a search."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
from keras import backend, ops, tree

from keras_attn_zoo.kernels.forms import plain
from keras_attn_zoo.kernels.known_weights import is_inference, prepared, repeated_products, repeating
from keras_attn_zoo.kernels.portable import linear_maps
from keras_attn_zoo.kernels.portable.linear_maps import as_matrix, scaled_back
from keras_attn_zoo.kernels.processor import has_amx_int8, has_avx512, has_avx512_vnni, is_amd, is_intel
from keras_attn_zoo.kernels.written_gradients import custom_gradient
from keras_attn_zoo.support.compat import stateless_scope
from keras_attn_zoo.support.threads import cores
from keras_attn_zoo.support.types import Tensor, TensorTree

# Products in bfloat16. XLA converts both factors to float32 first, unless the sum is one of float32 and rows stand in
# the order of memory: with this form, a step of an RNN takes half the time.


def product_in_float32(x: Tensor, kernel: Tensor, transposed: bool = False) -> Tensor:
    """Return x W, or x Wᵀ, of bfloat16 matrices, summed in float32.

    Barriers keep XLA from joining it with a transposition of x or of the result, to a product that it cannot compute.
    """
    from jax.lax import dot_general
    from jax.lax import optimization_barrier as barrier

    axes = ((1,), (int(transposed),)), ((), ())
    return barrier(dot_general(barrier(x), kernel, axes, preferred_element_type="float32"))


def transposed_in_memory(x: Tensor) -> Tensor:
    """Return xᵀ of a matrix, moved: XLA would only read it in another order, and then convert it to float32."""
    from jax.lax import optimization_barrier as barrier

    # Those around the transposition make it an operation of its own, which takes half the time.
    return ops.reshape(barrier(ops.ravel(barrier(ops.transpose(barrier(x))))), x.shape[::-1])


def matrix_product(x: Tensor, kernel: Tensor, transposed: bool = False) -> Tensor:
    """Return x W, or x Wᵀ, of matrices; of bfloat16 numbers, summed in float32."""
    if _is_bfloat16(x):
        return product_in_float32(x, kernel, transposed)
    return ops.matmul(x, ops.swapaxes(kernel, -1, -2) if transposed else kernel)


def transposed_matrix(kernel: Tensor) -> Tensor:
    """Return a kernel with its last two axes exchanged; one of bfloat16 as XLA multiplies by it in a loop."""
    if len(kernel.shape) == 2 and _is_bfloat16(kernel):
        return transposed_in_memory(kernel)
    return ops.swapaxes(kernel, -1, -2)


def bfloat16_product(x: Tensor, kernel: Tensor, bias: Tensor, transposed: bool) -> Tensor:
    """Return x W + b, or x Wᵀ + b, of bfloat16 rows, summed in float32; a W of float32 has a gradient of float32."""

    @custom_gradient
    def of(x, kernel, bias):
        factor = ops.cast(kernel, x.dtype)

        def gradient(upstream):
            # A product with rows of ones, of which XLA wants two, is faster than a sum.
            ones = ops.ones((2, upstream.shape[0]), upstream.dtype)
            found = (
                product_in_float32(upstream, factor, not transposed),
                kernel_gradient(*((upstream, x) if transposed else (x, upstream)), "bfloat16"),
                product_in_float32(ones, upstream)[0],
            )
            return tuple(ops.cast(one, given.dtype) for one, given in zip(found, (x, kernel, bias), strict=True))

        return ops.cast(product_in_float32(x, factor, transposed) + ops.cast(bias, "float32"), x.dtype), gradient

    return of(x, kernel, bias)


def kernel_gradient(x: Tensor, delta: Tensor, compute_dtype: str) -> Tensor:
    """Return Xᵀ Δ, the gradient of a kernel, computed in a type; of bfloat16, summed in float32."""
    x, delta = ops.cast(x, compute_dtype), ops.cast(delta, compute_dtype)
    if compute_dtype != "bfloat16":
        return ops.matmul(ops.transpose(x), delta)
    if x.shape[1] <= delta.shape[1]:
        return product_in_float32(transposed_in_memory(x), delta)
    return ops.transpose(product_in_float32(transposed_in_memory(delta), x))


# Products with weights. XLA repacks the right factor of a product each time, which in a step of a search is all weights
# instead of the few hypotheses; (Wᵀ xᵀ)ᵀ repacks these, if Wᵀ was prepared.

# With up to so many rows, an Intel Xeon then takes two thirds of the time, and an AMD EPYC without AVX-512 0.4 to 0.9.
_SMALL_BATCHES = {"float32": 64, "bfloat16": 128}
# On an Intel Xeon, 50 columns of float32 take 1.8 times as long as 64, and 9 take 1.4 times as long as 16: whole
# vectors and groups of them are fast, the rest is not. From 17 columns on, it pays to compute up to half as many more.
# On an AMD EPYC without AVX-512, only the last 9 to 15 columns are slow, 28 taking 1.9 times as long as 32: 50 take 0.8
# of the time of 64. Intel's without AVX-512 were not measured.
_WHOLE_VECTOR = 16
_MOST_FILLED_UP = 1.5
_MOST_LEFT = 8


def gains_from_transposing(compute_dtype: str, rows: int) -> bool:
    """Return whether x W of so many rows is faster as (Wᵀ xᵀ)ᵀ.

    On an AMD EPYC with AVX-512 it takes longer: searches in bfloat16 by a twentieth to two thirds, the fewer the rows.
    """
    wants = is_intel() or (is_amd() and not has_avx512())
    return wants and 1 < rows <= _SMALL_BATCHES.get(compute_dtype, 0)


def linear(
    x: Tensor,
    weight: keras.Variable | Tensor,
    bias: keras.Variable | Tensor | None = None,
    transposed: bool = False,
    compute_dtype: str | None = None,
) -> Tensor:
    """Return x W + b along the last axis: in bfloat16 summed in float32, of small batches with a prepared Wᵀ.

    In a step of a loop in training, products with its weights are those of the loop.
    """
    kind, width = backend.standardize_dtype(x.dtype), x.shape[-1]
    compute_dtype = compute_dtype or kind
    rows, known = ops.reshape(x, (-1, width)), prepared(weight)
    bias = None if bias is None else ops.reshape(bias, (-1,))
    if known is None:
        kernel = master_weight(weight, compute_dtype) if isinstance(weight, keras.Variable) else weight
        kernel = as_matrix(kernel, width, transposed)
    else:
        kernel, transposed = known
    products = None if transposed else repeated_products()
    found = None if products is None else products.multiply(rows, kernel, compute_dtype)
    if found is None:
        found = _product(ops.cast(rows, compute_dtype), kernel, bias, transposed)
    elif bias is not None:
        found = found + ops.cast(bias, "float32")
    # Only bfloat16 differs from the type of the factors: JAX has no float64 unless told otherwise.
    if "bfloat16" in (kind, backend.standardize_dtype(found.dtype)):
        found = ops.cast(found, kind)
    return ops.reshape(found, (*ops.shape(x)[:-1], found.shape[-1]))


def _product(x, kernel, bias, transposed):
    """x W + b of rows, by a matrix or its transpose."""
    kind = backend.standardize_dtype(x.dtype)
    if transposed and is_inference() and gains_from_transposing(kind, x.shape[0]):
        return small_batch_product(x, ops.cast(kernel, kind), bias)
    if kind == "bfloat16" and backend.standardize_dtype(kernel.dtype) in ("bfloat16", "float32"):
        outputs = kernel.shape[int(not transposed)]
        return bfloat16_product(x, kernel, ops.zeros((outputs,), kind) if bias is None else bias, transposed)
    found = ops.matmul(x, ops.transpose(kernel) if transposed else kernel)
    return found if bias is None else found + ops.cast(bias, found.dtype)


def small_batch_product(x: Tensor, transposed: Tensor, bias: Tensor | None) -> Tensor:
    """Return x W + b of rows as (Wᵀ xᵀ)ᵀ + b, given Wᵀ in the type of x; `bias` is None for none."""
    if not _is_bfloat16(x):
        found = _product_of_columns(x, transposed)
        return found if bias is None else found + ops.cast(bias, found.dtype)
    found = product_in_float32(transposed, transposed_in_memory(x))
    if bias is not None:
        found = found + ops.cast(bias, "float32")[:, None]
    return transposed_in_memory(ops.cast(found, x.dtype))


def _product_of_columns(x, transposed):
    """The product in float32. Barriers keep XLA from swapping the factors back."""
    from jax.lax import optimization_barrier as barrier

    rows = x.shape[0]
    columns = ops.transpose(ops.pad(x, [[0, fast_columns(rows) - rows], [0, 0]]))
    return ops.transpose(barrier(ops.matmul(barrier(transposed), barrier(columns))))[:rows]


def fast_columns(rows: int) -> int:
    """Return the number of columns, at least as many, that take the least time in a product in float32."""
    power = 1 << (rows - 1).bit_length()
    if power <= _WHOLE_VECTOR:
        return power
    if has_avx512():
        return power if power <= min(_SMALL_BATCHES["float32"], _MOST_FILLED_UP * rows) else rows
    left = rows % _WHOLE_VECTOR
    return rows - left + _WHOLE_VECTOR if left > _MOST_LEFT else rows


def preparation(compute_dtype: str, in_int8: bool, rows: int | None) -> str | None:
    """Return "transposed" for small batches that gain from it, "dequantized" where products of integers are slow."""
    if in_int8 and not (compute_dtype == "float32" and integers_are_slow()):
        return None
    if rows is not None and gains_from_transposing(compute_dtype, rows):
        return "transposed"
    return "dequantized" if in_int8 else None


def master_weight(weight: keras.Variable | Tensor, compute_dtype: str) -> Tensor:
    """Return a weight of float32 for products in bfloat16 as it is, if its gradient is wanted.

    The gradient then is the sum of the product, in float32. Otherwise it would be rounded to bfloat16 and back, which
    costs two more passes over all weights.
    """
    scope = stateless_scope()
    if compute_dtype == "bfloat16" and isinstance(weight, keras.Variable) and scope is not None and not is_inference():
        # In a call of its layer, `weight.value` is cast already.
        value = scope.get_current_value(weight)
        if value is not None and value.dtype == "float32":
            return value
    return ops.cast(weight, compute_dtype)


def operand_dtype(compute_dtype: str) -> str:
    """Return float32 in place of bfloat16, which XLA would convert memory and all, in each step of a search."""
    return "float32" if compute_dtype == "bfloat16" else compute_dtype


def _is_bfloat16(x):
    return backend.standardize_dtype(x.dtype) == "bfloat16"


# Products of integers.

# From this version of JAX on, products of int8 use what the processor has. Those before take 3.6 to 9 times as long as
# products of float32 on an Intel Xeon with VNNI.
_SIGNED_SINCE = (0, 8, 1)
# From this one on, products of uint8 and int8 do.
_UNSIGNED_SINCE = (0, 10, 1)


def integers_are_slow() -> bool:
    """Return whether products of int8 take longer than those of float32, as by JAX on a CPU without VNNI or AMX.

    On an AMD EPYC with AVX2 alone, they take 1.33 times as long in a search. XLA uses VNNI only in vectors of AVX-512.
    Before JAX 0.8.1, they take longer there too. Processors other than AMD's and Intel's were not measured.
    """
    if not (is_amd() or is_intel()):
        return False
    return not (_jax_is_from(_SIGNED_SINCE) and (has_avx512_vnni() or has_amx_int8()))


def uses_unsigned() -> bool:
    """Return whether a product of uint8 and int8 is faster than one of int8.

    VNNI multiplies an unsigned number by a signed one. From JAX 0.10.1 on, XLA computes products of uint8 and int8 with
    it, and those of int8 alone with instructions for int16: a search takes 1.6 times as long on an AMD EPYC with
    AVX-512, twice as long on an Intel Xeon. Most versions before fail. AMX multiplies both.
    """
    return has_avx512_vnni() and not has_amx_int8() and _jax_is_from(_UNSIGNED_SINCE)


def _jax_is_from(version):
    import jax

    return jax.__version_info__ >= version


def int8_linear(
    x: Tensor,
    weight: keras.Variable,
    scale: keras.Variable | Tensor,
    bias: keras.Variable | Tensor | None,
    quantizer: Any,
    compute_dtype: str,
) -> Tensor:
    """Return x W + b of a kernel in int8: by what was prepared in floating point, or by products of uint8 and int8."""
    if prepared(weight) is not None:
        return linear(x, weight, bias, compute_dtype=compute_dtype)
    if not uses_unsigned():
        return plain(linear_maps.int8_linear)(x, weight, scale, bias, quantizer, compute_dtype)
    rows, of_rows = quantizer(ops.reshape(x, (-1, x.shape[-1])), axis=-1)
    found = unsigned_product(rows, as_matrix(ops.convert_to_tensor(weight), x.shape[-1]))
    return scaled_back(found, x, scale, of_rows, bias, compute_dtype)


def unsigned_product(x: Tensor, kernel: Tensor) -> Tensor:
    """Return x W of int8 matrices in int32, exactly, as (x + 128) W - 128 · 1 W.

    XLA moves the second product, which depends on W alone, out of loops. A product of one row takes 2 to 19 times as
    long as one of two, so a row of zeros is added.
    """
    from jax.lax import bitcast_convert_type

    rows = x.shape[0]
    if rows == 1:
        x = ops.pad(x, [[0, 1], [0, 0]])
    # x + 128 of two's complement.
    moved = ops.bitwise_xor(bitcast_convert_type(x, "uint8"), ops.cast(128, "uint8"))
    shift = _mixed_product(ops.full((2, kernel.shape[0]), 128, dtype="uint8"), kernel)[:1]
    return (_mixed_product(moved, kernel) - shift)[:rows]


def _mixed_product(x, kernel):
    """The product of uint8 and int8. JAX would convert both to int32 first, unless an algorithm is named."""
    from jax.lax import DotAlgorithmPreset, dot_general

    axes = ((1,), (0,)), ((), ())
    return dot_general(x, kernel, axes, precision=DotAlgorithmPreset.DEFAULT, preferred_element_type="int32")


# Loops over positions in training, with the gradients of weights as one product each, after the loop. JAX would add up
# a weight's gradient position by position: Σ_i x_iᵀ δ_i, with few rows in each x_i, and all of the weight read and
# written each time. Here the loop returns all x_i and δ_i, of which one product makes Xᵀ Δ.


def weighted_sum(weights: Tensor, value: Tensor) -> Tensor:
    """Return Σ_j α_ij v_j, in a loop in training as one of its products."""
    kind = backend.standardize_dtype(value.dtype)
    weights, products = ops.cast(weights, kind), repeated_products()
    found = None if products is None else products.multiply(weights, value, kind)
    return ops.matmul(weights, value) if found is None else found


def scan(
    step: Callable[[TensorTree, TensorTree], tuple[TensorTree, TensorTree]],
    initial_state: TensorTree,
    inputs: TensorTree,
    reverse: bool = False,
    weights: Sequence[Tensor] = (),
) -> tuple[TensorTree, TensorTree]:
    """Run steps over the first axis of `inputs`, with the gradients of `weights` as one product each.

    Such a step is traced twice, and has first derivatives by reverse mode alone.
    """
    import jax

    weights = list(weights)
    if not weights:
        return ops.scan(step, initial_state, inputs, reverse=reverse)
    uses = _count(step, initial_state, inputs, weights)
    if not uses:
        return jax.lax.scan(step, initial_state, inputs, reverse=reverse)
    factors = [ops.cast(weights[use.place], use.compute_dtype) for use in uses]

    def zeros_beside():
        """Zeros beside the products: δ_i is their gradient."""
        length = tree.flatten(inputs)[0].shape[0]
        return [ops.zeros((length, *use.shape), "float32") for use in uses]

    def run(beside, state, inputs):
        def position(state, at):
            beside, at = at
            products = _Products(weights, zip(factors, beside, strict=True))
            with repeating(products):
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
        self._given, self._trace = given, _trace()
        self.uses = []
        self.inputs = []

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
        products = _Products(weights)
        with repeating(products):
            found = step(state, at)
        uses.extend(products.uses)
        return found

    jax.eval_shape(count, state, tree.map_structure(lambda x: x[0], inputs))
    return uses


def _multiply(x, kernel, beside, compute_dtype):
    """x W, whose gradient goes to x and to the zeros beside it."""
    import jax

    @jax.custom_vjp
    def of(x, kernel, beside):
        return matrix_product(ops.cast(x, compute_dtype), kernel)

    def forward(x, kernel, beside):
        return of(x, kernel, beside), kernel

    kind = x.dtype

    def backward(kernel, delta):
        of_x = matrix_product(ops.cast(delta, compute_dtype), kernel, True)
        return ops.cast(of_x, kind), ops.zeros_like(kernel), delta

    of.defvjp(forward, backward)
    return of(x, jax.lax.stop_gradient(kernel), beside)


# Steps of a search.

# Numbers per block: of 16 to 64, the fastest with 4 and with 12 candidates.
BLOCK = 32
# More chunks take longer to compile; smaller ones are hardly faster to read.
_MOST_CHUNKS = 4
_FEWEST_POSITIONS = 8
# Memory grows with them.
_MOST_BATCHES = 4


def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest numbers of each row and their places, in two passes over blocks.

    The k largest numbers are in the k blocks with the largest maxima, and of equal numbers, the first are in the first
    of these blocks. So one pass for the maxima is enough, and a search among k blocks. XLA's own search takes twice to
    five times as long.
    """
    size = x.shape[-1]
    # Among few numbers there is nothing to gain.
    if size < 4 * k * BLOCK:
        return ops.top_k(x, k=k)
    count = -(-size // BLOCK)
    padded = ops.pad(x, ((0, 0), (0, count * BLOCK - size)), constant_values=float("-inf"))
    _, blocks = ops.top_k(ops.max(ops.reshape(padded, (-1, count, BLOCK)), axis=-1), k=k)
    places = ops.sort(blocks, axis=-1)[..., None] * BLOCK + ops.arange(BLOCK, dtype="int32")
    places = ops.reshape(places, (-1, k * BLOCK))
    numbers = ops.take_along_axis(x, ops.minimum(places, size - 1), axis=1)
    values, found = ops.top_k(ops.where(places < size, numbers, float("-inf")), k=k)
    return values, ops.take_along_axis(places, found, axis=1)


def chunk_sizes(length: int) -> list[int]:
    """Return the places of several chunks, of which a step reads those that it has reached.

    A search has room for the longest translation, and a step would read all of it, most of which lies ahead. XLA knows
    no sizes that change from step to step, but it can leave out a chunk. On a GPU, that would wait for the processor.
    """
    size = max(_FEWEST_POSITIONS, -(-length // _MOST_CHUNKS))
    return [min(size, length - start) for start in range(0, length, size)] or [0]


def parallel_batches() -> int:
    """Return one batch for each core, up to a limit.

    JAX divides a product among all cores. Those of a search are small, so that the cores wait for each other more than
    a third of the time. JAX's settings that hold in a `with` alone, such as `jax.debug_nans`, hold in one thread: under
    these, one batch after the other.
    """
    if _has_settings_of_this_thread():
        return 1
    return min(_MOST_BATCHES, cores())


def _has_settings_of_this_thread():
    import jax

    elsewhere = {}
    thread = threading.Thread(target=lambda: elsewhere.update(jax.config.values))
    thread.start()
    thread.join()
    return elsewhere != jax.config.values

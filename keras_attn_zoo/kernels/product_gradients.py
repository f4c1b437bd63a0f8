"""Products of bfloat16 numbers with a matrix, and their gradients, by JAX on a CPU."""

from keras import backend, ops

from keras_attn_zoo.kernels.bfloat16 import product_in_float32, transposed_in_memory
from keras_attn_zoo.kernels.function_transforms import custom_gradient
from keras_attn_zoo.support.processor import is_jax_on_cpu
from keras_attn_zoo.support.types import Tensor


def plain_product(x: Tensor, kernel: Tensor, transposed: bool) -> Tensor:
    """The plain form."""
    return ops.matmul(x, ops.swapaxes(kernel, -1, -2) if transposed else kernel)


def summed_product(x: Tensor, kernel: Tensor, transposed: bool = False) -> Tensor:
    """Return x W, or x Wᵀ; of bfloat16 numbers by JAX on a CPU, summed in float32."""
    if backend.standardize_dtype(x.dtype) == "bfloat16" and is_jax_on_cpu():
        return product_in_float32(x, kernel, transposed)
    return plain_product(x, kernel, transposed)


def bfloat16_product(x: Tensor, kernel: Tensor, bias: Tensor, transposed: bool) -> Tensor:
    """Return x W + b, or x Wᵀ + b, of bfloat16 numbers summed in float32.

    XLA converts both factors to float32 first, unless the sum is one of float32 and rows stand in the order of memory.
    W may be of float32, and then its gradient is too.
    """

    @custom_gradient
    def of(x, kernel, bias):
        factor = ops.cast(kernel, x.dtype)

        def gradient(upstream):
            # A product with rows of ones, of which XLA wants two, is faster than a sum.
            ones = ops.ones((2, upstream.shape[0]), upstream.dtype)
            found = (
                product_in_float32(upstream, factor, not transposed),
                bfloat16_kernel_gradient(*((upstream, x) if transposed else (x, upstream))),
                product_in_float32(ones, upstream)[0],
            )
            return tuple(ops.cast(one, given.dtype) for one, given in zip(found, (x, kernel, bias), strict=True))

        return ops.cast(product_in_float32(x, factor, transposed) + ops.cast(bias, "float32"), x.dtype), gradient

    return of(x, kernel, bias)


def bfloat16_kernel_gradient(left: Tensor, right: Tensor) -> Tensor:
    """Return leftᵀ right of bfloat16 matrices, the gradient of a kernel, summed in float32."""
    if left.shape[1] <= right.shape[1]:
        return product_in_float32(transposed_in_memory(left), right)
    return ops.transpose(product_in_float32(transposed_in_memory(right), left))


def kernel_gradient(x: Tensor, delta: Tensor, compute_dtype: str) -> Tensor:
    """Return Xᵀ Δ, the gradient of a kernel, computed in a type; by JAX on a CPU, summed in float32."""
    x, delta = ops.cast(x, compute_dtype), ops.cast(delta, compute_dtype)
    if compute_dtype == "bfloat16" and is_jax_on_cpu():
        return bfloat16_kernel_gradient(x, delta)
    return ops.matmul(ops.transpose(x), delta)

"""Products by JAX on a CPU in the forms that XLA computes fastest, with instructions for bfloat16 too."""

from keras import ops

from keras_attn_zoo.support.types import Tensor


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

"""Products of int8 matrices by JAX on a CPU in the form for which XLA has instructions."""

from keras import ops

from keras_attn_zoo.processor import has_amx_int8, has_avx512_vnni, is_jax_on_cpu
from keras_attn_zoo.types import Tensor

# The version of JAX.
_SINCE = (0, 10, 1)


def uses_unsigned() -> bool:
    """Return whether `unsigned_product` is faster than a product of int8 numbers.

    VNNI multiplies an unsigned number by a signed one. From JAX 0.10.1 on, XLA computes products of uint8 and int8 with
    it, and those of int8 alone with instructions for int16, which take two to four times as long on an Intel Xeon; most
    versions before fail. AMX multiplies both. AMD's processors were not measured.
    """
    if not is_jax_on_cpu() or not has_avx512_vnni() or has_amx_int8():
        return False
    import jax

    return jax.__version_info__ >= _SINCE


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
    shift = _mixed(ops.full((2, kernel.shape[0]), 128, dtype="uint8"), kernel)[:1]
    return (_mixed(moved, kernel) - shift)[:rows]


def _mixed(x, kernel):
    """The product of uint8 and int8. JAX would convert both to int32 first, unless an algorithm is named."""
    from jax.lax import DotAlgorithmPreset, dot_general

    axes = ((1,), (0,)), ((), ())
    return dot_general(x, kernel, axes, precision=DotAlgorithmPreset.DEFAULT, preferred_element_type="int32")

"""Products of int8 matrices by JAX on a CPU: where they are slow, and the form for which XLA has instructions."""

from keras import ops

from keras_attn_zoo.support.processor import has_amx_int8, has_avx512_vnni, is_amd, is_intel, is_jax_on_cpu
from keras_attn_zoo.support.types import Tensor

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
    if not is_jax_on_cpu() or not (is_amd() or is_intel()):
        return False
    return not (_jax_is_from(_SIGNED_SINCE) and (has_avx512_vnni() or has_amx_int8()))


def uses_unsigned() -> bool:
    """Return whether `unsigned_product` is faster than a product of int8 numbers.

    VNNI multiplies an unsigned number by a signed one. From JAX 0.10.1 on, XLA computes products of uint8 and int8 with
    it, and those of int8 alone with instructions for int16, which take two to four times as long on an Intel Xeon; most
    versions before fail. AMX multiplies both. AMD's processors were not measured.
    """
    if not is_jax_on_cpu() or not has_avx512_vnni() or has_amx_int8():
        return False
    return _jax_is_from(_UNSIGNED_SINCE)


def _jax_is_from(version):
    import jax

    return jax.__version_info__ >= version


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

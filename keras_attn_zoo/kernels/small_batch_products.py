"""Products by JAX on a CPU of few rows with a matrix that is used again and again, as in a loop over positions."""

from keras import backend, ops

from keras_attn_zoo.kernels.bfloat16 import product_in_float32, transposed_in_memory
from keras_attn_zoo.support.processor import has_avx512, is_amd, is_intel, is_jax_on_cpu
from keras_attn_zoo.support.types import Tensor

# On an Intel Xeon, the form by columns takes half the time of the plain one up to this number of rows, as long above.
_FEW_ROWS = 64
# Up to these, a kernel that is turned already takes less time: on an Intel Xeon, two thirds; on an AMD EPYC without
# AVX-512, 0.4 to 0.9 of it. Above, it takes 0.8 there, which shortens no search.
_FEW_ROWS_OF_TURNED = {"float32": 64, "bfloat16": 128}
# On an Intel Xeon, 50 columns of float32 take 1.8 times as long as 64, and 9 take 1.4 times as long as 16: whole
# vectors and groups of them are fast, the rest is not. From 17 columns on, it pays to compute up to half as many more.
# On an AMD EPYC without AVX-512, only the last 9 to 15 columns are slow, 28 taking 1.9 times as long as 32: 50 take 0.8
# of the time of 64. Intel's without AVX-512 were not measured.
_WHOLE_VECTOR = 16
_MOST_FILLED_UP = 1.5
_MOST_LEFT = 8


def columns_are_faster() -> bool:
    """Return whether the processor computes x W of float32 numbers faster as (Wᵀ xᵀ)ᵀ if there are few rows.

    An AMD EPYC with AVX-512 takes a tenth to a half longer. Others were not measured.
    """
    return is_intel() or (is_amd() and not has_avx512())


def uses_columns(rows: int) -> bool:
    """Return whether x W of float32 numbers, where W is used repeatedly, is faster as (Wᵀ xᵀ)ᵀ."""
    return is_jax_on_cpu() and columns_are_faster() and 1 < rows <= _FEW_ROWS


def uses_turned(compute_dtype: str, rows: int | None = None) -> bool:
    """Return whether a product is faster if Wᵀ is there.

    Args:
        compute_dtype: the type of the factors.
        rows: the number of rows; None for any that are few.
    """
    if not is_jax_on_cpu() or compute_dtype not in _FEW_ROWS_OF_TURNED:
        return False
    if compute_dtype == "float32" and not columns_are_faster():
        return False
    return rows is None or 1 < rows <= _FEW_ROWS_OF_TURNED[compute_dtype]


def columns_product(x: Tensor, turned: Tensor) -> Tensor:
    """Return x W of float32 numbers as (Wᵀ xᵀ)ᵀ, given Wᵀ.

    XLA repacks the right factor of a product each time, which is here the smaller one. Barriers keep it from swapping
    the factors back.
    """
    from jax.lax import optimization_barrier as barrier

    columns = ops.transpose(_filled_up(x))
    return ops.transpose(barrier(ops.matmul(barrier(turned), barrier(columns))))[: x.shape[0]]


def turned_product(x: Tensor, turned: Tensor, bias: Tensor | None) -> Tensor:
    """Return x W + b as (Wᵀ xᵀ)ᵀ + b, given Wᵀ of the type of x; `bias` is None for none."""
    found = product_in_float32(turned, transposed_in_memory(_filled_up(x)))
    if bias is not None:
        found = found + ops.cast(bias, "float32")[:, None]
    return transposed_in_memory(ops.cast(found, x.dtype))[: x.shape[0]]


def turned_sum(x: Tensor, turned: Tensor) -> Tensor:
    """Return x W as (Wᵀ xᵀ)ᵀ like `turned_product`, but in float32."""
    return ops.transpose(product_in_float32(turned, transposed_in_memory(_filled_up(x))))[: x.shape[0]]


def _filled_up(x):
    """Rows for a product by columns in float32, and zeros up to the number that is faster."""
    rows = x.shape[0]
    more = filled_up(rows) - rows if backend.standardize_dtype(x.dtype) == "float32" else 0
    return ops.pad(x, [[0, more], [0, 0]]) if more else x


def filled_up(rows: int) -> int:
    """Return the number of rows, at least as many, that take the least time in a product by columns in float32."""
    power = 1 << (rows - 1).bit_length()
    if power <= _WHOLE_VECTOR:
        return power
    if has_avx512():
        return power if power <= min(_FEW_ROWS, _MOST_FILLED_UP * rows) else rows
    left = rows % _WHOLE_VECTOR
    return rows - left + _WHOLE_VECTOR if left > _MOST_LEFT else rows

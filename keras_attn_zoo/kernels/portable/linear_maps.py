"""Products of rows with weights."""

from typing import Any

import keras
from keras import ops

from keras_attn_zoo.kernels.forms import operation
from keras_attn_zoo.support.types import Tensor


@operation
def linear(
    x: Tensor,
    weight: keras.Variable | Tensor,
    bias: keras.Variable | Tensor | None = None,
    transposed: bool = False,
    compute_dtype: str | None = None,
) -> Tensor:
    """Return x W + b along the last axis.

    Args:
        x: `(..., inputs)`.
        weight: W: a variable, what `master_weight` returned, or another tensor; `(inputs, outputs)`, or with more axes
            that stand for either. Given as a variable, a search may have prepared it.
        bias: b, `(outputs,)`; None for none.
        transposed: whether `weight` is Wᵀ.
        compute_dtype: the type of the factors; by default that of x.

    Returns:
        `(..., outputs)`; in a loop over positions of `operand_dtype`, otherwise of the type of x.

    Example:
        >>> linear(keras.ops.ones((2, 3)), keras.ops.ones((3, 4)))  # (2, 4), all 3
    """
    kernel = as_matrix(ops.cast(weight, compute_dtype or x.dtype), x.shape[-1], transposed)
    found = ops.matmul(x, ops.transpose(kernel) if transposed else kernel)
    return found if bias is None else found + ops.cast(bias, found.dtype)


def as_matrix(kernel: Tensor, inputs: int, transposed: bool = False) -> Tensor:
    """Return a kernel with a row for each input, or a column."""
    if len(kernel.shape) == 2 and kernel.shape[int(transposed)] == inputs:
        return kernel
    return ops.reshape(kernel, (-1, inputs) if transposed else (inputs, -1))


@operation
def int8_linear(
    x: Tensor,
    weight: keras.Variable,
    scale: keras.Variable | Tensor,
    bias: keras.Variable | Tensor | None,
    quantizer: Any,
    compute_dtype: str,
) -> Tensor:
    """Return x W + b of a kernel in int8, without gradients, as Keras does: rows are rounded to int8 too.

        x W ≈ (q(x) K) / (s_x s_K)   with the integers q(x) and K

    Args:
        x: `(..., inputs)`.
        weight: K, `(inputs, outputs)`, or with more axes that stand for either.
        scale: s_K, a number for each output.
        bias: b, `(outputs,)`; None for none.
        quantizer: Keras' quantizer of rows.
        compute_dtype: the type of the result.
    """
    rows, of_rows = quantizer(ops.reshape(x, (-1, x.shape[-1])), axis=-1)
    found = ops.matmul(rows, as_matrix(ops.convert_to_tensor(weight), x.shape[-1]))
    return scaled_back(found, x, scale, of_rows, bias, compute_dtype)


def scaled_back(
    found: Tensor, x: Tensor, scale: Tensor, of_rows: Tensor, bias: Tensor | None, compute_dtype: str
) -> Tensor:
    """Return the result of `int8_linear` from its product of integers, a row for each of x."""
    found = ops.cast(found, compute_dtype) / (ops.reshape(scale, (1, -1)) * of_rows)
    if bias is not None:
        found = found + ops.cast(bias, found.dtype)
    return ops.reshape(found, (*ops.shape(x)[:-1], found.shape[-1]))


@operation
def preparation(compute_dtype: str, in_int8: bool, rows: int | None) -> str | None:
    """Return what products of inference gain from: a kernel "transposed", or "dequantized", of one in int8; else None.

    Args:
        compute_dtype: the type of the factors.
        in_int8: whether the kernel is in int8.
        rows: the rows of each product in a step of a search; None if steps do not multiply by the kernel.
    """
    return None


@operation
def master_weight(weight: keras.Variable | Tensor, compute_dtype: str) -> Tensor:
    """Return a weight for `linear`, in the type whose gradient is wanted: that of the factors.

    Example:
        >>> master_weight(keras.Variable([1.0]), "float32")  # [1.0]
    """
    return ops.cast(weight, compute_dtype)


@operation
def operand_dtype(compute_dtype: str) -> str:
    """Return the type of operands of many small products: of queries and keys, of weights and values, and in loops.

    Example:
        >>> operand_dtype("float32")
        'float32'
    """
    return compute_dtype


@operation
def weighted_sum(weights: Tensor, value: Tensor) -> Tensor:
    """Return Σ_j α_ij v_j of weights `(batch, target, source)` and values `(batch, source, width)`, in their type.

    Example:
        >>> weighted_sum(ops.ones((2, 1, 3)), ops.ones((2, 3, 4)))  # (2, 1, 4), all 3
    """
    return ops.matmul(ops.cast(weights, value.dtype), value)


@operation
def matrix_product(x: Tensor, y: Tensor, transposed: bool = False) -> Tensor:
    """Return x y, or x yᵀ, of matrices, or of each pair of a batch of them."""
    return ops.matmul(x, ops.swapaxes(y, -1, -2) if transposed else y)


@operation
def transposed_matrix(kernel: Tensor) -> Tensor:
    """Return a kernel with its last two axes exchanged, for the steps of a loop."""
    return ops.swapaxes(kernel, -1, -2)


@operation
def kernel_gradient(x: Tensor, delta: Tensor, compute_dtype: str) -> Tensor:
    """Return Xᵀ Δ of rows, the gradient of a kernel, computed in a type."""
    return ops.matmul(ops.transpose(ops.cast(x, compute_dtype)), ops.cast(delta, compute_dtype))

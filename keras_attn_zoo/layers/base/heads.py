"""The linear maps into attention heads and out of them, with weights as in Keras' multi-head attention."""

import math
import string
from typing import Any

import keras
from keras import ops
from keras.quantizers import QuantizationConfig

from keras_attn_zoo import kernels
from keras_attn_zoo.layers.base.dense import LinearMap, quantize_to_int8
from keras_attn_zoo.layers.base.kernel_initialization import fresh_initializer
from keras_attn_zoo.layers.base.rematerialization import Rematerialized
from keras_attn_zoo.support.types import Initializer, Shape, Tensor


class _HeadMap(Rematerialized, LinearMap, keras.layers.EinsumDense):
    """Base class of both maps: weights, LoRA and int8 of Keras' layer, with one flat product instead of its einsum."""

    kernel_initializer: Initializer
    bias_initializer: Initializer

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The result has a different layout from the sequence that a mask belongs to, so `compute_mask` drops the mask.
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        """Create kernel and bias."""
        own = fresh_initializer(self.kernel_initializer)
        self.bias_initializer = fresh_initializer(self.bias_initializer)
        # As a function: Keras would give the object the fans of the equation. All published figures used those of the
        # kernel's shape.
        self.kernel_initializer = lambda *args, **kwargs: own(*args, **kwargs)
        super().build(input_shape)
        self.kernel_initializer = own

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None) -> None:
        """Return None: the caller keeps the mask."""
        return None

    def quantize(
        self, mode: str | None = None, type_check: bool = True, config: QuantizationConfig | None = None
    ) -> None:
        """Quantize the kernel to int8, as `keras.layers.EinsumDense` does."""
        quantize_to_int8(self, super().quantize, mode, config)

    def matrix(self) -> Tensor:
        """The kernel as a floating-point matrix, a row for each input, LoRA included."""
        if self.quantization_mode is None:
            kernel = kernels.master_weight(self.kernel, self.compute_dtype)
            return self._as_matrix(kernel)
        kernel = self.own_matrix()
        if self.lora_enabled:
            share = self.lora_alpha / self.lora_rank
            kernel = kernel + share * self._as_matrix(ops.matmul(self.lora_kernel_a, self.lora_kernel_b))
        return kernel

    def _as_matrix(self, kernel):
        return ops.reshape(kernel, (self.input_size, -1))

    def multiplied(self, x: Tensor) -> Tensor:
        """Return x W + b for rows x `(rows, inputs)`."""
        bias = None if self.bias is None else ops.reshape(self.bias, (-1,))
        if self.quantization_mode is not None:
            return self.int8_product(x, bias)
        return kernels.linear(x, self.kernel, bias, compute_dtype=self.compute_dtype)


class HeadProjection(_HeadMap):
    """Project a sequence for every head: W^n x + b^n.

    This is one flat product and one transposition, which an einsum over the heads would leave to the compiler.
    Weights, LoRA and int8 are those of `keras.layers.EinsumDense` in Keras' multi-head attention.

    Args:
        num_heads, head_dim: N and the width of a head.
        use_bias: whether there is a b.
        **kwargs: `kernel_initializer` and the like, see `keras.layers.EinsumDense`.

    Shapes: in `(batch, length, width)`, out `(batch, heads, length, head_dim)`;
    W `(width, heads, head_dim)`, b `(heads, head_dim)`.
    """

    def __init__(self, num_heads: int, head_dim: int, use_bias: bool = True, **kwargs: Any) -> None:
        bias_axes = "de" if use_bias else None
        super().__init__("abc,cde->abde", (None, num_heads, head_dim), bias_axes=bias_axes, **kwargs)
        self.num_heads = num_heads
        self.head_dim = head_dim

    def call(self, x: Tensor, training: bool | None = None) -> Tensor:
        """Project."""
        batch, length = ops.shape(x)[0], ops.shape(x)[1]
        x = self.multiplied(ops.reshape(x, (-1, x.shape[-1])))
        return ops.transpose(ops.reshape(x, (batch, length, self.num_heads, self.head_dim)), (0, 2, 1, 3))

    def quantized_call(self, x: Tensor, training: bool | None = None) -> Tensor:
        """Project by a product of integers."""
        if self.has_plain_int8():
            return self.call(x)
        return ops.transpose(super().quantized_call(x, training=training), (0, 2, 1, 3))

    def compute_output_spec(self, x: Tensor, training: bool | None = None) -> keras.KerasTensor:
        """Return the shape and type of the projection."""
        return keras.KerasTensor((x.shape[0], self.num_heads, x.shape[1], self.head_dim), self.compute_dtype)


class HeadMerge(_HeadMap):
    """Join the heads' contexts into one: Σ_n O^n c^n + b.

    Args:
        width: width of the result, or sizes of the axes that it stands for, joined to one.
        use_bias: whether there is a b.
        **kwargs: `kernel_initializer` and the like, see `keras.layers.EinsumDense`.

    Shapes: in `(batch, heads, length, head_dim)`, out `(batch, length, width)`;
    O `(heads, head_dim, width)`, b `(width,)`, or with the axes in place of the width.
    """

    input_axes = 2

    def __init__(self, width: int | tuple[int, ...], use_bias: bool = True, **kwargs: Any) -> None:
        axes = (width,) if isinstance(width, int) else width
        out = string.ascii_lowercase[4 : 4 + len(axes)]
        super().__init__(f"abcd,cd{out}->ab{out}", (None, *axes), bias_axes=out if use_bias else None, **kwargs)
        self.width = math.prod(axes)

    def build(self, input_shape: Shape) -> None:
        """Create O and b."""
        batch, heads, length, head_dim = input_shape
        super().build((batch, length, heads, head_dim))

    def call(self, contexts: Tensor, training: bool | None = None) -> Tensor:
        """Join."""
        batch, length = ops.shape(contexts)[0], ops.shape(contexts)[2]
        joined = ops.reshape(ops.transpose(contexts, (0, 2, 1, 3)), (-1, self.input_size))
        return ops.reshape(self.multiplied(joined), (batch, length, self.width))

    def quantized_call(self, contexts: Tensor, training: bool | None = None) -> Tensor:
        """Join by a product of integers."""
        if self.has_plain_int8():
            return self.call(contexts)
        found = super().quantized_call(ops.transpose(contexts, (0, 2, 1, 3)), training=training)
        return ops.reshape(found, (*ops.shape(found)[:2], self.width))

    def compute_output_spec(self, contexts: Tensor, training: bool | None = None) -> keras.KerasTensor:
        """Return the shape and type of the result."""
        return keras.KerasTensor((contexts.shape[0], contexts.shape[2], self.width), self.compute_dtype)

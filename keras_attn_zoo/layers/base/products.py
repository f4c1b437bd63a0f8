"""Products of rows with a weight matrix, as a step of a search needs them: few rows, the same matrix each time."""

import contextlib
import contextvars
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
from keras import ops
from keras.quantizers import AbsMaxQuantizer, QuantizationConfig

from keras_attn_zoo.kernels.int8 import integers_are_slow, unsigned_product, uses_unsigned
from keras_attn_zoo.kernels.loop_products import in_loop, product_in_loop
from keras_attn_zoo.kernels.product_gradients import bfloat16_product, plain_product
from keras_attn_zoo.kernels.small_batch_products import (
    columns_product,
    turned_product,
    uses_columns,
    uses_turned,
)
from keras_attn_zoo.layers.base.rematerialization import Rematerialized
from keras_attn_zoo.support.compat import layers_of, without_autocast
from keras_attn_zoo.support.processor import is_jax_on_cpu
from keras_attn_zoo.support.types import Config, Tensor

_REPEATED = contextvars.ContextVar("repeated", default=False)
_TURNED: contextvars.ContextVar[Mapping[int, Tensor] | None] = contextvars.ContextVar("turned", default=None)
_FLOATING: contextvars.ContextVar[Mapping[int, Tensor] | None] = contextvars.ContextVar("floating", default=None)


@contextlib.contextmanager
def repeated() -> Iterator[None]:
    """Mark the code inside, or the decorated function, as the body of a loop in which weights are constant.

    It changes how a product is computed, never what: so it is no argument of all the layers between loop and product.
    Outside a loop, `product`'s form for few rows costs more than it saves: all weights would be moved for a single use.
    """
    token = _REPEATED.set(True)
    try:
        yield
    finally:
        _REPEATED.reset(token)


@contextlib.contextmanager
def turned(kernels: Mapping[int, Tensor], floating: Mapping[int, Tensor] | None = None) -> Iterator[None]:
    """Mark the code inside as one without gradients; give products, if `repeated`, Wᵀ of kernels.

    Args:
        kernels: Wᵀ by the identity of the variable of W, in the type that layers compute in.
        floating: W by the identity of the variable of a kernel in int8, in that type, where no product of integers is
            wanted.
    """
    tokens = _TURNED.set(kernels), _FLOATING.set(floating)
    try:
        yield
    finally:
        _TURNED.reset(tokens[0])
        _FLOATING.reset(tokens[1])


def product(
    x: Tensor,
    kernel: Tensor,
    bias: Tensor | None = None,
    transposed: bool = False,
    variable: keras.Variable | None = None,
    compute_dtype: str | None = None,
) -> Tensor:
    """Return x W + b in the form that is fastest on this machine.

    Under JAX on a CPU, `bfloat16_product` if they are in bfloat16; in a `repeated` step (Wᵀ xᵀ)ᵀ, in bfloat16, on an
    Intel CPU, or on an AMD CPU without AVX-512: XLA repacks the right factor of a product each time, which in every
    step would be all weights instead of the few hypotheses. Barriers keep it from swapping the factors back. Wᵀ is one
    that is `turned`, or in float32 moved out of the loop by XLA. In a loop over positions in training,
    `product_in_loop`.

    Args:
        x: `(rows, inputs)`; the result has its type, `operand_type` in loops.
        kernel: W, `(inputs, outputs)`, of the type of x; with `compute_dtype`, what `uncast` returned for it.
        bias: b, `(outputs,)`; None for none.
        transposed: whether `kernel` is Wᵀ.
        variable: the variable that `kernel` is the value of, if it may be `turned`.
        compute_dtype: the type that the layer computes in.

    Example:
        >>> product(keras.ops.ones((2, 3)), keras.ops.ones((3, 4)))  # (2, 4)
    """
    kind = keras.backend.standardize_dtype(x.dtype)
    found = None if transposed else product_in_loop(x, kernel, compute_dtype or kind)
    if found is not None:
        return ops.cast(found if bias is None else found + ops.cast(bias, "float32"), kind)
    if kind != (compute_dtype or kind) and is_jax_on_cpu():
        narrow = ops.cast(x, compute_dtype)
        # JAX has no float64 unless told otherwise.
        if narrow.dtype != x.dtype:
            return ops.cast(product(narrow, kernel, bias, transposed, variable, compute_dtype), kind)
    if _REPEATED.get() and uses_turned(kind, x.shape[0]):
        given = (_TURNED.get() or {}).get(id(variable))
        # In float32, the form by columns is faster if it need not transpose.
        if transposed and _in_bfloat16(x, kernel, compute_dtype):
            given = ops.cast(kernel, kind)
        if given is not None and given.dtype == x.dtype:
            return turned_product(x, given, bias)
    if _in_bfloat16(x, kernel, compute_dtype):
        bias = ops.zeros((kernel.shape[int(not transposed)],), dtype=x.dtype) if bias is None else bias
        return bfloat16_product(x, kernel, bias, transposed)
    if _by_columns(x):
        found = columns_product(x, kernel if transposed else ops.transpose(kernel))
    else:
        found = plain_product(x, kernel, transposed)
    return found if bias is None else found + bias


def uncast(weight: keras.Variable | Tensor, compute_dtype: str) -> Tensor:
    """Return the weight of a layer for `product`: as one of bfloat16 by JAX on a CPU in its own type, else cast.

    `bfloat16_product` sums in float32. This way, the gradient of the weight is that sum; otherwise it would be rounded
    to bfloat16 and back, which costs two more passes over all weights. Where there are no gradients, weights that are
    cast may have been converted before.

    Example:
        >>> uncast(keras.Variable([1.0]), "float32")  # [1.0]
    """
    has_gradient = _TURNED.get() is None and isinstance(weight, keras.Variable)
    if has_gradient and compute_dtype == "bfloat16" and is_jax_on_cpu():
        # In a call of its layer, even `weight.dtype` is that of the cast.
        with without_autocast():
            if weight.dtype == "float32":
                return weight.value
    return ops.cast(weight, compute_dtype)


def projected(x: Tensor, kernel: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    """Return `product` along the last axis of an array; see there for the options.

    Example:
        >>> projected(keras.ops.ones((5, 2, 3)), keras.ops.ones((3, 4)))  # (5, 2, 4)
    """
    found = product(ops.reshape(x, (-1, kernel.shape[0])), kernel, bias, **options)
    return ops.reshape(found, (*ops.shape(x)[:-1], kernel.shape[-1]))


def operand_type(compute_dtype: str) -> str:
    """Return the type in which many small products are fastest: of queries and keys, and of weights and values.

    Under JAX on a CPU, XLA converts those of bfloat16 to float32, memory and all, in each step of a search.

    Example:
        >>> operand_type("float32")
        'float32'
    """
    return "float32" if compute_dtype == "bfloat16" and is_jax_on_cpu() else compute_dtype


class StepMap:
    """Mixin for a layer with a kernel that the steps of a search multiply by, and may want `turned`, or `floating`."""

    _kernel: keras.Variable
    # The axes of the kernel that are those of an input.
    input_axes = 1

    def may_turn(self) -> bool:
        """Return whether the layer multiplies by its kernel as it is, in a type in which that is faster turned."""
        plain = self.quantization_mode is None and not self.lora_enabled  # type: ignore[attr-defined]
        return (plain or self.may_float()) and uses_turned(self.compute_dtype)  # type: ignore[attr-defined]

    def may_float(self) -> bool:
        """Return whether the kernel is in int8, but products of floating point are faster: Keras' are of integers."""
        return self._in_int8() and self.compute_dtype == "float32" and integers_are_slow()  # type: ignore[attr-defined]

    def _in_int8(self):
        """Whether the kernel is in int8, with nothing of LoRA beside it."""
        return self.quantization_mode == "int8" and not self.lora_enabled

    def float_of(self, kernel: Tensor) -> Tensor:
        """Return W of a value of the kernel, in the type that the layer computes in, without LoRA."""
        kernel = ops.cast(kernel, self.compute_dtype)  # type: ignore[attr-defined]
        if self.quantization_mode is not None:  # type: ignore[attr-defined]
            kernel = kernel / self.scale_of_kernel()
        return self.as_matrix(kernel)

    def as_matrix(self, kernel: Tensor) -> Tensor:
        """Return a value of the kernel as a matrix, a row for each input."""
        return ops.reshape(kernel, (self.input_size, -1))

    @property
    def input_size(self) -> int:
        """Number of inputs, of all axes together."""
        return math.prod(self._kernel.shape[: self.input_axes])

    def turn(self, kernel: Tensor) -> Tensor:
        """Return Wᵀ of a value of the kernel, in the type that the layer computes in."""
        return ops.transpose(self.float_of(kernel))

    def scale_of_kernel(self) -> Tensor:
        """Return by what a kernel in int8 is divided, in a shape that fits it."""
        return self.kernel_scale  # type: ignore[attr-defined]

    def floating(self) -> Tensor | None:
        """Return W of a kernel in int8 where a search has made it; else None."""
        return (_FLOATING.get() or {}).get(id(self._kernel))

    def multiplies_unsigned(self) -> bool:
        """Return whether `of_unsigned` takes the place of Keras' product, which alone has gradients and LoRA."""
        if not self._in_int8() or _TURNED.get() is None or self.floating() is not None or not uses_unsigned():
            return False
        quantizer = self.inputs_quantizer  # type: ignore[attr-defined]
        return isinstance(quantizer, AbsMaxQuantizer) and quantizer.output_dtype == "int8"

    def of_unsigned(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Return x W + b of a kernel in int8: Keras' result for rows `(rows, inputs)`, rounded in the same way."""
        rows, scale = self.inputs_quantizer(x, axis=-1)  # type: ignore[attr-defined]
        found = unsigned_product(rows, self.as_matrix(ops.convert_to_tensor(self._kernel)))
        scale = ops.reshape(self.kernel_scale, (1, -1)) * scale  # type: ignore[attr-defined]
        found = ops.cast(found, self.compute_dtype) / scale  # type: ignore[attr-defined]
        return found if bias is None else found + bias


class Dense(Rematerialized, StepMap, keras.layers.Dense):
    """`keras.layers.Dense` with the `product` of this module where that is faster.

    Example:
        >>> Dense(4, activation="relu")(keras.ops.ones((2, 3)))  # (2, 4)
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Project."""
        kernel = uncast(self.kernel, self.compute_dtype) if is_jax_on_cpu() else self.kernel
        by_columns = len(inputs.shape) == 2 and _by_columns(inputs)
        in_bfloat16 = _in_bfloat16(inputs, kernel, self.compute_dtype)
        if not (by_columns or in_bfloat16 or in_loop()):
            return super().call(inputs, training=training)
        return self._projected(inputs, kernel)

    def _projected(self, inputs, kernel):
        x = projected(inputs, kernel, self.bias, variable=self._kernel, compute_dtype=self.compute_dtype)
        return x if self.activation is None else self.activation(x)

    def quantized_call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Project by a product of integers, or by the kernel in floating point where a search has made it."""
        kernel = self.floating()
        if kernel is not None:
            return self._projected(inputs, kernel)
        if not self.multiplies_unsigned():
            return super().quantized_call(inputs, training=training)
        found = self.of_unsigned(ops.reshape(inputs, (-1, inputs.shape[-1])), self.bias)
        found = ops.reshape(found, (*ops.shape(inputs)[:-1], self.units))
        return found if self.activation is None else self.activation(found)

    def quantize(
        self, mode: str | None = None, type_check: bool = True, config: QuantizationConfig | None = None
    ) -> None:
        """Quantize the kernel to int8, as `keras.layers.Dense` does."""
        quantize_to_int8(self, super().quantize, mode, config)


def quantize_to_int8(
    layer: keras.layers.Layer, quantize: Callable[..., None], mode: str | None, config: QuantizationConfig | None
) -> None:
    """Quantize a subclass of a Keras layer by that layer's `quantize`, which would otherwise skip subclasses.

    Raises:
        ValueError: a mode other than int8, whose kernels have a layout that the subclass does not support.
    """
    mode = mode or getattr(config, "mode", None)
    check_int8(layer, mode)
    quantize(mode, type_check=False, config=config)


def check_int8(layer: keras.layers.Layer, mode: str | None) -> None:
    """Raise if a layer is to be quantized to anything but int8."""
    if mode != "int8":
        raise ValueError(f"{type(layer).__name__}: only quantization to 'int8' is supported. Received: mode={mode!r}.")


def with_quantized_policies(layer: keras.layers.Layer, config: Config) -> Config:
    """Return the configuration of a layer with the policies of inner layers that `quantize` has changed.

    Inner layers take their policy from the outer layer, so it must be saved with that.
    """
    quantized = [x for x in layers_of(layer, include_self=False) if x.quantization_mode is not None]
    policy = layer.dtype_policy
    if not quantized or isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        return config
    by_path = {inner.path: inner.dtype_policy for inner in quantized}
    policy = keras.dtype_policies.DTypePolicyMap(default_policy=policy.name, policy_map=by_path)
    return {**config, "dtype": keras.dtype_policies.serialize(policy)}


def _in_bfloat16(x, kernel, compute_dtype):
    types = [keras.backend.standardize_dtype(factor.dtype) for factor in (x, kernel)]
    # A kernel of float32 beside x of bfloat16 is one that `uncast` returned, if the layer computes in bfloat16.
    known = types == ["bfloat16", "bfloat16"] or (types == ["bfloat16", "float32"] and compute_dtype == "bfloat16")
    return known and is_jax_on_cpu()


def _by_columns(x):
    return _REPEATED.get() and uses_columns(x.shape[0])

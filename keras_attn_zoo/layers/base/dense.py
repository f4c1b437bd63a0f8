"""The dense layer of all maps, what a search knows of one, and quantization to int8."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops
from keras.quantizers import AbsMaxQuantizer, QuantizationConfig

from keras_attn_zoo import kernels
from keras_attn_zoo.kernels import PreparedWeight
from keras_attn_zoo.layers.base.rematerialization import Rematerialized
from keras_attn_zoo.support.compat import layers_of
from keras_attn_zoo.support.types import Config, Tensor


class LinearMap:
    """Mixin for a Keras layer whose kernel may be prepared for inference."""

    # The axes of the kernel that are those of an input.
    input_axes = 1

    @property
    def stored_kernel(self) -> keras.Variable:
        """The variable of the kernel: without LoRA, and in int8 if the layer is quantized."""
        layer: Any = self
        return next(v for v in layer.weights if v.name == "kernel") if layer.lora_enabled else layer.kernel

    @property
    def input_size(self) -> int:
        """Number of inputs, of all axes together."""
        return math.prod(self.stored_kernel.shape[: self.input_axes])

    def preparation(self, rows: int | None) -> str | None:
        """Return what products of inference gain from; see `kernels.preparation`."""
        layer: Any = self
        if layer.lora_enabled or layer.quantization_mode not in (None, "int8"):
            return None
        return kernels.preparation(layer.compute_dtype, layer.quantization_mode is not None, rows)

    def prepared_kernel(self, preparation: str) -> PreparedWeight:
        """Return the kernel in floating point, prepared so."""
        matrix = self.own_matrix()
        transposed = preparation == "transposed"
        return PreparedWeight(ops.transpose(matrix) if transposed else matrix, transposed)

    def own_matrix(self) -> Tensor:
        """Return the kernel in floating point, without LoRA, as a matrix with a row for each input."""
        layer: Any = self
        matrix = ops.reshape(ops.cast(self.stored_kernel, layer.compute_dtype), (self.input_size, -1))
        return matrix if layer.quantization_mode is None else matrix / ops.reshape(layer.kernel_scale, (1, -1))

    def has_plain_int8(self) -> bool:
        """Return whether `kernels.int8_linear` takes the place of Keras' product, which has gradients and LoRA."""
        if self.lora_enabled or not kernels.is_inference():  # type: ignore[attr-defined]
            return False
        quantizer = self.inputs_quantizer  # type: ignore[attr-defined]
        return isinstance(quantizer, AbsMaxQuantizer) and quantizer.output_dtype == "int8"

    def int8_product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Return x W + b of a kernel in int8, without gradients."""
        layer: Any = self
        return kernels.int8_linear(
            x, layer.kernel, layer.kernel_scale, bias, layer.inputs_quantizer, layer.compute_dtype
        )


class Dense(Rematerialized, LinearMap, keras.layers.Dense):
    """`keras.layers.Dense` with `kernels.linear` as its product.

    Example:
        >>> Dense(4, activation="relu")(keras.ops.ones((2, 3)))  # (2, 4)
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Project."""
        x = kernels.linear(inputs, self.kernel, self.bias, compute_dtype=self.compute_dtype)
        return x if self.activation is None else self.activation(x)

    def quantized_call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Project by a product of integers."""
        if not self.has_plain_int8():
            return super().quantized_call(inputs, training=training)
        x = self.int8_product(inputs, self.bias)
        return x if self.activation is None else self.activation(x)

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

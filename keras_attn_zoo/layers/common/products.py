"""Products of rows with a weight matrix, as a step of a search needs them: few rows, the same matrix each time."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

import keras
from keras import ops
from keras.quantizers import QuantizationConfig

from keras_attn_zoo.types import Config, Tensor

# On the CPUs measured, the form below takes half the time of the plain one up to this number of rows, as long above it.
_FEW_ROWS = 64
_REPEATED = contextvars.ContextVar("repeated", default=False)


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


def product(x: Tensor, kernel: Tensor) -> Tensor:
    """Return x W; in a `repeated` step by XLA on a CPU as (Wᵀ xᵀ)ᵀ.

    XLA repacks the right factor of a product each time, which in every step would be all weights instead of the few
    hypotheses. Barriers keep it from swapping the factors back; Wᵀ is constant and is moved out of the loop.

    Args:
        x: `(rows, inputs)`.
        kernel: W, `(inputs, outputs)`.

    Example:
        >>> product(keras.ops.ones((2, 3)), keras.ops.ones((3, 4)))  # (2, 4)
    """
    if not _by_columns(x):
        return ops.matmul(x, kernel)
    from jax.lax import optimization_barrier as barrier

    columns = ops.matmul(barrier(ops.transpose(kernel)), barrier(ops.transpose(x)))
    return ops.transpose(barrier(columns))


class Dense(keras.layers.Dense):
    """`keras.layers.Dense` with the `product` of this module if its input is a matrix.

    Example:
        >>> Dense(4, activation="relu")(keras.ops.ones((2, 3)))  # (2, 4)
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Project."""
        if len(inputs.shape) != 2 or not _by_columns(inputs):
            return super().call(inputs, training=training)
        x = product(inputs, self.kernel)
        if self.bias is not None:
            x = x + self.bias
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
    if mode != "int8":
        raise ValueError(f"{type(layer).__name__}: only quantization to 'int8' is supported. Received: mode={mode!r}.")
    quantize(mode, type_check=False, config=config)


def with_quantized_policies(layer: keras.layers.Layer, config: Config) -> Config:
    """Return the configuration of a layer with the policies of inner layers that `quantize` has changed.

    Inner layers take their policy from the outer layer, so it must be saved with that.
    """
    quantized = [x for x in layer._flatten_layers(include_self=False) if x.quantization_mode is not None]
    policy = layer.dtype_policy
    if not quantized or isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        return config
    by_path = {inner.path: inner.dtype_policy for inner in quantized}
    policy = keras.dtype_policies.DTypePolicyMap(default_policy=policy.name, policy_map=by_path)
    return {**config, "dtype": keras.dtype_policies.serialize(policy)}


def _by_columns(x):
    if not _REPEATED.get() or keras.config.backend() != "jax" or not 1 < x.shape[0] <= _FEW_ROWS:
        return False
    import jax

    return jax.default_backend() == "cpu"

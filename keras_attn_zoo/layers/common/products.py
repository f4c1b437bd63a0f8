"""The product of rows and a matrix of weights, as a step of search needs it: few rows, the same matrix each time."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

import keras
from keras import ops
from keras.quantizers import QuantizationConfig

from keras_attn_zoo.types import Config, Tensor

# Up to here the form below takes half the time of the plain one on the CPUs that were measured, from there as long.
_FEW_ROWS = 64
_REPEATED = contextvars.ContextVar("repeated", default=False)


@contextlib.contextmanager
def repeated() -> Iterator[None]:
    """Say that what runs inside, or is decorated, is the body of a loop that keeps the weights.

    Outside a loop the form of `product` for few rows costs more than it saves: all weights would be moved for one use.
    """
    token = _REPEATED.set(True)
    try:
        yield
    finally:
        _REPEATED.reset(token)


def product(x: Tensor, kernel: Tensor) -> Tensor:
    """Return x W; in a `repeated` step by XLA on a CPU as (Wᵀ xᵀ)ᵀ.

    XLA packs the right factor of a product again each time: in every step all weights, where the few hypotheses are
    as good. Barriers keep it from turning the factors round again; Wᵀ does not change, and is moved out of the loop.

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
    """Quantize a subclass of a Keras layer by `quantize` of that layer, which would leave out subclasses.

    Raises:
        ValueError: another mode than int8, whose kernels are laid out in ways that the subclass does not know.
    """
    mode = mode or getattr(config, "mode", None)
    if mode != "int8":
        raise ValueError(f"{type(layer).__name__}: only quantization to 'int8' is supported. Received: mode={mode!r}.")
    quantize(mode, type_check=False, config=config)


def with_quantized_policies(layer: keras.layers.Layer, config: Config) -> Config:
    """Return the configuration of a layer with the policies of the layers inside that `quantize` has changed.

    Those take their policy from the layer around them, so that it must come from the file with that.
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

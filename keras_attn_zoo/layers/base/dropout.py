"""Dropout whose random numbers are cheap."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn_zoo.kernels.transformer_gradients import dropped_relu
from keras_attn_zoo.layers.base.rematerialization import Rematerialized, where_training
from keras_attn_zoo.support.processor import is_jax_on_cpu
from keras_attn_zoo.support.types import Config, Tensor

# Of the few inputs that are kept at higher rates, 16 bits would keep too many or too few.
_HIGHEST_RATE = 0.98


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class Dropout(Rematerialized, keras.layers.Dropout):
    """Keep each input with probability 1 - rate, scaled by 1 / (1 - rate); the others are 0.

    Use it as `keras.layers.Dropout`, from which it differs in its random numbers.

        y_i = x_i / (1 - rate)   where bits_i < (1 - rate) 2ⁿ, else 0

    On a CPU, drawing the numbers of JAX's generator takes fifteen times as long as reading and writing the inputs.
    Here n is 32, and the bits are a hash of the position and the seed, which the compiler joins with the rest into
    one pass:

        bits_i = mix(mix(i + a) xor b)   with a, b = words made of the seed generator's two

    mix is a bijection of 32 bits in which every bit of the input moves half of the bits of the output. Under
    TensorFlow, and under PyTorch on a CPU, n is 16: each number of their generators serves two or four inputs, and none
    is made a float.

    Args:
        rate: share of the inputs that are dropped, in [0, 1].
        **kwargs: see `keras.layers.Dropout`.

    Shapes: out as in.

    Example:
        >>> Dropout(0.5, seed=1)(keras.ops.ones((2, 3)), training=True)  # zeros and twos

    Source: Srivastava et al., Dropout: a simple way to prevent neural networks from overfitting, 2014.
    """

    def call(self, inputs: Tensor, training: bool | None = False) -> Tensor:
        """Drop, in training."""
        if not self.rate:
            # Before `training` is asked, which `keras.RematScope` traces.
            return inputs
        if ops.is_tensor(training):
            return where_training(training, self.call(inputs, training=True), self.call(inputs, training=False))
        if not (training and self._is_ours(inputs)):
            return super().call(inputs, training=training)
        keep = 1.0 - self.rate
        if keras.config.backend() == "torch":
            # A product is faster there than a choice.
            return inputs * self._kept(inputs).to(inputs.dtype).mul_(1.0 / keep)
        return ops.where(self._kept(inputs), inputs / ops.cast(keep, inputs.dtype), ops.zeros((), inputs.dtype))

    def _is_ours(self, inputs):
        """Whether the numbers are drawn here, not by Keras."""
        ours = self.noise_shape is None and self.rate <= _HIGHEST_RATE
        return ours and (keras.config.backend() != "torch" or _draws_by_words(inputs))

    def _kept(self, inputs):
        """Draw which inputs are kept."""
        keep, seed = 1.0 - self.rate, self.seed_generator.next()
        if keras.config.backend() == "jax":
            kept = _hashed_positions(inputs.shape, seed) < _bound(keep, 32)
            return _written(kept) if is_jax_on_cpu() else kept
        if keras.config.backend() == "tensorflow":
            return _halves_of_words(ops.shape(inputs), seed) < _bound(keep, 16)
        # Signed, since PyTorch cannot compare others.
        return _quarters_of_words(inputs.shape, seed) < _largest(keep, 16) - 2**15


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class ActivationDropout(Dropout):
    """Apply an activation, then dropout.

    Use it between the two maps of a feed-forward network. Under JAX, the gradient of a
    ReLU with dropout needs their result alone, and has no forward mode:

        y_i = max(0, x_i) / (1 - rate) for inputs that are kept, else 0
        ∂y_i / ∂x_i = 1 / (1 - rate)   where y_i > 0, else 0

    Args:
        rate: see `Dropout`.
        activation: its name, or a function that Keras can save.
        **kwargs: see `keras.layers.Dropout`.

    Shapes: out as in.

    Raises:
        ValueError: an activation that Keras does not know.

    Example:
        >>> ActivationDropout(0.5, "relu")(-keras.ops.ones((2, 3)))  # zeros
    """

    def __init__(self, rate: float, activation: str | Callable[[Tensor], Tensor], **kwargs: Any) -> None:
        super().__init__(rate, **kwargs)
        # Under a `keras.RematScope`, Keras puts another function in its place.
        self.activation = keras.activations.get(activation)
        self._saved_activation = keras.activations.serialize(self.activation)

    def call(self, inputs: Tensor, training: bool | None = False) -> Tensor:
        """Activate; drop, in training."""
        if ops.is_tensor(training) and self.rate:
            return where_training(training, self.call(inputs, training=True), self.call(inputs, training=False))
        joins = self.activation is keras.activations.relu and keras.config.backend() == "jax"
        if joins and self.rate and training and self._is_ours(inputs):
            return dropped_relu(inputs, self._kept(inputs), 1.0 - self.rate)
        return super().call(self.activation(inputs), training=training)

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {**super().get_config(), "activation": self._saved_activation}


def _largest(keep, bits):
    return min(round(keep * 2**bits), 2**bits - 1)


def _bound(keep, bits):
    return ops.convert_to_tensor(_largest(keep, bits), f"uint{bits}")


def _halves_of_words(shape, seed):
    """16 random bits for every position, two positions to a word."""
    import tensorflow as tf

    count = math.prod(shape) if all(isinstance(size, int) for size in shape) else tf.reduce_prod(shape)
    seed = tf.cast(seed, "int32")
    words = tf.random.stateless_uniform([(count + 1) // 2], seed, minval=None, maxval=None, dtype=tf.uint32)
    return tf.reshape(tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:count], shape)


def _draws_by_words(inputs):
    """Whether PyTorch computes on a CPU, and records nothing for a compiler, which cannot take a generator."""
    import torch

    return inputs.device.type == "cpu" and not torch.compiler.is_compiling()


def _quarters_of_words(shape, seed):
    """16 random bits for every position, four positions to a word."""
    import torch

    count = math.prod(shape)
    first, second = (int(word) for word in seed)
    # Seeds of one layer count up from step to step: their sum would repeat the masks of another layer's next step.
    generator = torch.Generator().manual_seed((first * 0x9E3779B1 + second) % 2**32)
    words = torch.empty((count + 3) // 4, dtype=torch.int64, device="cpu").random_(-(2**63), None, generator=generator)
    return words.view(torch.int16)[:count].view(shape)


def _written(kept):
    """Keep XLA from computing the hashes once more for the gradient: they cost more than a byte per input."""
    from jax.lax import optimization_barrier as barrier

    return barrier(kept)


def _hashed_positions(shape, seed):
    """32 random bits for every position, from two words of seed."""
    import jax.numpy as jnp

    first = _mix(seed[0])
    # Seeds of one layer count up from step to step: without this, so would the masks.
    second = _mix(first ^ seed[1])
    positions = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    return _mix(_mix(positions + second) ^ _mix(second + first))


def _mix(bits):
    """A bijection of 32 bits by xor-shifts and odd factors, in the manner of MurmurHash3's last step."""
    import jax.numpy as jnp

    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        bits = (bits ^ (bits >> shift)) * jnp.uint32(factor)
    return bits ^ (bits >> 16)

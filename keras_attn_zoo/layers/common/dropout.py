"""Dropout whose random numbers cost next to nothing under JAX."""

import math

import keras

from keras_attn_zoo.types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class Dropout(keras.layers.Dropout):
    """Keep each input with probability 1 - rate, scaled by 1 / (1 - rate); the others are 0.

    Use it as `keras.layers.Dropout`, from which it differs only under JAX: there, on a CPU, drawing the numbers of
    JAX's generator takes fifteen times as long as reading and writing the inputs. Here they are a hash of the
    position and the seed, which the compiler joins with the rest into one pass.

        bits_i = mix(mix(i + a) xor b)   with a, b = words made of the seed generator's two
        y_i    = x_i / (1 - rate)        where bits_i < (1 - rate) 2³², else 0

    mix is a bijection of 32 bits in which every bit of the input moves half of the bits of the output.

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
        ours = keras.config.backend() == "jax" and self.noise_shape is None and self.rate < 1
        if not (ours and training):
            return super().call(inputs, training=training)
        import jax.numpy as jnp

        keep = 1.0 - self.rate
        bound = jnp.uint32(min(round(keep * 2**32), 2**32 - 1))
        bits = _hashed_positions(inputs.shape, self.seed_generator.next())
        return jnp.where(bits < bound, inputs / jnp.asarray(keep, inputs.dtype), jnp.zeros((), inputs.dtype))


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

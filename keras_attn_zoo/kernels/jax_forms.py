"""Forms for JAX, on any device."""

import math

import keras
from keras import ops

from keras_attn_zoo.kernels.portable import loops, noise
from keras_attn_zoo.kernels.table import plain
from keras_attn_zoo.support.types import Tensor

# Of the few numbers that are kept at higher rates, a bound of 32 bits would keep too many or too few.
_HIGHEST_RATE = 0.98


def first(array: Tensor, length: int | Tensor, axis: int) -> Tensor:
    """Return the first elements along an axis; of a symbolic size, a slice would have the size of a minimum."""
    if isinstance(length, int):
        return plain(loops.first)(array, length, axis)
    return ops.take(array, ops.arange(length), axis=axis)


def dropout(x: Tensor, rate: float, seed: keras.random.SeedGenerator) -> Tensor:
    """Drop by a hash of the position and the seed, which the compiler joins with the rest into one pass.

        bits_i = mix(mix(i + a) xor b)   with a, b = words made of the seed generator's two

    mix is a bijection of 32 bits in which every bit of the input moves half of the bits of the output. On a CPU,
    drawing the numbers of JAX's generator takes fifteen times as long as reading and writing x.
    """
    if rate > _HIGHEST_RATE:
        return plain(noise.dropout)(x, rate, seed)
    keep = 1.0 - rate
    bound = ops.convert_to_tensor(min(round(keep * 2**32), 2**32 - 1), "uint32")
    kept = _hashed_positions(x.shape, seed.next()) < bound
    return ops.where(kept, x / ops.cast(keep, x.dtype), ops.zeros((), x.dtype))


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

"""Forms for JAX, on any device."""

import math

import keras
from keras import ops, tree

from keras_attn_zoo.kernels.forms import plain
from keras_attn_zoo.kernels.portable import loops, noise
from keras_attn_zoo.kernels.portable.label_losses import is_largest, of_labels, smoothed
from keras_attn_zoo.kernels.written_gradients import custom_gradient
from keras_attn_zoo.support.types import Tensor


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
    if rate > noise.HIGHEST_RATE:
        return plain(noise.dropout)(x, rate, seed)
    keep = 1.0 - rate
    bound = ops.convert_to_tensor(noise.bound_of_kept(rate, 32), "uint32")
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


def token_losses(logits: Tensor, labels: Tensor, label_smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return loss, nll and correctness; the gradient computes exponentials again, which XLA joins with the rest.

    The softmax that the form of all backends keeps would be written and read once more.
    """
    share = label_smoothing / logits.shape[-1]

    @custom_gradient
    def of(logits, labels):
        largest = ops.max(logits, axis=-1)
        normalizer = ops.sum(ops.exp(logits - largest[..., None]), axis=-1)
        log_normalizer = largest + ops.log(normalizer)
        gold = of_labels(logits, labels)
        nll = log_normalizer - gold
        uniform = log_normalizer - ops.mean(logits, axis=-1) if label_smoothing else 0.0

        def gradient(*upstream):
            # Only the loss, the first output, has a gradient; nll and correctness are only reported.
            upstream = tree.flatten(upstream)[0][..., None]
            is_gold = ops.arange(logits.shape[-1], dtype="int32") == labels[..., None]
            target = ops.where(is_gold, 1.0 - label_smoothing + share, share)
            # Not exp(z - log_normalizer): for large logits, the logarithm has too few digits.
            of_logits = ops.exp(logits - largest[..., None]) * (upstream / normalizer[..., None]) - upstream * target
            return of_logits, None

        return (smoothed(nll, uniform, label_smoothing), nll, is_largest(logits, gold)), gradient

    return of(logits, labels)

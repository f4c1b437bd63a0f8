"""Random numbers of training."""

import keras

from keras_attn_zoo.kernels.forms import operation
from keras_attn_zoo.support.types import Tensor

# Of the few numbers that are kept at higher rates, a bound of whole bits would keep too many or too few.
HIGHEST_RATE = 0.98


def bound_of_kept(rate: float, bits: int) -> int:
    """Return below which number of so many random bits a number is kept."""
    return min(round((1.0 - rate) * 2**bits), 2**bits - 1)


@operation
def dropout(x: Tensor, rate: float, seed: keras.random.SeedGenerator) -> Tensor:
    """Keep each number with probability 1 - rate, scaled by 1 / (1 - rate); the others become 0.

    Args:
        x: an array of floating point.
        rate: the share that is dropped, in [0, 1].
        seed: generator of the seed, whose state moves on.

    Example:
        >>> dropout(keras.ops.ones((2, 3)), 0.5, keras.random.SeedGenerator(1))  # zeros and twos
    """
    return keras.random.dropout(x, rate, seed=seed)

"""Forms for PyTorch."""

import math

import keras

from keras_attn_zoo.kernels.portable import noise
from keras_attn_zoo.kernels.table import plain
from keras_attn_zoo.support.types import Tensor


def dropout(x: Tensor, rate: float, seed: keras.random.SeedGenerator) -> Tensor:
    """Drop by 16 random bits for each number, on a CPU, of a seed made of both words of the generator's.

    Keras adds up the two: as those of one layer count up from step to step, the masks of a layer would be those of
    another one's next step.
    """
    import torch

    # A compiler cannot take a generator.
    if rate > noise.HIGHEST_RATE or x.device.type != "cpu" or torch.compiler.is_compiling():
        return plain(noise.dropout)(x, rate, seed)
    keep, count = 1.0 - rate, math.prod(x.shape)
    first, second = (int(word) for word in seed.next())
    generator = torch.Generator().manual_seed((first * 0x9E3779B1 + second) % 2**32)
    # Signed, since PyTorch cannot compare others; four numbers to a word.
    words = torch.empty((count + 3) // 4, dtype=torch.int64, device="cpu").random_(-(2**63), None, generator=generator)
    kept = words.view(torch.int16)[:count].view(x.shape) < noise.bound_of_kept(rate, 16) - 2**15
    return x * kept.to(x.dtype).mul_(1.0 / keep)

"""Forms for PyTorch: dropout and Adam."""

import math
from collections.abc import Sequence

import keras

from keras_attn_zoo.kernels.forms import plain
from keras_attn_zoo.kernels.portable import noise
from keras_attn_zoo.kernels.portable.updates import AdamStep
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


def adam(
    weights: Sequence[keras.Variable],
    gradients: Sequence[Tensor],
    means: Sequence[keras.Variable],
    squares: Sequence[keras.Variable],
    numbers: AdamStep,
) -> None:
    """Update all weights by one operation."""
    import torch
    from torch.optim.adam import adam as update

    factor, step = numbers.factor, int(numbers.step)
    gradients = [g.to(w.value.dtype) for w, g in zip(weights, gradients, strict=True)]
    if factor is not None and not _heeds_scale(gradients):
        gradients, factor = [g * factor.to(g.dtype) for g in gradients], None
    with torch.no_grad():
        update(
            [w.value for w in weights],
            gradients,
            [m.value for m in means],
            [v.value for v in squares],
            [],
            # PyTorch counts the step itself.
            [torch.tensor(step - 1.0, device=w.value.device) for w in weights],
            fused=True,
            amsgrad=False,
            beta1=numbers.beta_1,
            beta2=numbers.beta_2,
            lr=float(numbers.learning_rate),
            weight_decay=0.0,
            # PyTorch divides √v by √(1 - β₂ᵗ) before it adds ε.
            eps=numbers.epsilon / (1 - numbers.beta_2**step) ** 0.5,
            maximize=False,
            # PyTorch divides by it.
            grad_scale=None if factor is None else 1.0 / factor,
        )


def _heeds_scale(gradients):
    """Whether PyTorch's update heeds `grad_scale`: that of Apple's GPUs takes it, and does nothing with it."""
    return all(gradient.device.type in ("cpu", "cuda") for gradient in gradients)

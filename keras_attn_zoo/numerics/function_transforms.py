"""What PyTorch's `torch.func` cannot transform: hand-written gradients, and what the backward pass computes again."""

import functools
from collections.abc import Callable

import keras

from keras_attn_zoo.types import Tensor


def is_transformed() -> bool:
    """Return whether PyTorch transforms the code that runs, so that only plain operations are to be used."""
    if keras.config.backend() != "torch":
        return False
    import torch

    # `torch.func` has no public name for what `torch.autograd.Function` asks here.
    return torch._C._are_functorch_transforms_active()


def recomputed(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`keras.remat`, but the function itself where it is transformed.

    Example:
        >>> recomputed(keras.ops.tanh)(keras.ops.zeros(()))  # 0
    """
    again = keras.remat(function)

    @functools.wraps(function)
    def run(*tensors):
        return function(*tensors) if is_transformed() else again(*tensors)

    return run

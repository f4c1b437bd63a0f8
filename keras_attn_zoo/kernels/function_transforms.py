"""Hand-written gradients and recomputation in the backward pass, left out where the backend has no use for them."""

import contextvars
import functools
from collections.abc import Callable
from typing import Any

import keras

from keras_attn_zoo.support.types import Tensor

_FORWARD_ALONE: contextvars.ContextVar[bool] = contextvars.ContextVar("forward_alone", default=False)


def is_transformed() -> bool:
    """Return whether PyTorch transforms the code that runs, so that only plain operations are to be used."""
    if keras.config.backend() != "torch":
        return False
    import torch

    # `torch.func` has no public name for what `torch.autograd.Function` asks here.
    return torch._C._are_functorch_transforms_active()


def forward_alone(function: Callable) -> Callable:
    """Return a function whose result nobody differentiates, so that its graph needs no gradients.

    TensorFlow keeps every hand-written gradient of a graph, and with it the graph, until the process ends.
    """

    @functools.wraps(function)
    def run(*args, **kwargs):
        token = _FORWARD_ALONE.set(True)
        try:
            return function(*args, **kwargs)
        finally:
            _FORWARD_ALONE.reset(token)

    return run


def custom_gradient(function: Callable[..., tuple[Any, Callable]]) -> Callable:
    """`keras.ops.custom_gradient`, but the result alone in what `forward_alone` returns.

    Example:
        >>> custom_gradient(lambda x: (x * x, lambda *args, upstream=None: args))(keras.ops.ones(()))  # 1.0
    """
    differentiable = keras.ops.custom_gradient(function)

    @functools.wraps(function)
    def run(*tensors):
        return function(*tensors)[0] if _FORWARD_ALONE.get() else differentiable(*tensors)

    return run


def recomputed(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`keras.remat`, but the function itself where it is transformed, and in what `forward_alone` returns.

    Example:
        >>> recomputed(keras.ops.tanh)(keras.ops.zeros(()))  # 0
    """
    again = keras.remat(function)

    @functools.wraps(function)
    def run(*tensors):
        return function(*tensors) if is_transformed() or _FORWARD_ALONE.get() else again(*tensors)

    return run

"""Adam's update of all weights."""

from collections.abc import Sequence
from typing import NamedTuple

import keras
from keras import ops

from keras_attn_zoo.kernels.forms import operation
from keras_attn_zoo.support.types import Tensor


class AdamStep(NamedTuple):
    """The numbers of one of Adam's updates.

    Attributes:
        step: t, from 1.
        learning_rate, beta_1, beta_2, epsilon: η, β₁, β₂ and ε.
        factor: by which all gradients are multiplied first; None for 1.
    """

    step: Tensor
    learning_rate: Tensor
    beta_1: float
    beta_2: float
    epsilon: float
    factor: Tensor | None = None


@operation
def adam(
    weights: Sequence[keras.Variable],
    gradients: Sequence[Tensor],
    means: Sequence[keras.Variable],
    squares: Sequence[keras.Variable],
    numbers: AdamStep,
) -> None:
    """Update weights and both moments of their gradients.

        m ← m + (1 - β₁) (g - m),   v ← v + (1 - β₂) (g² - v)
        w ← w - η √(1 - β₂ᵗ) / (1 - β₁ᵗ) · m / (√v + ε)

    Args:
        weights: w, of any shapes.
        gradients: g, one of each weight's shape, which may be overwritten.
        means, squares: m and v, likewise.
        numbers: the other symbols.

    Example:
        >>> w, m, v = (keras.Variable([1.0 - i]) for i in (0, 1, 1))
        >>> adam([w], [ops.ones(1)], [m], [v], AdamStep(1, 0.1, 0.9, 0.999, 1e-7))  # w: 0.9

    Source: Kingma and Ba, Adam: a method for stochastic optimization, 2015, section 2.
    """
    for w, g, m, v in zip(weights, gradients, means, squares, strict=True):
        step, rate = ops.cast(numbers.step, w.dtype), ops.cast(numbers.learning_rate, w.dtype)
        g = ops.cast(g, w.dtype)
        if numbers.factor is not None:
            g = g * ops.cast(numbers.factor, w.dtype)
        correction_1 = 1 - ops.power(ops.cast(numbers.beta_1, w.dtype), step)
        correction_2 = 1 - ops.power(ops.cast(numbers.beta_2, w.dtype), step)
        m.assign(m + (g - m) * (1 - numbers.beta_1))
        v.assign(v + (ops.square(g) - v) * (1 - numbers.beta_2))
        w.assign(w - m * (rate * ops.sqrt(correction_2) / correction_1) / (ops.sqrt(v) + numbers.epsilon))


@operation
def is_replica() -> bool:
    """Return whether the code runs once for every one of several devices, whose updates Keras combines.

    Example:
        >>> is_replica()
        False
    """
    return False

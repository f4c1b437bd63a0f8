"""What products know of their weights: how they were prepared for inference, or which a loop in training repeats.

A search, or a loop over positions, knows more of a weight than the layer that multiplies by it; Keras' functional graph
hands no argument on to the layers inside. This is the one context variable of this package's computations.
"""

import contextlib
import contextvars
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from keras_attn_zoo.support.types import Tensor

_KNOWN: contextvars.ContextVar[Any] = contextvars.ContextVar("known_weights", default=None)


class PreparedWeight(NamedTuple):
    """The matrix of a weight as products of inference want it, in floating point.

    Attributes:
        matrix: W, `(inputs, outputs)`, or Wᵀ.
        transposed: whether it is Wᵀ.
    """

    matrix: Tensor
    transposed: bool


@contextlib.contextmanager
def inference(prepared: Mapping[int, PreparedWeight] | None = None) -> Iterator[None]:
    """Run the code inside, or the decorated function, without gradients.

    Hand-written gradients are left out: TensorFlow keeps each of a graph, and with it the graph, for ever.

    Args:
        prepared: weights by the identity of their variables, for products that are faster with these.
    """
    token = _KNOWN.set(dict(prepared or {}))
    try:
        yield
    finally:
        _KNOWN.reset(token)


def is_inference() -> bool:
    """Return whether the code runs without gradients, inside of `inference`."""
    return isinstance(_KNOWN.get(), dict)


def prepared(weight: Any) -> PreparedWeight | None:
    """Return how a variable was prepared for the inference that runs; None if it was not."""
    known = _KNOWN.get()
    return known.get(id(weight)) if isinstance(known, dict) else None


@contextlib.contextmanager
def repeating(products: Any) -> Iterator[None]:
    """Run a step of a loop in training, whose products with weights `products` computes."""
    token = _KNOWN.set(products)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def repeated_products() -> Any | None:
    """Return what computes the products of the loop in training that runs; None outside of one."""
    known = _KNOWN.get()
    return None if isinstance(known, dict) else known


def is_repeating() -> bool:
    """Return whether the code is a step of a loop in training that `repeating` runs."""
    return repeated_products() is not None

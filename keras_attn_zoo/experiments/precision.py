"""The precision that a model computes in, and the one that suits this machine."""

import logging

import keras

from keras_attn_zoo.backends import multiplies_bfloat16
from keras_attn_zoo.experiments.memory import on_cpu

_LOG = logging.getLogger(__name__)
# Weights are float32 under both policies, and so is whatever has to be exact.
_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def policy(precision: str) -> str:
    """Return Keras' dtype policy for a precision, see `resolve`.

    Example:
        >>> policy("bfloat16")
        'mixed_bfloat16'
    """
    return _POLICIES[_suitable()[0] if precision == "auto" else precision]


def resolve(precision: str) -> str:
    """Return "float32" or "bfloat16"; in place of "auto", report and return the one that is faster here.

    Example:
        >>> resolve("float32")
        'float32'
    """
    if precision != "auto":
        return precision
    suitable, why = _suitable()
    _LOG.info("computing in %s: %s", suitable, why)
    return suitable


def _suitable():
    """The faster precision, and the reason in words."""
    backend = keras.config.backend()
    if not on_cpu():
        return "bfloat16", f"{backend} runs on an accelerator"
    if not multiplies_bfloat16(backend):
        return "float32", f"{backend} is not faster in bfloat16 with every system on this CPU"
    return "bfloat16", f"{backend} is faster in bfloat16 on this CPU"

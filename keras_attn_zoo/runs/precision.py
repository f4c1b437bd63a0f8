"""The precision that a model computes in, and the one that suits this machine."""

import logging

from keras_attn_zoo.devices import agreed
from keras_attn_zoo.kernels import is_faster_in_bfloat16
from keras_attn_zoo.runs.memory import on_cpu

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
    # Processes may run on different processors.
    suitable, why = agreed(_suitable())
    _LOG.info("computing in %s: %s", suitable, why)
    return suitable


def _suitable():
    """The precision that is faster here, and the reason in words."""
    if not on_cpu():
        return "bfloat16", "on an accelerator"
    if is_faster_in_bfloat16():
        return "bfloat16", "this CPU multiplies it faster than float32"
    return "float32", "this CPU does not multiply bfloat16 faster"

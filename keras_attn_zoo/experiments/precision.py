"""The precision that a model computes in, and the one that suits its body on this machine."""

import logging

import keras

from keras_attn_zoo.backends import multiplies_bfloat16
from keras_attn_zoo.experiments.bodies import BODIES
from keras_attn_zoo.experiments.memory import on_cpu

_LOG = logging.getLogger(__name__)
# Weights are float32 under both policies, and so is whatever has to be exact.
_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def policy(precision: str, body: str) -> str:
    """Return Keras' dtype policy for a precision, see `resolve`.

    Example:
        >>> policy("bfloat16", "rnn")
        'mixed_bfloat16'
    """
    return _POLICIES[_suitable(body)[0] if precision == "auto" else precision]


def resolve(precision: str, body: str) -> str:
    """Return "float32" or "bfloat16"; in place of "auto", report and return the one that is faster here with a body.

    Example:
        >>> resolve("float32", "transformer")
        'float32'
    """
    if precision != "auto":
        return precision
    suitable, why = _suitable(body)
    _LOG.info("computing in %s: %s", suitable, why)
    return suitable


def _suitable(body):
    """The precision in which a body is faster, and the reason in words."""
    backend, bodies = keras.config.backend(), f"{BODIES[body].title}s"
    if not on_cpu():
        return "bfloat16", f"{backend} runs on an accelerator"
    if not multiplies_bfloat16(backend, body):
        return "float32", f"{backend} does not compute {bodies} faster in bfloat16 on this CPU"
    return "bfloat16", f"{backend} computes {bodies} faster in bfloat16 on this CPU"

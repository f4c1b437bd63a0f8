"""The memory that training takes: estimated before anything is built; more than the machine has is refused."""

import logging
import os

import keras

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments.bodies import BODIES
from keras_attn_zoo.experiments.system import System

_FLOAT = 4
# Weights, gradients, and the two moments of Adam.
_COPIES = 4
_LOG = logging.getLogger(__name__)


def weight_bytes(parameters: int) -> int:
    """Return the memory of weights, gradients and optimiser.

    Example:
        >>> weight_bytes(1_000_000)
        16000000
    """
    return parameters * _COPIES * _FLOAT


def activation_bytes(system: System, vocabulary_size: int) -> int:
    """Estimate the peak memory of a batch in training: what the backward pass needs from the forward pass.

    The batch is assumed full and its sentences as long as allowed. For each position, this counts the logits with
    their softmax and gradient, what each layer keeps, and the weights of each attention. XLA on a CPU took
    80 to 100 % of it in models of either body.

    Args:
        system: a `System`.
        vocabulary_size: tokens of the target side.
    """
    body = BODIES[system.body]
    sizes, data, length = body.sizes(system.backbone), system.data, system.data.max_tokens
    # One of the two is set.
    of_batch = data.tokens_per_batch or (data.sentences_per_batch or 0) * length
    positions = max(length, of_batch / system.training.accumulation_steps)
    numbers = body.kept_numbers(sizes, length)
    # A latent alignment has the logits of both sides, and of the pairs of positions what was looked up.
    numbers += 9 * vocabulary_size + 3 * length if sizes["output"] == "latent" else 3 * vocabulary_size
    return int(positions * numbers * _FLOAT)


def check_memory(system: System, parameters: int, vocabulary_size: int, tell: bool = True) -> None:
    """Report the memory that training a system takes; refuse what this machine cannot hold.

    The limit applies only to a model in the machine's own memory; Keras does not report an accelerator's.

    Args:
        system: a `System`.
        parameters: number of its weights.
        vocabulary_size: tokens of the target side.
        tell: whether to report it, not only to refuse.

    Raises:
        UserError: weights, gradients and optimiser need more memory than the machine has.
    """
    needed = weight_bytes(parameters)
    count = f"{parameters / 1e6:,.1f} M" if parameters >= 1e5 else f"{parameters:,}"
    model = f"{system.name}: {count} parameters"
    if on_cpu() and needed > machine_bytes():
        raise UserError(
            f"{model} need {_amount(needed)} to train (weights, gradients, Adam), and this machine has "
            f"{_amount(machine_bytes())}: take smaller widths, fewer layers or a smaller vocabulary_size."
        )
    if tell:
        activations = _amount(activation_bytes(system, vocabulary_size))
        _LOG.info(
            "%s: about %s to train (weights, gradients, Adam), and up to %s of activations",
            model,
            _amount(needed),
            activations,
        )


def machine_bytes() -> float:
    """Return the memory of this machine; infinity if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")


def on_cpu() -> bool:
    """Return whether tensors are in the machine's own memory."""
    return "cpu" in str(keras.ops.zeros((1,)).device).lower()


def _amount(count):
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if count >= unit / 10:
            return f"{count / unit:,.1f} {name}"
    return f"{count / 1e3:.0f} kB"

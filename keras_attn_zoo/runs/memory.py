"""The memory that training needs: estimated before anything is built, and refused if the machine has less."""

import logging

import keras

from keras_attn_zoo.bodies.schema import BODIES
from keras_attn_zoo.runs.outline import body_arguments
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.machine_memory import machine_bytes
from keras_attn_zoo.training.progress import parameter_count

_FLOAT = 4
# Weights, gradients, and the two moments of Adam.
_COPIES = 4
_LOG = logging.getLogger(__name__)


def weight_bytes(parameters: int, more_copies: int = 0) -> int:
    """Return the memory that weights, gradients and optimiser need, and further copies of the weights.

    Example:
        >>> weight_bytes(1_000_000)
        16000000
    """
    return parameters * (_COPIES + more_copies) * _FLOAT


def activation_bytes(system: System, vocabulary_size: int) -> int:
    """Estimate the peak memory of a training batch: what the backward pass needs from the forward pass.

    The batch is assumed full and its sentences as long as allowed. For each position, this counts the logits with
    their softmax and gradient, what each layer keeps, and the weights of each attention. XLA on a CPU used 80 to
    100 % of the estimate in models of either body. The vocabulary is that of the target.
    """
    data, length = system.data, system.data.max_tokens
    # Exactly one of the two is set.
    of_batch = data.tokens_per_batch or (data.sentences_per_batch or 0) * length
    positions = max(length, of_batch / system.training.accumulation_steps)
    body = BODIES[system.body].arguments(vocabulary_size, vocabulary_size, **body_arguments(system))
    return int(positions * body.kept_numbers(length) * _FLOAT)


def check_memory(system: System, parameters: int, vocabulary_size: int, tell: bool = True) -> None:
    """Report the memory that training a system needs; raise if this machine has less.

    The limit applies only on a CPU: Keras does not report an accelerator's memory.

    Args:
        system: the system.
        parameters: number of its parameters.
        vocabulary_size: size of the target vocabulary.
        tell: whether to report the estimate.

    Raises:
        UserError: weights, gradients and optimiser need more memory than the machine has.
    """
    # The moving average; the model that training begins with.
    more_copies = [one is not None for one in (system.training.ema_momentum, system.training.initial_model)]
    needed = weight_bytes(parameters, sum(more_copies))
    model = f"{system.name}: {parameter_count(parameters)} parameters"
    if on_cpu() and needed > machine_bytes():
        raise UserError(
            f"{model} need {shown_bytes(needed)} to train (weights, gradients, Adam), but this machine has "
            f"{shown_bytes(machine_bytes())}: choose smaller widths, fewer layers or a smaller vocabulary_size."
        )
    if tell:
        activations = shown_bytes(activation_bytes(system, vocabulary_size))
        _LOG.info(
            "%s; training needs about %s for weights, gradients and Adam, and up to %s for activations",
            model,
            shown_bytes(needed),
            activations,
        )


def on_cpu() -> bool:
    """Return whether tensors are on the CPU."""
    return "cpu" in str(keras.ops.zeros((1,)).device).lower()


def shown_bytes(count: float) -> str:
    """Write a number of bytes as people read it.

    Example:
        >>> shown_bytes(2_500_000)
        '2.5 MB'
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if count >= unit / 10:
            return f"{count / unit:,.1f} {name}"
    return f"{count / 1e3:.0f} kB"

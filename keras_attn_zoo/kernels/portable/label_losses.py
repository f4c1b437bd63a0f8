"""The loss of labels, from logits."""

from keras import ops

from keras_attn_zoo.kernels.forms import operation
from keras_attn_zoo.support.types import Tensor


@operation
def along_last(values: Tensor, places: Tensor) -> Tensor:
    """Return the values `(..., size)` at places `(..., count)` of the last axis."""
    return ops.take_along_axis(values, places, axis=-1)


def of_labels(values: Tensor, labels: Tensor) -> Tensor:
    """Return the values `(..., vocabulary)` of the labels `(...)`."""
    return ops.squeeze(along_last(values, labels[..., None]), axis=-1)


def is_largest(logits: Tensor, gold: Tensor) -> Tensor:
    """Return 1 where the gold logit is the largest, else 0."""
    # Compared with the largest logit: on a CPU, XLA's argmax would take a fifth of the time of the whole loss.
    return ops.cast(gold >= ops.max(ops.stop_gradient(logits), axis=-1), "float32")


def smoothed(nll: Tensor, uniform: Tensor, label_smoothing: float) -> Tensor:
    """Return the loss of both under label smoothing."""
    return (1.0 - label_smoothing) * nll + label_smoothing * uniform if label_smoothing else nll


@operation
def token_losses(logits: Tensor, labels: Tensor, label_smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return loss, nll and correctness of every token.

        nll = log Σ_v exp(z_v) - z_y,   loss = (1 - ε) nll + ε/V Σ_v (log Σ_u exp(z_u) - z_v)

    Args:
        logits: z, float32 `(..., vocabulary)`.
        labels: y, int32 `(...)`.
        label_smoothing: ε.

    Returns:
        float32 `(...)` each; only the loss has a gradient.
    """
    log_probs = ops.log_softmax(logits, axis=-1)
    gold = of_labels(log_probs, labels)
    uniform = -ops.mean(log_probs, axis=-1) if label_smoothing else 0.0
    return smoothed(-gold, uniform, label_smoothing), ops.stop_gradient(-gold), is_largest(log_probs, gold)

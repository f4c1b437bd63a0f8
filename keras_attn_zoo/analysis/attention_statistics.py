"""Statistics of attention weights."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keras_attn_zoo.errors import UserError


def attention_entropy(weights: ArrayLike, mask: ArrayLike | None = None) -> NDArray[np.float64]:
    """Entropy of every row of attention weights, in nats.

    It is 0 if all weight is on one source position, and log J if the weight is
    spread evenly over J positions.

        H_i = -Σ_j α_ij log α_ij, over the real source positions j

    Args:
        weights: `(..., target, source)`, each row a distribution over the source.
        mask: bool, broadcastable to `weights`, true where a position is real; for a
            batch with heads, `value_mask[:, None, None, :]`. None if all are real.

    Returns:
        float64 array `(..., target)`; 0 for a row without real positions.

    Raises:
        UserError: a weight at a real position is negative or NaN, or the mask does not match in shape.

    Example:
        >>> attention_entropy([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]).round(4).tolist()
        [0.6931, 0.0]
    """
    weights = np.asarray(weights, "float64")
    if mask is not None:
        mask = np.asarray(mask, bool)
        try:
            weights = np.where(np.broadcast_to(mask, weights.shape), weights, 0.0)
        except ValueError:
            raise UserError(
                f"a mask of shape {mask.shape} does not fit weights of shape {weights.shape}: "
                "give one that broadcasts to them."
            ) from None
    if not (weights >= 0).all():
        raise UserError("the attention weights have negative or NaN values: give weights after the softmax.")
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    return 0.0 - np.sum(weights * logs, axis=-1)

"""Sparse alternatives to the softmax, by sorting."""

from keras import ops

from keras_attn_zoo.kernels.forms import operation
from keras_attn_zoo.kernels.portable.label_losses import along_last
from keras_attn_zoo.kernels.portable.masks import EXCLUDED
from keras_attn_zoo.support.types import Tensor

# Below every threshold if the largest energy is 0, and small enough in magnitude to be summed without loss.
_OUTSIDE = -2.0


@operation
def sparsemax(energies: Tensor) -> Tensor:
    """Return max(e - τ, 0) with Σ = 1, of float32 energies without a mask, along the last axis."""
    shifted, largest_first, rank, sums = sorted_energies(energies)
    inside = 1.0 + rank * largest_first > sums
    return ops.maximum(shifted - at_last(inside, (sums - 1.0) / rank), 0.0)


@operation
def entmax15(energies: Tensor) -> Tensor:
    """Return max(e/2 - τ, 0)² with Σ = 1, entmax of α = 1.5, of float32 energies without a mask."""
    shifted, largest_first, rank, sums = sorted_energies(energies / 2)
    mean = sums / rank
    # 1 minus the squared distances from the mean: negative beyond the support.
    left = 1.0 - (ops.cumsum(ops.square(largest_first), axis=-1) - sums * mean)
    # The gradient of the root at 0, infinity times 0, would be NaN for all entries.
    thresholds = mean - ops.where(left > 0, ops.sqrt(ops.where(left > 0, left, 1.0) / rank), 0.0)
    inside = thresholds <= largest_first
    return ops.square(ops.maximum(shifted - at_last(inside, thresholds), 0.0))


def shifted_energies(energies: Tensor) -> Tensor:
    """Return energies whose largest is 0, so that thresholds lie from -1 to 0."""
    # Without `initial`, some backends refuse an empty batch.
    return ops.maximum(energies - ops.max(energies, axis=-1, keepdims=True, initial=EXCLUDED), _OUTSIDE)


def sorted_energies(energies: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return shifted energies; these from the largest on, with their ranks and the sums up to each."""
    shifted = shifted_energies(energies)
    largest_first = ops.flip(ops.sort(shifted, axis=-1), axis=-1)
    rank = ops.cumsum(ops.ones_like(largest_first), axis=-1)
    return shifted, largest_first, rank, ops.cumsum(largest_first, axis=-1)


def at_last(inside: Tensor, thresholds: Tensor) -> Tensor:
    """Return the threshold at the last rank inside the support, `(..., 1)`; the ranks inside come first."""
    last = ops.sum(ops.cast(inside, "int32"), axis=-1, keepdims=True) - 1
    return along_last(thresholds, last)

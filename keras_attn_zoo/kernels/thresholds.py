"""The thresholds of sparsemax and entmax, by sorting and without, since XLA sorts slowly.

Newton's method approaches a threshold from below. It never overshoots, since the sum of weights is convex in the
threshold, and takes a few rounds; the result is exact. PyTorch, which sorts well and runs the operations of a loop one
by one, sorts few numbers.
"""

import math

import keras
from keras import ops

from keras_attn_zoo.kernels.masks import EXCLUDED
from keras_attn_zoo.support.types import Tensor

# A threshold of entmax that has moved by no more than this is as near as float32 tells after one more round.
_ALMOST = 1e-4
# Up to here PyTorch sorts faster than it searches.
_FEW_TO_SORT = 1 << 16
# Below every threshold if the largest energy is 0, and small enough in magnitude to be summed without loss.
_OUTSIDE = -2.0


def shifted_energies(energies: Tensor) -> Tensor:
    """Energies whose largest is 0, so that thresholds lie from -1 to 0."""
    # Without `initial`, some backends refuse an empty batch.
    return ops.maximum(energies - ops.max(energies, axis=-1, keepdims=True, initial=EXCLUDED), _OUTSIDE)


def sorted_energies(energies: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Shifted energies; these from the largest on, with their ranks and the sums up to each."""
    shifted = shifted_energies(energies)
    largest_first = ops.flip(ops.sort(shifted, axis=-1), axis=-1)
    rank = ops.cumsum(ops.ones_like(largest_first), axis=-1)
    return shifted, largest_first, rank, ops.cumsum(largest_first, axis=-1)


def at_last(inside: Tensor, thresholds: Tensor) -> Tensor:
    """The threshold at the last rank inside the support, `(..., 1)`; the ranks inside come first."""
    last = ops.sum(ops.cast(inside, "int32"), axis=-1, keepdims=True) - 1
    return ops.take_along_axis(thresholds, last, axis=-1)


def searched_sparsemax(energies: Tensor) -> Tensor:
    """Return what `plain_sparsemax` does, without a gradient."""
    shifted = shifted_energies(energies)

    def closer(threshold):
        """The threshold of the positions above the present one: exact as soon as these are the support."""
        inside = shifted > threshold
        total = ops.sum(ops.where(inside, shifted, 0.0), axis=-1, keepdims=True)
        return (total - 1.0) / ops.sum(ops.cast(inside, "float32"), axis=-1, keepdims=True)

    return ops.maximum(shifted - _threshold(shifted, closer, 0.0), 0.0)


def searched_entmax15(energies: Tensor) -> Tensor:
    """Return what `plain_entmax15` does, without a gradient."""
    shifted = shifted_energies(energies / 2)

    def closer(threshold):
        """Newton's step for the root of the summed weights, which is straight where all weights are equal."""
        above = ops.maximum(shifted - threshold, 0.0)
        root = ops.sqrt(ops.sum(ops.square(above), axis=-1, keepdims=True))
        return threshold + (root - 1.0) * root / ops.sum(above, axis=-1, keepdims=True)

    # The number of digits doubles in each round: after one more there are none to be gained.
    threshold = closer(_threshold(shifted, closer, _ALMOST))
    return ops.square(ops.maximum(shifted - threshold, 0.0))


def sorts_better(energies: Tensor) -> bool:
    """Whether there is less to do by sorting."""
    return keras.config.backend() == "torch" and math.prod(energies.shape) <= _FEW_TO_SORT


def _threshold(shifted, closer, tolerance):
    """The threshold `(..., 1)`: `closer` takes it nearer from below, until no row moves by more than a tolerance."""

    def move(threshold, _):
        nearer = ops.maximum(threshold, closer(threshold))
        return nearer, ops.any(nearer - threshold > tolerance)

    start = ops.zeros_like(shifted[..., :1]) - 1.0
    return ops.while_loop(lambda _, moved: moved, move, move(start, None))[0]

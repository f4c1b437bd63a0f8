"""Relative positions of T5: every range of distances has a bias."""

import math

from keras import ops

from keras_attn_zoo.kernels import rows
from keras_attn_zoo.layers.base.kernel_initialization import add_kernel
from keras_attn_zoo.layers.base.positions.relative_positions import RelativePositions, distances
from keras_attn_zoo.support.types import Shape, Tensor

_BUCKETS = 16
# f(x) of every x up to where it ends: 8 have a bucket of their own, those farther away share one each.
_BUCKET_OF = [x if x < 8 else min(_BUCKETS - 1, 8 + int(2 * math.log2(x / 8))) for x in range(129)]


class T5(RelativePositions):
    """Add a trained bias to the energies, one for each head and range of distances.

    Use it for sentences of all lengths: what is far away has one bias.

        b_ij^n = B_{g(j - i), n}
        g(x) = f(|x|) + 16 [x > 0],   f(x) = x if x < 8, else min(15, 8 + ⌊2 log₂(x/8)⌋)

    Symbols: n counts the heads; B `(32, heads)`.

    Example:
        >>> biases = T5(2, 4, "glorot_uniform")
        >>> biases.build()
        >>> bias = biases.bias(None, ops.arange(2), ops.arange(3))  # (1, 2, 2, 3)

    Source: Raffel et al., Exploring the limits of transfer learning with a unified text-to-text Transformer, 2020,
    section 2.1; the ranges are those of its code.

    Differences from the paper: it shares B between the layers of a side, does not divide energies by √d_k, and in the
    decoder has all 32 ranges for earlier positions.
    """

    def build(self, input_shape: Shape | None = None) -> None:
        """Create B."""
        self.biases = add_kernel(self, "biases", (2 * _BUCKETS, self.num_heads), autocast=False)
        super().build(input_shape)

    def bias(self, query: Tensor, target: Tensor, source: Tensor) -> Tensor | None:
        """Return a bias that all sentences share."""
        found = rows(ops.convert_to_tensor(self.biases), buckets(distances(target, source)))
        return ops.transpose(found, (2, 0, 1))[None]


def buckets(distance: Tensor) -> Tensor:
    """Return g(x) of distances.

    Example:
        >>> buckets(ops.convert_to_tensor([-1000, -1, 0, 1, 20]))  # [15, 1, 0, 17, 26]
    """
    far = ops.minimum(ops.absolute(distance), len(_BUCKET_OF) - 1)
    # A column: of a vector, an exported program would take the number of distances for 1.
    found = ops.take(ops.convert_to_tensor([[bucket] for bucket in _BUCKET_OF], "int32"), far, axis=0)
    return found[..., 0] + _BUCKETS * ops.cast(distance > 0, "int32")

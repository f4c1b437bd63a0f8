"""ALiBi: energies fall linearly with the distance."""

import math

from keras import ops

from keras_attn_zoo.layers.base.positions.relative_positions import RelativePositions, distances
from keras_attn_zoo.support.types import Tensor


class ALiBi(RelativePositions):
    """Subtract from the energies what grows linearly with the distance, with a slope for each head.

    Use it for sentences longer than those of the training. It has no weights.

        b_ij^n = -m_n |j - i|,   m_n = 2^(-8n/N)

    Symbols: n counts the N heads, from 1. If N is no power of two, the slopes are those of the largest power P below
    it, then every other one of 2P heads.

    Example:
        >>> ALiBi(2, 4, "zeros").bias(None, ops.arange(2), ops.arange(3))  # (1, 2, 2, 3)

    Source: Press, Smith and Lewis, Train short, test long: attention with linear biases enables input length
    extrapolation, 2022, section 3.

    Differences from the paper: it has causal attention alone; here, positions that come later count like earlier ones.
    """

    def bias(self, query: Tensor, target: Tensor, source: Tensor) -> Tensor | None:
        """Return a bias that all sentences share."""
        far = ops.cast(ops.absolute(distances(target, source)), "float32")
        return -ops.reshape(ops.convert_to_tensor(slopes(self.num_heads), "float32"), (1, -1, 1, 1)) * far


def slopes(num_heads: int) -> list[float]:
    """Return m_n of every head.

    Example:
        >>> slopes(3)
        [0.0625, 0.00390625, 0.25]
    """
    power = 2 ** int(math.log2(num_heads))
    more = range(1, 2 * (num_heads - power), 2)
    return [2 ** (-8 * n / power) for n in range(1, power + 1)] + [2 ** (-4 * n / power) for n in more]

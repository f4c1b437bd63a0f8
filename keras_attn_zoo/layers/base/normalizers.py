"""How energies become weights: softmax, and the sparse ones, which give most positions a weight of exactly 0.

All run in float32 and treat masks as `masked_softmax` does: excluded positions get 0, and so does a row with nothing to
attend to. Sparsemax and entmax are exact.
"""

from keras import ops

from keras_attn_zoo import kernels
from keras_attn_zoo.kernels import EXCLUDED, masked_softmax
from keras_attn_zoo.support.types import Tensor


def sparsemax(energies: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the point of the simplex nearest to the energies: p_j = max(e_j - τ, 0).

    Args:
        energies: `(..., source)`, any float type.
        mask: bool, broadcastable to `energies`, or None.

    Returns:
        float32 weights shaped like `energies`.

    Source: Martins and Astudillo 2016, algorithm 1.

    Example:
        >>> sparsemax([[0.0, 0.5, 3.0], [1.0, 1.0, 0.0]])  # [[0, 0, 1], [0.5, 0.5, 0]]
    """
    return _masked(kernels.sparsemax, energies, mask)


def entmax15(energies: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return weights halfway between softmax and sparsemax: p_j = max(e_j / 2 - τ, 0)².

    Args, returns: see `sparsemax`.

    Source: Peters, Niculae and Martins 2019, algorithm 2 (α = 1.5).

    Example:
        >>> entmax15([[0.0, 0.0, -5.0]])  # [[0.5, 0.5, 0]]
    """
    return _masked(kernels.entmax15, energies, mask)


NORMALIZERS = {"softmax": masked_softmax, "sparsemax": sparsemax, "entmax15": entmax15}


def _masked(normalize, energies, mask):
    energies = ops.cast(energies, "float32")
    if mask is None:
        return normalize(energies)
    mask = ops.cast(mask, "bool")
    return ops.where(mask, normalize(ops.where(mask, energies, EXCLUDED)), 0.0)

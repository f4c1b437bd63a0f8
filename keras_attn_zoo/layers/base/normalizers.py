"""How energies become weights: softmax, sparse ones, which give most positions a weight of exactly 0, and free ones,
whose sum is not bound to be 1.

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


def softmax1(energies: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the softmax beside a sink, an energy of 0 whose weight goes nowhere: p_j = exp e_j / (1 + Σ_k exp e_k).

    The weights sum to less than 1, so that a head can attend to almost nothing.

    Args, returns: see `sparsemax`.

    Source: Miller, Attention is off by one, 2023; the "zero sink" of Xiao et al. 2023, section 3.3.

    Example:
        >>> softmax1([[0.0, 0.0]])  # [[1/3, 1/3]]
    """
    return _masked(_softmax1, energies, mask)


def sigmoid(energies: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return weights that do not compete: p_j = 1 / (1 + exp(log n - e_j)), where n counts the positions of the row.

    Each lies between 0 and 1; at energies of 0 they sum to about 1.

    Args, returns: see `sparsemax`.

    Source: Ramapuram et al. 2024, section 2, with the bias b = -log n.

    Differences from the paper: its n is the length of all sentences; here it counts the positions that may be attended
    to, so that steps equal the call, and padding changes nothing.

    Example:
        >>> sigmoid([[0.0, 0.0]])  # [[1/3, 1/3]]
    """
    energies = ops.cast(energies, "float32")
    real = ops.ones_like(energies, dtype="bool")
    if mask is not None:
        real = ops.logical_and(mask, real)
    count = ops.sum(ops.cast(real, "float32"), axis=-1, keepdims=True)
    return ops.where(real, ops.sigmoid(energies - ops.log(ops.maximum(count, 1.0))), 0.0)


NORMALIZERS = {
    "softmax": masked_softmax,
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "softmax1": softmax1,
    "sigmoid": sigmoid,
}
# Those whose weights are no distribution.
FREE_NORMALIZERS = ("softmax1", "sigmoid")


def _softmax1(energies):
    largest = ops.stop_gradient(ops.max(energies, axis=-1, keepdims=True, initial=0.0))
    shares = ops.exp(energies - largest)
    return shares / (ops.exp(-largest) + ops.sum(shares, axis=-1, keepdims=True))


def _masked(normalize, energies, mask):
    energies = ops.cast(energies, "float32")
    if mask is None:
        return normalize(energies)
    mask = ops.cast(mask, "bool")
    return ops.where(mask, normalize(ops.where(mask, energies, EXCLUDED)), 0.0)

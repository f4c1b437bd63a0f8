"""Statistics of attention weights."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keras_attn_zoo.support.errors import UserError


def attention_entropy(weights: ArrayLike, mask: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return the entropy of every row of attention weights, in nats.

    It is 0 if all weight is on one source position, and log J if the weight is spread evenly over J positions.

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


def jensen_shannon_divergence(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Return how far apart two distributions over the source are, in nats: 0 if equal, log 2 if they share nothing.

        JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2

    Args:
        first, second: `(..., source)`, each row a distribution.

    Returns:
        float64 array `(...)`.

    Raises:
        UserError: a weight is negative or NaN, or the shapes differ.

    Example:
        >>> jensen_shannon_divergence([[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]).round(4).tolist()
        [0.6931, 0.0]
    """
    first, second = np.asarray(first, "float64"), np.asarray(second, "float64")
    if first.shape != second.shape:
        raise UserError(f"weights of shapes {first.shape} and {second.shape} cannot be compared: give equal shapes.")
    apart = attention_entropy((first + second) / 2) - (attention_entropy(first) + attention_entropy(second)) / 2
    # Of equal distributions, rounding may leave less than nothing.
    return np.maximum(apart, 0.0)


class LayerStatistics:
    """Statistics of the attention weights of several layers, over any number of sentences.

    Use it to see how concentrated the layers of a model are, and how similar to one another.

    Args:
        count: the number of layers.
        causal: whether a position attends only to those up to itself, as in a decoder. The others are not counted
            among the weights.
        bins: number of equal intervals from 0 to 1 for the histograms.

    Attributes:
        edges: where the intervals begin and end, `(bins + 1,)`.

    Source: Zeng and others, §4.1 (entropy, equation 5; histograms) and §4.3 (divergence).

    Differences from the paper: it does not say how the heads of two layers are compared. Here, the means of their heads
    are, which do not depend on the order of the heads.

    Example:
        >>> statistics = LayerStatistics(2)
        >>> even, peaked = [[[0.5, 0.5]]], [[[1.0, 0.0]]]
        >>> statistics.add([even, peaked])
        >>> statistics.entropy.round(4).tolist()
        [0.6931, 0.0]
        >>> statistics.divergence.round(4).tolist()
        [[0.0, 0.2158], [0.2158, 0.0]]
    """

    def __init__(self, count: int, causal: bool = False, bins: int = 20) -> None:
        self.causal = causal
        self.edges = np.linspace(0.0, 1.0, bins + 1)
        self._entropy = np.zeros(count)
        self._counts = np.zeros((count, bins))
        self._divergence = np.zeros((count, count))
        self._rows = self._positions = 0

    def add(self, layers: Sequence[ArrayLike]) -> None:
        """Count a sentence.

        Args:
            layers: the weights of each layer, `(heads, target, source)`.

        Raises:
            UserError: weights that are negative or NaN, or of other shapes; another number of layers.
        """
        weights = [np.asarray(one, "float64") for one in layers]
        if len(weights) != len(self._entropy):
            raise UserError(f"received weights of {len(weights)} layers, expected {len(self._entropy)}.")
        shapes = [one.shape for one in weights]
        if any(len(shape) != 3 or shape[1:] != shapes[0][1:] for shape in shapes):
            raise UserError(f"weights of shapes {shapes} are not those of one sentence: give (heads, target, source).")
        # All are checked before any is counted.
        entropies = [attention_entropy(one).mean(axis=0).sum() for one in weights]
        target, source = shapes[0][1:]
        seen = np.tri(target, source, dtype=bool) if self.causal else np.ones((target, source), dtype=bool)
        means = [one.mean(axis=0) for one in weights]
        for i, one in enumerate(weights):
            self._entropy[i] += entropies[i]
            self._counts[i] += np.histogram(np.clip(one[:, seen], 0.0, 1.0), self.edges)[0] / len(one)
            for j in range(i):
                self._divergence[i, j] += jensen_shannon_divergence(means[i], means[j]).sum()
        self._rows += target
        self._positions += int(seen.sum())

    @property
    def entropy(self) -> NDArray[np.float64]:
        """The mean entropy of the rows of each layer, in nats, `(layers,)`."""
        self._check()
        return self._entropy / self._rows

    @property
    def histogram(self) -> NDArray[np.float64]:
        """The share of the weights of each layer that is in each interval, `(layers, bins)`."""
        self._check()
        return self._counts / self._positions

    @property
    def divergence(self) -> NDArray[np.float64]:
        """The mean Jensen-Shannon divergence of each pair of layers, in nats, `(layers, layers)`."""
        self._check()
        return (self._divergence + self._divergence.T) / self._rows

    def _check(self) -> None:
        if not self._rows:
            raise UserError("no sentence has been added yet: call add first.")

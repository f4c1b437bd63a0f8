"""Word alignments from attention weights: subwords are merged into words, links extracted from the weights."""

from collections.abc import Iterable, Sequence

import numpy as np

from keras_attn_zoo.evaluation.alignments import Link
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.types import Tensor


def _checked_matrix(weights):
    weights = np.asarray(weights, "float64")
    if weights.ndim != 2:
        raise UserError(
            f"attention weights of shape {weights.shape}: give those of one sentence pair, (target, source)."
        )
    if not np.isfinite(weights).all():
        raise UserError(f"attention weights of shape {weights.shape} hold NaN or infinite values: check the model.")
    return weights


def _membership(groups, pieces, side):
    """Return a 0/1 matrix `(pieces, words)` that says which piece belongs to which word."""
    groups = np.asarray(groups)
    if groups.shape != (pieces,) or (pieces and not np.issubdtype(groups.dtype, np.integer)):
        raise UserError(
            f"{side} groups of shape {groups.shape} and type {groups.dtype} for {pieces} {side} pieces: "
            "give the word index of each piece as an integer."
        )
    if (groups < -1).any():
        raise UserError(f"{side} groups hold {groups.min()}: give word indices from 0, or -1 to drop a piece.")
    words = groups.max(initial=-1) + 1
    return (groups[:, None] == np.arange(words)).astype("float64")


def merge_subwords(
    attention: Tensor, source_groups: Sequence[int], target_groups: Sequence[int], source_reduction: str = "mean"
) -> np.ndarray:
    """Merge attention between pieces of words into attention between words.

    By default each word pair gets the average over all its pairs of pieces, as Bahar averages over all tokens of a word
    (section 7.3). The total weight of a word with n pieces is thereby divided by n, and rows no longer sum to one.
    `source_reduction="sum"` adds up the source pieces instead and averages only over target pieces: rows keep their
    sum, which is better for pictures.

        mean: β_wv = 1/(|w| |v|) Σ_{i in w} Σ_{j in v} α_ij
        sum:  β_wv = 1/|w|       Σ_{i in w} Σ_{j in v} α_ij

    with w a target word, v a source word and their pieces.

    Args:
        attention: `(target pieces, source pieces)`.
        source_groups: for each source piece, the index of its word, from 0; -1 drops the
            piece (end of sentence, padding).
        target_groups: the same for the target pieces.
        source_reduction: "mean" or "sum" over the pieces of a source word.

    Returns:
        float64 array `(target words, source words)`, with as many words as the largest
        index implies. A word without pieces has zeros.

    Raises:
        UserError: shapes do not agree, a group is below -1, a weight is not finite.

    Example:
        >>> merge_subwords([[0.6, 0.2, 0.2], [0.2, 0.4, 0.4]], [0, 0, 1], [0, 0]).round(2).tolist()
        [[0.35, 0.3]]
    """
    attention = _checked_matrix(attention)
    if source_reduction not in ("mean", "sum"):
        raise UserError(f"source_reduction is {source_reduction!r}: choose 'mean' or 'sum'.")
    source = _membership(source_groups, attention.shape[1], "source")
    target = _membership(target_groups, attention.shape[0], "target")
    # A word without pieces divides 0 by 1.
    target_sizes = np.maximum(target.sum(0), 1)
    source_sizes = np.maximum(source.sum(0), 1) if source_reduction == "mean" else 1
    return target.T @ attention @ source / target_sizes[:, None] / source_sizes


def _kept(length, ignored, side):
    kept = np.ones(length, bool)
    for position in ignored:
        if not 0 <= position < length:
            raise UserError(f"ignored {side} position {position} is outside the {length} {side} words: count from 0.")
        kept[position] = False
    return kept


def extract_alignment(
    weights: Tensor,
    method: str = "argmax",
    threshold: float | None = None,
    ignore_source: Iterable[int] = (),
    ignore_target: Iterable[int] = (),
) -> set[Link]:
    """Read an alignment off word-level attention weights.

    "argmax" links every target word to the source word with the largest weight
    (the first if several are equal); "threshold" creates a link for every weight
    of at least `threshold`, so a target word may have several links or none.

    Ignored positions get no link. With "argmax", a target word that attends most to an ignored source word is linked to
    the best of the others, so that weight on the end of sentence or the full stop does not hide the alignment. Remove
    the same positions from the gold links with `Alignment.without`.

    Args:
        weights: `(target, source)`, as from `merge_subwords`.
        method: "argmax" or "threshold".
        threshold: minimum weight of a link; only for "threshold".
        ignore_source: source positions j to leave out.
        ignore_target: target positions i to leave out.

    Returns:
        Set of links (j, i), source position first. A target word without positive weight has none.

    Raises:
        UserError: the weights are not a finite matrix, an ignored position is outside the
            sentence, the method is unknown or its threshold missing.

    Example:
        >>> sorted(extract_alignment([[0.1, 0.9], [0.8, 0.2]]))
        [(0, 1), (1, 0)]
    """
    weights = _checked_matrix(weights)
    if method not in ("argmax", "threshold"):
        raise UserError(f"method is {method!r}: choose 'argmax' or 'threshold'.")
    if (method == "threshold") != (threshold is not None):
        raise UserError(f"method={method!r} with threshold={threshold}: 'threshold' needs one, 'argmax' takes none.")
    targets, sources = weights.shape
    kept = np.outer(_kept(targets, ignore_target, "target"), _kept(sources, ignore_source, "source"))
    weights = np.where(kept, weights, 0.0)
    chosen = weights > 0
    if method == "threshold":
        chosen &= weights >= threshold
    elif sources:
        chosen &= np.arange(sources) == weights.argmax(axis=1)[:, None]
    return {(int(j), int(i)) for i, j in np.argwhere(chosen)}

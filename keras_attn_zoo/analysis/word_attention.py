"""From attention between subwords to attention between words."""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from keras_attn_zoo.data.words import normalise
from keras_attn_zoo.evaluation.attention_links import merge_subwords


def group_pieces(pieces: Iterable[str], words: Iterable[str]) -> list[int]:
    """Return the word in which each piece of a sentence begins.

    Args:
        pieces: subwords of `as_sentence(words)`, with `▁` for a space.
        words: the words.

    Returns:
        a list of word indices; -1 for special pieces, and for anything outside the words.

    Example:
        >>> group_pieces(["▁ge", "lesen", ".", "</s>"], ["gelesen", "."])
        [0, 0, 1, -1]
    """
    owner = [i for i, word in enumerate(words) for _ in normalise(word).replace(" ", "")]
    groups, position = [], 0
    for piece in pieces:
        text = piece.replace("▁", "")
        if piece in ("<pad>", "<s>", "</s>") or position >= len(owner):
            groups.append(-1)
            continue
        groups.append(owner[position])
        # A byte piece or an unknown one represents a single character.
        position += 1 if re.fullmatch(r"<unk>|<0x[0-9A-F]{2}>", piece) else len(text)
    return groups


def word_attention(
    attention: np.ndarray,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    source_words: Sequence[str],
    target_words: Sequence[str],
    source_reduction: str = "mean",
) -> np.ndarray:
    """Merge subword attention `(target pieces, source pieces)` into `(target words, source words)`."""
    source_groups = group_pieces(source_pieces, source_words)
    target_groups = group_pieces(target_pieces, target_words)
    merged = merge_subwords(attention, source_groups, target_groups, source_reduction=source_reduction)
    # Words at the end of a sentence that have no piece of their own keep a row and a column.
    full = np.zeros((len(target_words), len(source_words)), dtype=merged.dtype)
    full[: merged.shape[0], : merged.shape[1]] = merged
    return full

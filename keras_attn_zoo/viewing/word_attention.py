"""From attention between subwords to attention between words."""

from collections.abc import Iterable, Sequence

import numpy as np

from keras_attn_zoo.data import END, PAD, START
from keras_attn_zoo.data.subwords import SPECIAL_PIECES
from keras_attn_zoo.data.words import join_words, word_owners
from keras_attn_zoo.evaluation.alignments import Link
from keras_attn_zoo.evaluation.attention_links import extract_alignment, merge_subwords
from keras_attn_zoo.support.types import Tensor
from keras_attn_zoo.viewing.piece_positions import piece_places

_END = SPECIAL_PIECES[END]
# Those that stand for no text.
_MARKS = (SPECIAL_PIECES[PAD], SPECIAL_PIECES[START], _END)


def group_pieces(pieces: Iterable[str], words: Iterable[str], text: str | None = None) -> list[int]:
    """Return the word in which each piece of a sentence begins.

    Args:
        pieces: subwords of the sentence, with `▁` for a space.
        words: the words. One without a letter of its own, such as an empty one, has no piece.
        text: the sentence, if it is not `as_sentence(words)`; see `word_owners`.

    Returns:
        a list of word indices; -1 for special pieces, and for all if no word has a letter.

    Example:
        >>> group_pieces(["▁ge", "lesen", ".", "</s>"], ["gelesen", "."])
        [0, 0, 1, -1]
    """
    sentence, owners = join_words(words) if text is None else (text, word_owners(text, words))
    pieces = list(pieces)
    if not owners:
        return [-1] * len(pieces)
    # What stands behind the last word belongs to it.
    owners.append(owners[-1])
    places = iter(piece_places([piece for piece in pieces if piece not in _MARKS], sentence))
    return [-1 if piece in _MARKS else owners[next(places)] for piece in pieces]


def mean_of_heads(attention: Tensor, heads: Sequence[int] | None = None) -> np.ndarray:
    """Return the mean `(target, source)` of attention `(heads, target, source)` over some heads, by default all."""
    attention = np.asarray(attention)
    return (attention if heads is None else attention[list(heads)]).mean(axis=0)


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


def word_links(
    attention: np.ndarray,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    source_words: Sequence[str],
    target_words: Sequence[str],
    to_end: bool = False,
    ignore_source: Iterable[int] = (),
    ignore_target: Iterable[int] = (),
) -> tuple[set[Link], np.ndarray]:
    """Align words by subword attention `(target pieces, source pieces)`: the argmax over source words.

    Args:
        attention, source_pieces, target_pieces, source_words, target_words: see `word_attention`.
        to_end: whether a word that attends most to the end of the source sentence gets no link; otherwise, it gets
            its next best.
        ignore_source, ignore_target: see `extract_alignment`.

    Returns:
        a set of links `(source word, target word)`, and the attention `(target words, source words)`.

    Example:
        >>> attention = np.array([[0.4, 0.6], [0.1, 0.9]])
        >>> for to_end in (False, True):
        ...     word_links(attention, ["▁rot", "</s>"], ["▁red", "</s>"], ["rot"], ["red"], to_end)[0]
        {(0, 0)}
        set()
    """
    matrix = word_attention(attention, source_pieces, target_pieces, source_words, target_words)
    compared = matrix
    if to_end:
        groups = [0 if piece == _END else -1 for piece in source_pieces]
        of_end = merge_subwords(attention, groups, group_pieces(target_pieces, target_words))
        compared = np.zeros((len(matrix), len(source_words) + 1))
        compared[:, :-1] = matrix
        # Words without a piece of their own have no row.
        compared[: len(of_end), -1:] = of_end
    found = extract_alignment(compared, ignore_source=ignore_source, ignore_target=ignore_target)
    return {(j, i) for j, i in found if j < len(source_words)}, matrix

"""From the attention of subwords to the alignment of words."""

import re

import numpy as np

from keras_attn_zoo.data.corpus import normalise
from keras_attn_zoo.data.synthetic import split_words
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.evaluation.alignments import extract_alignment, merge_subwords

_SPACE_BEFORE_PUNCTUATION = re.compile(r" ([,.;:?!])")


def as_sentence(words):
    """Join tokenised words to a sentence as text writes it: punctuation stands without a space before it.

    Example:
        >>> as_sentence(["Das", "stimmt", "nicht", "!"])
        'Das stimmt nicht!'
    """
    return _SPACE_BEFORE_PUNCTUATION.sub(r"\1", normalise(" ".join(words)))


def group_pieces(pieces, words):
    """Give for each piece of a sentence the word in which it begins.

    Args:
        pieces: subwords of `as_sentence(words)`, with `▁` for a space.
        words: the words.

    Returns:
        a list of word indices; -1 for special pieces, and for what lies outside the words.

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
        # A byte piece or an unknown one stands for a single character.
        position += 1 if re.fullmatch(r"<unk>|<0x[0-9A-F]{2}>", piece) else len(text)
    return groups


def word_attention(attention, source_pieces, target_pieces, source_words, target_words, source_reduction="mean"):
    """Merge subword attention `(target pieces, source pieces)` to `(target words, source words)`."""
    source_groups = group_pieces(source_pieces, source_words)
    target_groups = group_pieces(target_pieces, target_words)
    merged = merge_subwords(attention, source_groups, target_groups, source_reduction=source_reduction)
    # Words of which no piece is left, at the end of a sentence, keep a row and a column of their own.
    full = np.zeros((len(target_words), len(source_words)), dtype=merged.dtype)
    full[: merged.shape[0], : merged.shape[1]] = merged
    return full


def align_words(translator, pairs, batch_size=32, progress=None):
    """Align given translations word by word: forced decoding, mean over heads, argmax over source words.

    Args:
        translator: a `Translator`.
        pairs: `(source words, target words)` a sentence.
        batch_size, progress: see `Translator.force`.

    Returns:
        a list of sets of links `(source word, target word)`, and the list of word attentions
        `(target words, source words)`.
    """
    decoded = translator.force(
        [as_sentence(source) for source, _ in pairs],
        [as_sentence(target) for _, target in pairs],
        batch_size=batch_size,
        progress=progress,
    )
    matrices = [
        word_attention(one.attention.mean(axis=0), one.source_tokens, one.tokens, source, target)
        for one, (source, target) in zip(decoded, pairs, strict=True)
    ]
    return [extract_alignment(matrix) for matrix in matrices], matrices


def sentence_picture(translator, sentence, target=None, subwords=False):
    """Attention of one sentence, ready to draw.

    Args:
        translator: a `Translator`.
        sentence: the source sentence.
        target: a given translation; None draws the model's own.
        subwords: whether rows and columns are subwords and not words.

    Returns:
        the matrix `(target, source)` and the words on its two axes.
    """
    if target is None:
        one = translator.translate([sentence], attention=True)[0][0]
        target = one.text
        if not target and not subwords:
            raise UserError(f"the model's translation of {sentence!r} is empty: give one, or draw subwords.")
    else:
        one = translator.force([sentence], [target])[0]
    attention = one.attention.mean(axis=0)
    if subwords:
        return attention, one.source_tokens, one.tokens
    source_words, target_words = split_words(sentence), split_words(target)
    matrix = word_attention(
        attention, one.source_tokens, one.tokens, source_words, target_words, source_reduction="sum"
    )
    return matrix, source_words, target_words

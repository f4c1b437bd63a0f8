"""The words of a sentence: normalisation and splitting."""

import re
import unicodedata
from collections.abc import Iterable

_SPACE_BEFORE_PUNCTUATION = re.compile(r" ([,.;:?!])")


def normalise(text: str) -> str:
    """Normalise a sentence: NFC, words separated by single spaces, no byte order mark in front.

    Every reader and every subword model applies this, so that each word has a single
    spelling, and words separated by whitespace are those of the subword models.

    Args:
        text: a sentence.

    Returns:
        The normalised sentence.

    Example:
        >>> normalise("  ein\\tHaus ")
        'ein Haus'
    """
    # What reads a file of sentences back takes away a byte order mark in front, as files that were joined may have.
    return unicodedata.normalize("NFC", " ".join(text.strip().lstrip("\ufeff").split()))


def word_count(text: str) -> int:
    """Count the whitespace-separated words of a sentence."""
    return len(text.split())


def split_words(text: str) -> list[str]:
    """Split a sentence into words; punctuation at the end of a word becomes a separate word.

    Args:
        text: raw text.

    Returns:
        List of words.

    Example:
        >>> split_words("Er ruft an, oder?")
        ['Er', 'ruft', 'an', ',', 'oder', '?']
    """
    return re.sub(r"([,.;:?!]+)(?=\s|$)", r" \1", text).split()


def as_sentence(words: Iterable[str]) -> str:
    """Join tokenised words into a sentence as in running text, without spaces before punctuation.

    Example:
        >>> as_sentence(["Das", "stimmt", "nicht", "!"])
        'Das stimmt nicht!'
    """
    return _SPACE_BEFORE_PUNCTUATION.sub(r"\1", normalise(" ".join(words)))

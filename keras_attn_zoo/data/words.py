"""The words of a sentence: normalisation and splitting."""

import re
import unicodedata
from collections.abc import Iterable

_PUNCTUATION = ",.;:?!"
_BYTE_ORDER_MARK = "\ufeff"
_KANA = "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f"
# With the marks that repeat one, compatibility forms, and planes 2 and 3, which have nothing else.
_CHINESE = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORDS_OF_ONE_CHARACTER = re.compile(f"[{_KANA}{_CHINESE}]")

# Whitespace is left out, such as tabs and line breaks: it separates words.
_CONTROL = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U0010ffff"
_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(chr(i + 0xFFFE) + chr(i + 0xFFFF) for i in range(0, 0x110000, 0x10000))
# Bytes that could not be decoded, replaced or kept as surrogates.
_UNDECODED = "\ufffd\ud800-\udfff"
_ILLEGAL = re.compile(f"[{_CONTROL}{_PRIVATE}{_NONCHARACTERS}{_UNDECODED}]")


def normalise(text: str) -> str:
    """Normalise a sentence: NFC, words separated by single spaces, no byte order mark in front.

    Every reader and every subword model applies this, so that each word has a single
    spelling, and words separated by whitespace are those of the subword models. A normalised
    sentence stays as it is, also when it is written to a file and read back.

    Args:
        text: a sentence, not a word: inside a sentence, a byte order mark is a character like any other.

    Returns:
        The normalised sentence.

    Example:
        >>> normalise("  ein\\tHaus ")
        'ein Haus'
    """
    # A file that was joined from several has one in front of a line; in front of a file, readers take it away.
    return unicodedata.normalize("NFC", " ".join(text.split()).lstrip(_BYTE_ORDER_MARK + " "))


def word_count(text: str) -> int:
    """Count the words of a sentence: those separated by whitespace, of which Chinese characters and kana are one each.

    Chinese and Japanese have no spaces, so that a sentence would be one word.

    Example:
        >>> word_count("ein Haus am See"), word_count("湖边的房子"), word_count("第3 章 (neu)")
        (4, 5, 4)
    """
    return len(_WORDS_OF_ONE_CHARACTER.sub(r" \g<0> ", text).split())


def is_word_of_one_character(character: str) -> bool:
    """Return whether a character is a word in itself: Chinese characters and kana.

    Example:
        >>> is_word_of_one_character("湖"), is_word_of_one_character("L")
        (True, False)
    """
    return _WORDS_OF_ONE_CHARACTER.fullmatch(character) is not None


def has_illegal_characters(text: str) -> bool:
    """Return whether a sentence has characters that damaged text has and no other.

    These are control characters except whitespace, private-use characters, noncharacters, and those that
    stand for bytes which could not be decoded: U+FFFD and surrogates.

    Example:
        >>> [has_illegal_characters(text) for text in ("caf\\u00e9", "caf\\ufffd", "caf\\x82")]
        [False, True, True]
    """
    return _ILLEGAL.search(text) is not None


def split_words(text: str) -> list[str]:
    """Split a sentence into words; punctuation at the end of a word becomes a separate word.

    Args:
        text: a sentence, which is normalised first.

    Returns:
        List of words.

    Example:
        >>> split_words("Er ruft an, oder?")
        ['Er', 'ruft', 'an', ',', 'oder', '?']
    """
    return re.sub(rf"([{_PUNCTUATION}]+)(?= |$)", r" \1", normalise(text)).split()


def as_sentence(words: Iterable[str]) -> str:
    """Join tokenised words into a normalised sentence as in running text, without spaces before punctuation.

    Example:
        >>> as_sentence(["Das", "stimmt", "nicht", "!"])
        'Das stimmt nicht!'
    """
    return join_words(words)[0]


def join_words(words: Iterable[str]) -> tuple[str, list[int]]:
    """Join words as `as_sentence` does, and say which word each character of the sentence belongs to.

    Args:
        words: the words. One that has whitespace inside becomes several of the sentence; one that is empty, or nothing
            but byte order marks in front, has no character.

    Returns:
        The sentence, and the index of a word for each of its characters; a space belongs to the word behind it.

    Example:
        >>> join_words(["so", "ein", "!"])
        ('so ein!', [0, 0, 1, 1, 1, 1, 2])
    """
    parts: list[str] = []
    owners: list[int] = []
    for number, word in enumerate(words):
        # Nothing composes across a space: word by word, the result is that of the sentence.
        for part in unicodedata.normalize("NFC", word).split():
            own = part if parts else part.lstrip(_BYTE_ORDER_MARK)
            if parts and own[0] not in _PUNCTUATION:
                own = f" {own}"
            if own:
                parts.append(own)
                owners += [number] * len(own)
    return "".join(parts), owners


def word_owners(text: str, words: Iterable[str]) -> list[int]:
    """Return the index of a word for each character of the normalised sentence that the words are parts of.

    Args:
        text: the sentence.
        words: its words, with or without spaces between them there, as `split_words` returns them; none is empty.

    Example:
        >>> word_owners("so ein!", ["so", "ein", "!"])
        [0, 0, 1, 1, 1, 1, 2]
    """
    letters = (number for number, word in enumerate(words) for _ in word)
    owners: list[int] = []
    for character in text:
        # A space belongs to the word behind it.
        owners.append(owners[-1] + 1 if character == " " else next(letters))
    return owners

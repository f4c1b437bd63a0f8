"""Words in a sequence of pieces, however they are divided: an automaton for those that are forbidden."""

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from keras_attn_zoo.data.subwords import SPECIAL_PIECES
from keras_attn_zoo.data.words import is_word_of_one_character

_SPACE = "▁"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
# In place of a byte that is part of a character, and of an unknown word: inside a word, and in none that is sought.
_OTHER = "\ufffd"
# What completes a word, in a table.
FORBIDDEN = -1


def begins_word(text: str) -> bool:
    """Return whether the first character of a text does not go on with a word: no letter, no digit, or one in itself.

    Example:
        >>> [begins_word(text) for text in ("▁cat", "s", ".", "猫")]
        [True, False, True, True]
    """
    first = text[:1]
    return is_word_of_one_character(first) or not (unicodedata.category(first)[0] in "LNM" or first == _OTHER)


def word_starts(pieces: Sequence[str]) -> list[int]:
    """Return the ids of the pieces behind which a word before them is whole.

    Example:
        >>> word_starts(["<pad>", "<unk>", "<s>", "</s>", "▁cat", "s", "."])
        [0, 1, 2, 3, 4, 6]
    """
    return [i for i, piece in enumerate(pieces) if begins_word(_text(piece))]


def word_automaton(pieces: Sequence[str], words: Sequence[str]) -> tuple[np.ndarray, int]:
    """Return the automaton that knows words in sequences of pieces, for `decoding.ForbiddenWords`.

    A state is the words that may go on, and how far they are; a word is complete at the piece that begins what follows
    it. Chinese characters and kana are words of their own, so that a word of these is found anywhere.

    Args:
        pieces: all pieces, in the order of their ids.
        words: words without whitespace, of letters or digits.

    Returns:
        the table of next states, int32 `(states, pieces)`, `FORBIDDEN` where a word is complete, and the number of
        pieces after which a state is known.

    Example:
        >>> table, reach = word_automaton(["</s>", "▁a", "b", "c"], ["ab"])
        >>> state = table[table[0, 1], 2]  # after "▁a", "b"
        >>> table[state].tolist()  # the end and "▁a" complete it, "c" does not
        [-1, -1, 0, 0]
    """
    texts = [_text(piece) for piece in pieces]
    fresh = np.array([begins_word(text) for text in texts])
    by_first: dict[str, list[int]] = {}
    for i, text in enumerate(texts):
        by_first.setdefault(text[0], []).append(i)
    # Words that go on, each by the rest of it, and whether another may begin.
    none: tuple[frozenset[str], bool] = (frozenset(), False)
    states = {none: 0}
    rows: list[np.ndarray] = []
    pending = [none]

    def number(state):
        if state is None:
            return FORBIDDEN
        if state not in states:
            states[state] = len(states)
            pending.append(state)
        return states[state]

    def row_of(state, chosen):
        return [number(_read(texts[i], *state, words)) for i in chosen]

    plain: dict[bool, tuple[frozenset[str], bool]] = {
        may_begin: (frozenset(), may_begin) for may_begin in (False, True)
    }
    of_plain: dict[bool, np.ndarray] = {}
    while len(rows) < len(states):
        rests, may_begin = state = pending[len(rows)]
        if may_begin not in of_plain:
            of_plain[may_begin] = np.array(row_of(plain[may_begin], range(len(texts))), "int32")
        row = of_plain[may_begin].copy()
        # What does not go on with a word leaves it behind.
        for first in {rest[:1] for rest in rests}:
            chosen = by_first.get(first, [])
            row[chosen] = row_of(state, chosen)
        if "" in rests:
            row[fresh] = FORBIDDEN
        rows.append(row)
    return np.stack(rows), max(map(len, words)) + 2


def _read(text, rests, may_begin, words):
    """The state after a text, or None if it completes a word."""
    for character in text:
        alone = is_word_of_one_character(character)
        starts = begins_word(character)
        if starts and "" in rests:
            return None
        begun = words if may_begin or alone else ()
        rests = frozenset(rest[1:] for rest in (*rests, *begun) if rest[:1] == character)
        if alone and "" in rests:
            return None
        may_begin = starts
    return rests, may_begin


def _text(piece):
    """A piece as characters: bytes and special pieces too."""
    if piece in SPECIAL_PIECES:
        return _SPACE
    if byte := _BYTE.fullmatch(piece):
        code = int(byte[1], 16)
        return chr(code) if code < 128 else _OTHER
    return piece or _OTHER

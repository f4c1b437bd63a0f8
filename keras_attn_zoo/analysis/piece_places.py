"""Where the pieces of a sentence begin in its text, whatever a tokenizer made of unknown and unusual characters."""

import codecs
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from keras_attn_zoo.data import UNKNOWN
from keras_attn_zoo.data.subwords import SPECIAL_PIECES

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE = "▁"
# In place of a character: any number of them, as a tokenizer makes one piece of neighbouring unknown ones.
_ANY = -1


def piece_places(pieces: Iterable[str], text: str) -> list[int]:
    """Return where each piece of a sentence begins.

    Pieces are laid on the text such that the fewest characters are inserted, deleted or replaced (the edit distance of
    Levenshtein), where an unknown piece stands for any characters at no cost, and what no piece is left for at the end
    costs nothing either. Characters that NFKC and case folding make equal are equal.

    Args:
        pieces: subwords of the text, with `▁` for a space; none that stand for no text.
        text: the sentence.

    Returns:
        a list of character indices: `len(text)` for a piece behind the end; that of the space, or 0, for a piece that
        begins with `▁`.

    Example:
        >>> piece_places(["▁", "<unk>", "▁fi", "n"], "日本 ﬁn")
        [0, 0, 2, 4]
    """
    starts, read = _read(pieces)
    # Every word begins with a space, the first one too.
    folded = [_fold(character) for character in f" {text}"]
    places = _lay(read, [ord(character) for characters in folded for character in characters])
    owners = [max(0, i - 1) for i, characters in enumerate(folded) for _ in characters] + [len(text)]
    return [owners[places[start]] for start in starts]


def _fold(text: str) -> str:
    # Of an accent that stands alone, NFKC makes a space and one that stands on it.
    return unicodedata.normalize("NFKC", text.replace(" ", _SPACE)).casefold().replace(" ", "")


def _read(pieces: Iterable[str]) -> tuple[list[int], list[int]]:
    """Where each piece begins in the characters of all, and these characters."""
    starts: list[int] = []
    read: list[int] = []
    # It returns a character with the last of its bytes; what ends too early becomes one that stands for it.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    unknown = SPECIAL_PIECES[UNKNOWN]
    pieces = list(pieces)
    for before, piece, behind in zip([None, *pieces], pieces, [*pieces[1:], None], strict=False):
        byte = _BYTE.fullmatch(piece)
        if byte is None:
            read += map(ord, decoder.decode(b"", final=True))
        starts.append(len(read))
        if piece == unknown:
            # Neighbours within a word would have been merged: these are words.
            read += [ord(_SPACE), _ANY] if unknown in (before, behind) else [_ANY]
        else:
            read += map(ord, _fold(piece if byte is None else decoder.decode(bytes.fromhex(byte[1]))))
    return starts, [*read, *map(ord, decoder.decode(b"", final=True))]


def _lay(read: list[int], text: list[int]) -> list[int]:
    """The place in the text of each character that was read, and of the end."""
    # Most are equal from start to end.
    start = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(read, text, strict=False)))
    behind = _lay_by_edits(read[start:], np.array(text[start:], "int64"))
    return [*range(start), *(start + place for place in behind), len(text)]


def _lay_by_edits(read: Sequence[int], text: np.ndarray) -> list[int]:
    """The place in the text of each character that was read, by the fewest edits."""
    # costs[i, j]: edits between what was read up to i and the text up to j.
    costs = np.empty((len(read) + 1, len(text) + 1), "int32")
    costs[0] = columns = np.arange(len(text) + 1)
    for i, character in enumerate(read):
        if character == _ANY:
            costs[i + 1] = np.minimum.accumulate(costs[i])
            continue
        row = costs[i] + 1
        row[1:] = np.minimum(row[1:], costs[i, :-1] + (text != character))
        costs[i + 1] = np.minimum.accumulate(row - columns) + columns
    # A model may have read only the beginning of the text.
    places, j = [], int(np.argmin(costs[-1]))
    for i in reversed(range(len(read))):
        here = costs[i + 1]
        if read[i] == _ANY:
            # What stands before it ends as early as it can.
            j = int(np.argmax(costs[i, : j + 1] == here[j]))
        else:
            while j and here[j] == here[j - 1] + 1:
                j -= 1
            if j and here[j] == costs[i, j - 1] + (text[j - 1] != read[i]):
                j -= 1
        places.append(j)
    return places[::-1]

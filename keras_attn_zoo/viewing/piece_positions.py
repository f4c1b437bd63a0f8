"""Where the pieces of a sentence begin in its text, whatever a tokenizer made of unknown and unusual characters."""

import codecs
import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from keras_attn_zoo.data import UNKNOWN
from keras_attn_zoo.data.subwords import SPECIAL_PIECES

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE = "▁"
# In place of a character: any number of them, as a tokenizer makes one piece of neighbouring unknown ones; a space may
# stand in front of them.
_ANY = -1


def piece_places(pieces: Iterable[str], text: str) -> list[int]:
    """Return where each piece of a sentence begins.

    Pieces are laid on the text such that the fewest letters, and of these the fewest spaces, are inserted, deleted or
    replaced (the edit distance of Levenshtein). An unknown piece stands for any letters of a word at no cost, and what
    no piece is left for at the end costs little. Letters are equal if their compatibility decompositions
    (NFKD) without case are. Pieces that spell the text, wherever they have spaces, lie on their own letters.

    Args:
        pieces: subwords of the text, with `▁` for a space; none that stand for no text.
        text: the sentence.

    Returns:
        a list of character indices: that of a piece's first letter, or of its space if it has none; `len(text)` for a
        piece behind the end.

    Example:
        >>> piece_places(["▁", "<unk>", "▁fi", "n"], "日本 ﬁn")
        [0, 0, 3, 4]
    """
    starts, read = _read(pieces)
    # Every word begins with a space, the first one too.
    text = f" {text}"
    folded = [_fold(character) for character in text]
    owners = [max(0, i - 1) for i, letters in enumerate(folded) for _ in letters]
    # A mark that is written out looks like a space, but is a letter of its word.
    spaces = [character == " " for character, letters in zip(text, folded, strict=True) for _ in letters]
    places = _lay(read, [ord(letter) for letters in folded for letter in letters], spaces)
    return [[*owners, len(text) - 1][places[start]] for start in starts]


@functools.cache
def _fold(character: str) -> str:
    """What a character is compared by. One by one, so that it is the same wherever pieces begin and end."""
    if character == " ":
        return _SPACE
    # Of an accent that stands alone, NFKD makes a space and one that stands on it.
    decomposed = unicodedata.normalize("NFKD", character).casefold()
    return unicodedata.normalize("NFKD", decomposed).replace(" ", "")


def _read(pieces: Iterable[str]) -> tuple[list[int], list[int]]:
    """Where the first letter of each piece is in the characters of all, and these characters."""
    starts: list[int] = []
    read: list[int] = []
    # It returns a character with the last of its bytes; what ends too early becomes one that stands for it.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    unknown = SPECIAL_PIECES[UNKNOWN]
    for piece in pieces:
        byte = _BYTE.fullmatch(piece)
        if byte is None:
            read += map(ord, decoder.decode(b"", final=True))
        if piece == unknown:
            found = [_ANY]
        else:
            text = piece if byte is None else decoder.decode(bytes.fromhex(byte[1]))
            found = [ord(letter) for character in text for letter in _fold(character)]
        starts.append(len(read) + next((i for i, one in enumerate(found) if one != ord(_SPACE)), 0))
        read += found
    return starts, [*read, *map(ord, decoder.decode(b"", final=True))]


def _lay(read: list[int], text: list[int], spaces: list[bool]) -> list[int]:
    """The place in the text of each character that was read, and of the end."""
    # Most are equal from start to end.
    start = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(read, text, strict=False)))
    # Where they part, the space in front may as well be a later one.
    while 0 < start < len(read) and read[start - 1] == ord(_SPACE):
        start -= 1
    behind = _lay_by_edits(read[start:], np.array(text[start:], "int64"), np.array(spaces[start:], bool))
    return [*range(start), *(start + place for place in behind), len(text)]


def _lay_by_edits(read: Sequence[int], text: np.ndarray, spaces: np.ndarray) -> list[int]:
    """The place in the text of each character that was read, by the fewest edits."""
    # All spaces together cost less than a letter. To insert one costs a little more than to delete one, which is what
    # normalisation does, and to replace one less than both.
    unit = 1 + int(spaces.sum()) + read.count(ord(_SPACE))
    deleted, inserted, replaced = np.where(spaces, 1, 4 * unit), 5 * unit, 7 * unit
    # costs[i, j]: edits between what was read up to i and the text up to j.
    small = replaced * (len(read) + len(text) + 1) < np.iinfo("int32").max
    costs = np.empty((len(read) + 1, len(text) + 1), "int32" if small else "int64")
    # What it costs to delete the text up to j; where a piece stands for it, spaces alone cost.
    costs[0] = columns = np.concatenate([[0], np.cumsum(deleted)])
    covered = np.concatenate([[0], np.cumsum(4 * unit * spaces)])
    for i, character in enumerate(read):
        if character == _ANY:
            costs[i + 1] = np.minimum.accumulate(_begun(costs[i], spaces) - covered) + covered
            continue
        row = costs[i] + (1 if character == ord(_SPACE) else inserted)
        row[1:] = np.minimum(row[1:], costs[i, :-1] + _difference(character, text, replaced))
        costs[i + 1] = np.minimum.accumulate(row - columns) + columns
    # A model may have read only the beginning of the text: to leave the rest costs less than to delete it, and never
    # more than three letters.
    left = np.cumsum(np.where(spaces, 0, 3 * unit)[::-1])[::-1]
    places, j = [], int(np.argmin(costs[-1] + np.minimum([*left, 0], 9 * unit)))
    for i in reversed(range(len(read))):
        here = costs[i + 1]
        if read[i] == _ANY:
            # What stands before it ends as early as it can.
            begun = _begun(costs[i], spaces)
            j = int(np.argmax(begun[: j + 1] + covered[j] - covered[: j + 1] == here[j]))
            j -= int(begun[j] < costs[i, j])
        else:
            # What is equal lies as late as it can, so that a space stands before its word.
            while j:
                laid = here[j] == costs[i, j - 1] + _difference(read[i], text[j - 1], replaced)
                if not laid and here[j] != here[j - 1] + deleted[j - 1]:
                    break
                j -= 1
                if laid:
                    break
        places.append(j)
    return places[::-1]


def _begun(costs, spaces):
    """What it costs to begin a piece that stands for anything: a space in front of it is its own."""
    begun = costs.copy()
    begun[1:] = np.where(spaces, np.minimum(costs[1:], costs[:-1]), costs[1:])
    return begun


def _difference(character, text, replaced):
    """What it costs to put a character in place of those of a text; that of a space is none."""
    one_space = (character == ord(_SPACE)) != (text == ord(_SPACE))
    return np.where(text == character, 0, np.where(one_space, 2 * replaced, replaced))

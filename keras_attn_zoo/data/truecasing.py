"""Truecasing: the word that begins a sentence gets the case that it has elsewhere."""

import collections
import re
from collections.abc import Iterable
from pathlib import Path

from keras_attn_zoo.data.words import normalise
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, read_bytes, shown, write_text

# What is between the punctuation around a word.
_WORD = re.compile(r"[^\W_](?:.*[^\W_])?")
# Words after these begin a sentence; quotes and brackets may close it.
_SENTENCE_END = re.compile(r"[.:?!]['\"’”“»«)\]]*$")
# A line of a model, as Moses writes it: casings of a word, the most frequent first.
_LINE = re.compile(r"\S+ \(\d+/\d+\)(?: \S+ \(\d+\))*")
# Five million words; those of a large corpus are one or two.
_LARGEST_MODEL = 2**27


class Truecaser:
    """The most frequent case of each word, learned by `train_truecaser`.

    Use it so that a word has one spelling wherever it stands, without losing the case that matters. As in Moses, the
    first word of a sentence gets its most frequent case, and so does any other word in a case that was never seen.
    Unlike Moses', it takes plain text and changes nothing but case: punctuation stays attached to words, and a word
    after a full stop within a line stays as it is, since a full stop may as well end an abbreviation.

    Args:
        model: path of a model file, or its bytes: lines of `WORD (COUNT/ALL) OTHERCASE (COUNT)`, which Moses reads too.

    Attributes:
        model_bytes: the contents of the model file.

    Raises:
        UserError: there is no such file, or it is damaged.

    Example:
        >>> path = train_truecaser(["Gut gesagt", "Das ist gut", "Ist das Haus gut"], "/tmp/german.truecase")
        >>> truecaser = Truecaser(path)
        >>> truecaser.truecase("Das GUT ist ein Haus.")
        'das gut ist ein Haus.'
        >>> truecaser.detruecase("das Haus ist gut.")
        'Das Haus ist gut.'
    """

    def __init__(self, model: PathLike | bytes) -> None:
        name = "the truecaser" if isinstance(model, bytes) else shown(model)
        self.model_bytes = model if isinstance(model, bytes) else read_bytes(model, _LARGEST_MODEL)
        self._best: dict[str, str] = {}
        self._known: set[str] = set()
        damaged = UserError(f"{name} is not a truecaser, or is damaged: restore it or train it again.")
        try:
            lines = self.model_bytes.decode().splitlines()
        except UnicodeDecodeError:
            raise damaged from None
        for line in lines:
            casings = line.split(" ")[::2]
            if not _LINE.fullmatch(line) or len({casing.lower() for casing in casings}) > 1:
                raise damaged
            self._best[casings[0].lower()] = casings[0]
            self._known.update(casings)

    def truecase(self, sentence: str) -> str:
        """Return a sentence with words in their most frequent case, where it says nothing or is unknown."""
        tokens = normalise(sentence).split(" ")
        for number, start, end, place in _words(tokens):
            word = tokens[number][start:end]
            if place == "line" or (place == "inside" and word not in self._known):
                best = self._best.get(word.lower(), word)
                tokens[number] = tokens[number][:start] + best + tokens[number][end:]
        # The other case of a letter may compose with the mark behind it.
        return normalise(" ".join(tokens))

    @staticmethod
    def detruecase(sentence: str) -> str:
        """Return a sentence whose first word begins with a capital."""
        word = _WORD.search(sentence)
        if word is None:
            return sentence
        start = word.start()
        capital = sentence[start].upper()
        # The capital of a ligature would be two letters.
        return sentence if len(capital) > 1 else sentence[:start] + capital + sentence[start + 1 :]


def train_truecaser(sentences: Iterable[str], model_path: PathLike) -> Path:
    """Learn the case of words from sentences, and write it to a file.

    Words that begin a sentence are not counted, nor those after a full stop, a colon, a question or exclamation mark.
    Of equally frequent cases, small letters come before capitals.

    Args:
        sentences: iterable of plain sentences, read once.
        model_path: file to write the model to.

    Returns:
        The path of the model.

    Raises:
        UserError: no word has a capital: there would be nothing to learn, but translations would begin with one.

    Example:
        >>> train_truecaser(["Ein Haus"], "/tmp/house.truecase").read_text()
        'Haus (1/1)\\n'
    """
    counts: collections.Counter[str] = collections.Counter()
    capitals = False
    for sentence in sentences:
        tokens = normalise(sentence).split(" ")
        capitals = capitals or any(map(str.isupper, sentence))
        counts.update(tokens[number][start:end] for number, start, end, place in _words(tokens) if place == "inside")
    casings: dict[str, list[tuple[int, str]]] = {}
    for word, count in counts.items():
        lower = word.lower()
        # Some letters become two when their case changes, which would move whatever points at characters.
        if lower != word.upper() and len(lower) == len(word):
            casings.setdefault(lower, []).append((count, word))
    if not casings or not capitals:
        raise UserError("no word of the text has a capital letter: leave truecasing out.")
    lines = []
    for lower in sorted(casings):
        (count, best), *others = sorted(casings[lower], reverse=True)
        total = count + sum(number for number, _ in others)
        lines.append(" ".join([f"{best} ({count}/{total})", *(f"{word} ({number})" for number, word in others)]))
    write_text(model_path, "".join(f"{line}\n" for line in lines))
    return Path(model_path)


def _words(tokens):
    """Yield number, start, end and place of the word in each token that has one.

    The place is "line" for the first word, "sentence" for the first after another sentence, or "inside".
    """
    place = "line"
    for number, token in enumerate(tokens):
        word = _WORD.search(token)
        if word is not None:
            yield number, word.start(), word.end(), place
        if word is not None or place != "line":
            ended = _SENTENCE_END.search(token) is not None
            # A dash or an opening quote after a sentence is not the word that begins the next one.
            place = "sentence" if ended or (word is None and place == "sentence") else "inside"

"""What translations must and must not have: beginnings, forbidden words, required words."""

import dataclasses
import functools
import reprlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from keras_attn_zoo.data import UNKNOWN
from keras_attn_zoo.data.checked_text import check_texts
from keras_attn_zoo.data.encoded_text import encode_sentences
from keras_attn_zoo.data.word_automaton import FORBIDDEN, begins_word, word_automaton, word_starts
from keras_attn_zoo.data.words import is_word_of_one_character, normalise
from keras_attn_zoo.decoding import BeamSearch, ForbiddenWords, GridBeamSearch
from keras_attn_zoo.decoding.grid_beam_search import phrase_rows
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.translators.search import takes_processors


@dataclasses.dataclass(frozen=True)
class Constraints:
    """What translations must and must not have, for `Translator.translate`.

    Args:
        prefixes: the beginning of each translation, which goes on from it; empty for none.
        forbidden: words that no translation has as a whole word, however it is divided into subwords. "cat" does not
            forbid "cats".
        required: words or phrases of all translations, or a list of these for each. One is met where the subwords that
            the tokenizer divides it into follow each other, as whole words. A search for them takes `1 + n` times as
            many hypotheses, with n subwords; see `GridBeamSearch`.

    Example:
        >>> constraints = Constraints(prefixes=["He"], forbidden=["calls"], required=["old friend"])
        >>> translator.translate(["Er ruft den alten Freund an."], constraints=constraints)  # doctest: +SKIP
    """

    prefixes: Sequence[str] | None = None
    forbidden: Sequence[str] = ()
    required: Sequence[str] | Sequence[Sequence[str]] = ()

    def encode(self, tokenizer: Any, sentences: int, limit: int) -> "EncodedConstraints":
        """Return the same as ids, for so many sentences, whose translations have at most `limit` tokens.

        Raises:
            UserError: another number of sentences; anything other than strings; a forbidden word that is none; a
                required one that is empty, unknown or forbidden; an unknown prefix; more than there is room for.
        """
        subwords = tokenizer.subwords
        prefixes = [""] * sentences if self.prefixes is None else check_texts(self.prefixes, "prefixes")
        _check_count("prefixes", prefixes, sentences)
        required = self._of_sentences(sentences)
        automaton = self._automaton(subwords)
        ids = [one[:-1] for one in encode_sentences(subwords, prefixes)] if any(prefixes) else [[]] * sentences
        known: dict[str, list[int]] = {}
        for phrase in dict.fromkeys(phrase for phrases in required for phrase in phrases):
            known[phrase] = _phrase(subwords, phrase)
            if automaton is not None and _has_forbidden(automaton, [*known[phrase], subwords.end]):
                raise UserError(f"{reprlib.repr(phrase)} is required and has a forbidden word: leave one of them out.")
        phrases = [[known[phrase] for phrase in dict.fromkeys(of_sentence)] for of_sentence in required]
        for number, (prefix, of_sentence) in enumerate(zip(ids, phrases, strict=True), start=1):
            if UNKNOWN in prefix:
                raise UserError(f"prefix {number} has what the vocabulary does not know: give another one.")
            if automaton is not None and _has_forbidden(automaton, prefix):
                raise UserError(f"prefix {number} has a forbidden word: leave one of them out.")
            needed = len(prefix) + sum(map(len, of_sentence))
            if needed > limit - 2:
                what = "prefix and required words have" if of_sentence else "the prefix has"
                raise UserError(
                    f"of sentence {number}, {what} {counted(needed, 'token')}, but a translation has at most "
                    f"{limit - 2} besides start and end: give less."
                )
        return EncodedConstraints(tuple(self.forbidden), ids, phrases, automaton, subwords)

    def _of_sentences(self, sentences):
        """The required phrases of each sentence."""
        if isinstance(self.required, str) or not isinstance(self.required, (list, tuple)):
            raise UserError(
                f"required must be a list of words, or of lists of these; received {reprlib.repr(self.required)}."
            )
        if not any(isinstance(one, (list, tuple)) for one in self.required):
            return [check_texts(self.required, "required")] * sentences
        _check_count("required", self.required, sentences)
        return [check_texts(one, "required") for one in self.required]

    def _automaton(self, subwords):
        words = [normalise(word) for word in check_texts(self.forbidden, "forbidden")]
        for word in words:
            if not word or any(begins_word(one) and not is_word_of_one_character(one) for one in word):
                raise UserError(
                    f"a forbidden word has letters and digits alone; received {reprlib.repr(word)}: give single words."
                )
        return _automaton(subwords, tuple(words)) if words else None


@dataclasses.dataclass(frozen=True)
class EncodedConstraints:
    """Constraints as ids.

    Attributes:
        forbidden: the words.
        prefixes: ids of the beginning of each translation, without start.
        phrases: ids of the required phrases of each.
        automaton: what rules out forbidden words; None if there are none.
        subwords: the model of the tokenizer.
    """

    forbidden: tuple[str, ...]
    prefixes: list[list[int]]
    phrases: list[list[list[int]]]
    automaton: ForbiddenWords | None
    subwords: Any

    @property
    def phrase_tokens(self) -> int:
        """How many tokens the required phrases of a sentence have together, at most."""
        return max((sum(map(len, one)) for one in self.phrases), default=0)

    @property
    def processors(self) -> list[ForbiddenWords]:
        """What rules out tokens in the search."""
        return [] if self.automaton is None else [self.automaton]

    @property
    def key(self) -> Hashable:
        """What tells a search with these constraints from others."""
        return self.forbidden, self.phrase_tokens

    def data(self, members: Sequence[int]) -> dict[str, np.ndarray]:
        """Return the inputs of a search for the phrases of some sentences; none if no sentence has any."""
        return {"phrases": self._phrase_rows[list(members)]} if self.phrase_tokens else {}

    @functools.cached_property
    def _phrase_rows(self):
        """Of all sentences, so that every batch has the same shape."""
        return phrase_rows(self.phrases)

    def sampler(self, sampler: BeamSearch) -> BeamSearch:
        """Return the search that finds required phrases; the given one if there are none.

        Raises:
            UserError: required phrases, and another search than a `BeamSearch`; forbidden words, and one of another
                package.
        """
        if self.automaton is not None and not takes_processors(sampler):
            name = type(sampler).__name__
            raise UserError(f"a {name} takes no forbidden words: leave them out, or search by a BeamSearch.")
        if not self.phrase_tokens:
            return sampler
        if type(sampler) is not BeamSearch:
            raise UserError(
                f"required words need a BeamSearch, not a {type(sampler).__name__}: leave them out, or change it.",
                "required words need plain beam search: leave them out, or set --strategy beam.",
            )
        config = sampler.get_config()
        return GridBeamSearch(config.pop("num_beams"), self.phrase_tokens, _word_starts(self.subwords), **config)


@functools.lru_cache(maxsize=8)
def _automaton(subwords, words):
    return ForbiddenWords(*word_automaton(_pieces(subwords), words), subwords.end)


@functools.lru_cache(maxsize=8)
def _word_starts(subwords):
    return word_starts(_pieces(subwords))


def _pieces(subwords):
    return subwords.pieces(range(subwords.vocabulary_size))


def _check_count(name, given, sentences):
    if len(given) != sentences:
        raise UserError(f"received {counted(sentences, 'sentence')} but {len(given)} {name}: give one for each.")


def _phrase(subwords, phrase):
    """The ids of a required phrase."""
    [ids] = subwords.encode([phrase])
    if not ids:
        raise UserError(f"a required word is empty: leave it out; received {reprlib.repr(phrase)}.")
    if UNKNOWN in ids:
        raise UserError(f"a required word has what the vocabulary does not know: leave out {reprlib.repr(phrase)}.")
    return ids


def _has_forbidden(automaton, ids):
    """Whether the automaton forbids a sequence of ids."""
    state = 0
    for i in ids:
        state = automaton.table[state, i]
        if state == FORBIDDEN:
            return True
    return False

"""A test text: sentence pairs, further references and gold alignments if available, and their ids."""

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from keras_attn_zoo.data.encoded_text import EncodedText, encode_text
from keras_attn_zoo.data.splits import Pair
from keras_attn_zoo.data.subwords import Subwords
from keras_attn_zoo.data.text_files import NormalisedPairs
from keras_attn_zoo.data.truncation import UNCUT, Truncation
from keras_attn_zoo.data.words import normalise
from keras_attn_zoo.evaluation.alignments import Alignment
from keras_attn_zoo.support.errors import UserError

# The words of each test pair, and their links.
Gold: TypeAlias = list[tuple[Sequence[str], Sequence[str], Alignment]]

_BREAK = re.compile(r"[\t\n]")


class ParallelText:
    """Sentence pairs to translate and score, with gold alignments if there are any.

    The text is encoded once for each pair of subword models, whatever is then done with it.

    What is translated is normalised, what it is scored against is left as it stands, but for white space at the end
    and tabs and line breaks, which are spaces.

    Args:
        pairs: the sentence pairs.
        gold: for each pair `(source words, target words, Alignment)`, or None.
        more_references: further lists of translations to score against, each with one for every pair; an empty one
            is a pair that has no more.
        origin: `{"files": names, "reverse": whether the second side is the source}`, if it is known and another than
            that of the corpus.

    Attributes:
        pairs, sources, targets: the sentences, normalised.
        references: all lists of translations, as they are scored; the first is that of the pairs.

    Raises:
        UserError: the words of a gold alignment are not those of its pair; a list of references of another length.
    """

    def __init__(
        self,
        pairs: Iterable[Pair],
        gold: Gold | None = None,
        more_references: Iterable[Sequence[str]] = (),
        origin: Mapping[str, Any] | None = None,
    ) -> None:
        pairs = list(pairs)
        self.pairs, self.gold, self.origin = list(NormalisedPairs(pairs)), gold, origin
        self.sources = [source for source, _ in self.pairs]
        self.targets = [target for _, target in self.pairs]
        as_written = [target for _, target in pairs], *more_references
        self.references = [list(map(_on_a_line, lines)) for lines in as_written]
        for lines in self.references:
            if len(lines) != len(self.pairs):
                raise UserError(f"{len(lines)} references for {len(self.pairs)} sentences: give one for each sentence.")
        self._encoded: dict[tuple[str, str, Truncation], EncodedText] = {}
        if gold is not None:
            _check_words(self.pairs, gold)

    @functools.cached_property
    def checksum(self) -> str:
        """Tells this text from others: its sentences, references and links."""
        links = [[sorted(one.sure), sorted(one.possible)] for *_, one in self.gold or ()]
        rows = list(zip(self.sources, *self.references, strict=True))
        return hashlib.sha256(json.dumps([rows, links]).encode()).hexdigest()

    def part(self, numbers: Sequence[int]) -> "ParallelText":
        """Return some of the pairs, with the checksum of all."""
        text = ParallelText(
            [(self.sources[i], self.references[0][i]) for i in numbers],
            self.gold and [self.gold[i] for i in numbers],
            [[lines[i] for i in numbers] for lines in self.references[1:]],
            self.origin,
        )
        text.checksum = self.checksum
        return text

    def rows(self) -> list[tuple[str, ...]]:
        """Return each source sentence with all its translations."""
        return list(zip(self.sources, *self.references, strict=True))

    def encoded(self, source: Subwords, target: Subwords, *, truncation: Truncation = UNCUT) -> EncodedText:
        """Return the text as ids of two subword models, cut to what a system reads and writes."""
        key = source.checksum, target.checksum, truncation
        if key not in self._encoded:
            self._encoded[key] = truncation.cut(encode_text(source, target, self.sources, self.targets))
        return self._encoded[key]

    def encoded_for(self, preprocessor: Any) -> EncodedText:
        """Return the text as a translator with this `TranslationPreprocessor` reads it."""
        return self.encoded(*preprocessor.subwords, truncation=preprocessor.truncation)


def _on_a_line(text):
    """A reference as a run folder keeps it, several to a line; scores do not depend on which white space it has."""
    return _BREAK.sub(" ", text.rstrip())


def _check_words(pairs, gold):
    """Raise if the words of gold alignments, spaces aside, are not the text: alignments are read off its subwords."""
    if len(gold) != len(pairs):
        raise UserError(f"{len(gold)} gold alignments for {len(pairs)} sentence pairs: give one for each pair.")
    for number, (pair, (*words, _)) in enumerate(zip(pairs, gold, strict=True), start=1):
        for sentence, own in zip(pair, words, strict=True):
            if normalise(sentence).replace(" ", "") != normalise(" ".join(own)).replace(" ", ""):
                raise UserError(
                    f"the gold alignment of pair {number} does not match the words of its sentences: check both."
                )

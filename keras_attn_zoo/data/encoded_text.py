"""Text as ids, encoded once to be translated, scored and aligned any number of times."""

import dataclasses
from collections.abc import Iterable

from keras_attn_zoo.data.subwords import Subwords


@dataclasses.dataclass(frozen=True)
class EncodedText:
    """Sentences as ids, with their translations if available.

    Use it to translate, score and align the same text without encoding it again: `Translator.encode` returns it, and
    the methods of a translator accept it instead of strings.

    Attributes:
        sources: ids of each sentence, the end token included.
        targets: ids of each translation, the end token included; None without translations.
        models: checksums of the subword models of both sides.
    """

    sources: list[list[int]]
    targets: list[list[int]] | None
    models: tuple[str, str]

    def __len__(self) -> int:
        """Count the sentences."""
        return len(self.sources)

    def select(self, numbers: Iterable[int]) -> "EncodedText":
        """Return the sentences with these numbers, counted from 0."""
        numbers = list(numbers)
        targets = None if self.targets is None else [self.targets[i] for i in numbers]
        return EncodedText([self.sources[i] for i in numbers], targets, self.models)


def encode_text(
    source: Subwords, target: Subwords, sources: Iterable[str], targets: Iterable[str] | None = None
) -> EncodedText:
    """Encode sentences, and their translations if given.

    Args:
        source, target: subword models of both sides.
        sources: the sentences.
        targets: their translations, or None.
    """
    of_targets = None if targets is None else encode_sentences(target, targets)
    return EncodedText(encode_sentences(source, sources), of_targets, (source.checksum, target.checksum))


def encode_sentences(subwords: Subwords, sentences: Iterable[str]) -> list[list[int]]:
    """Return the ids of each sentence, the end token included."""
    return [[*ids, subwords.end] for ids in subwords.encode(sentences)]

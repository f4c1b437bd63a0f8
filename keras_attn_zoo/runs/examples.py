"""The best translations of a run, as examples of what it can do."""

import dataclasses

from keras_attn_zoo.data.words import normalise, word_count
from keras_attn_zoo.evaluation.text_scores import how_scored, sentence_bleu
from keras_attn_zoo.runs.described_corpora import own_test_text
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import shown


@dataclasses.dataclass(frozen=True)
class Example:
    """A translation of a test sentence.

    Attributes:
        number: that of the sentence in the test text, counted from 1.
        source, reference: the sentence, and its first reference.
        translation: the run's.
        score: its sentence BLEU.
    """

    number: int
    source: str
    reference: str
    translation: str
    score: float


def best_translations(run: RunFolder) -> list[Example]:
    """Return the translations of a run's test text by sentence BLEU, best first; of equal ones, the longest first.

    Empty ones, and those of empty sentences, are left out.

    Raises:
        UserError: the run has no translations or no test text, or was scored on another text.
    """
    translations, references = run.read_translations("test")
    own, firsts = own_test_text(run), references[0]
    if own.targets != list(map(normalise, firsts)):
        raise UserError(f"{shown(run.path)} was scored on another text than its own: evaluate it again.")
    how = how_scored(run.read_scores()["test"]["text"])
    found = [
        Example(number, source, first, translation, sentence_bleu(translation, first, *more, **how))
        for number, (source, translation, first, *more) in enumerate(
            zip(own.sources, translations, *references, strict=True), start=1
        )
        if source and translation
    ]
    # Short sentences are easily right.
    return sorted(found, key=lambda one: (-one.score, -word_count(one.reference), one.number))

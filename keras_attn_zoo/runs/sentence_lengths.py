"""Whether the sentences of a test text fit a system, before and after it has subwords."""

from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.data.encoded_text import EncodedText
from keras_attn_zoo.runs.outline import outline
from keras_attn_zoo.runs.settings import SMALLEST_VOCABULARY
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.support.choices import MOST_TOKENS
from keras_attn_zoo.support.errors import UserError


def check_test_words(text: ParallelText, system: System, room: int, name: str = "test") -> None:
    """Raise if a sentence of a test text has more words than the translator accepts tokens, so without any subwords.

    No piece spans two words. `check_test_text` tells what else is too long.
    """
    cut = system.data.truncation
    needed = [
        max(_least_tokens(source, cut.source), _least_tokens(target, cut.target)) for source, target in text.pairs
    ]
    if max(needed, default=0) > room:
        longest = outline(system, SMALLEST_VOCABULARY, SMALLEST_VOCABULARY).longest_sentence
        _raise_too_long(needed, room, name, longest, "to at least ")


def _least_tokens(sentence, most):
    """How many tokens a normalised sentence has at least, with its end, if it is cut to so many with its start."""
    # Pieces may join what is nothing but SentencePiece's mark for a space.
    count = 1 + sum(word.strip("\u2581") != "" for word in sentence.split())
    return count if most is None else min(count, most - 1)


def check_test_text(text: EncodedText, room: int, name: str = "test", longest: int | None = None) -> None:
    """Raise if a sentence of a test text of this name has more tokens than the translator will accept.

    `longest` is what its weights allow, None for any length.
    """
    needed = [max(len(source), len(target)) for source, target in zip(text.sources, text.targets or (), strict=True)]
    if max(needed, default=0) > room:
        _raise_too_long(needed, room, name, longest)


def _raise_too_long(needed, room, name, longest, least=""):
    most, count = max(needed), sum(one > room for one in needed)
    room_for_all = most <= min(MOST_TOKENS, longest or MOST_TOKENS)
    advice = f"set --max-tokens {least}{most}, or leave them out" if room_for_all else "leave them out, or split them"
    raise UserError(
        f"{count} of {len(needed)} {name} sentences have more than the {room} tokens that the model accepts; the "
        f"longest is sentence {needed.index(most) + 1}: {advice}."
    )

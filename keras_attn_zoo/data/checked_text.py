"""What sentences must be: strings, of characters, not longer than a model accepts."""

import reprlib
from collections.abc import Sequence

import numpy as np

from keras_attn_zoo.support.choices import MOST_TOKENS
from keras_attn_zoo.support.errors import UserError


def check_texts(texts: Sequence[str], name: str) -> list[str]:
    """Return a list of strings from a list, a tuple or an array; raise on anything else, including a single string."""
    if isinstance(texts, np.ndarray):
        texts = texts.tolist()
    if not isinstance(texts, (list, tuple)):
        raise UserError(f"{name} must be a list of strings; received {reprlib.repr(texts)}.")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise UserError(f"{name} must be a list of strings; received {reprlib.repr(text)} as entry {number}.")
        if not text.isascii():
            check_characters(text, f"entry {number} of {name}")
    return [str(text) for text in texts]


def check_characters(text: str, name: str) -> None:
    """Raise if a text, which the message calls by a name, has something that is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(f"{name} contains an unpaired surrogate, not a character: {reprlib.repr(text)}.") from None


def check_lengths(encoded: Sequence[list[int]], limit: int, what: str = "sentence") -> None:
    """Raise if an encoded sentence, with its end, is longer than the limit; `what` is what the message calls it."""
    for number, ids in enumerate(encoded, start=1):
        if len(ids) > limit:
            raise SentenceTooLong(number, len(ids), limit, what)


class SentenceTooLong(UserError):
    """A sentence has more tokens than the model accepts.

    Attributes:
        number: number of the sentence, counted from 1.
        tokens: how many tokens it has, with its end.
        limit: how many it may have.
        most: how many it may have after `set_max_tokens`, as far as is known.
    """

    def __init__(
        self, number: int, tokens: int, limit: int, what: str = "sentence", most: int | None = MOST_TOKENS
    ) -> None:
        text = (
            f"{what} {number} has {tokens} tokens with its end, more than the {limit} that the model accepts: split it"
        )
        self.number, self.tokens, self.limit, self.what = number, tokens, limit, what
        self.most = min(MOST_TOKENS, most or MOST_TOKENS)
        # What would be refused is not advised.
        if tokens > self.most:
            super().__init__(f"{text}.")
        else:
            super().__init__(
                f"{text}, or call the translator's set_max_tokens({tokens}).", f"{text}, or set --max-tokens {tokens}."
            )

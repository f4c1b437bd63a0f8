"""A translation that a search has found."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One translation of a sentence.

    Attributes:
        text: the translation.
        score: its log-probability divided by the length penalty, with the coverage penalty; after a choice by minimum
            Bayes risk, the expected utility.
        log_prob: its log-probability, the end token included.
        source_tokens: subwords of the source, the end token included.
        tokens: subwords of the translation, the end token included.
        token_ids: their ids.
        attention: `(heads, len(tokens), len(source_tokens))`, or None unless requested.
    """

    text: str
    score: float
    log_prob: float
    source_tokens: list[str]
    tokens: list[str]
    token_ids: list[int]
    attention: np.ndarray | None = None


def until_end(token_ids: np.ndarray, end: int) -> list[int]:
    """Return the ids of a translation, without its start token, up to the first end token."""
    ids = token_ids.tolist()
    return ids[: ids.index(end) + 1] if end in ids else ids

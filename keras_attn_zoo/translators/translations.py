"""A translator's results for a sentence: translations found, and given ones that were forced or scored."""

import dataclasses
import math
from typing import Any

import numpy as np

from keras_attn_zoo.data.hypothesis import Hypothesis, until_end
from keras_attn_zoo.decoding.beam_search import IMPOSSIBLE


@dataclasses.dataclass(frozen=True)
class ForcedDecoding:
    """A given translation, and the model's attention when it is forced.

    Attributes:
        source_tokens: subwords of the source, the end token included.
        tokens: subwords of the translation, the end token included.
        attention: `(heads, len(tokens), len(source_tokens))`.
    """

    source_tokens: list[str]
    tokens: list[str]
    attention: np.ndarray


@dataclasses.dataclass(frozen=True)
class ScoredTranslation:
    """How likely the model finds a given translation.

    Attributes:
        source_tokens: subwords of the source, the end token included.
        tokens: subwords of the translation, the end token included.
        log_probs: float32 `(len(tokens),)`, the log-probability of each, given the source and the previous tokens.
        correct: bool `(len(tokens),)`, whether no other token was likelier.
    """

    source_tokens: list[str]
    tokens: list[str]
    log_probs: np.ndarray
    correct: np.ndarray

    @property
    def log_prob(self) -> float:
        """Log-probability of the translation, the end token included."""
        return float(self.log_probs.sum(dtype="float64"))

    @property
    def perplexity(self) -> float:
        """The exponential of the mean negative log-probability per token."""
        return math.exp(-self.log_prob / len(self.tokens))


def read_hypotheses(
    found: dict[str, np.ndarray], row: int, source: list[int], n_best: int, preprocessor: Any
) -> list[Hypothesis]:
    """Return up to `n_best` hypotheses of one sentence, the best first, from the arrays that `search` returned.

    An empty sentence has one, which is empty and certain.
    """
    end = preprocessor.tokenizer.end_token_id
    # A model, which was never shown any, would make up a translation.
    empty = len(source) == 1
    hypotheses = []
    for beam in range(1 if empty else n_best):
        if not empty and found["log_probs"][row, beam] < IMPOSSIBLE / 2:
            continue
        ids = [end] if empty else until_end(found["token_ids"][row, beam, 1:], end)
        attention = None
        if "attention" in found:
            beams = found["token_ids"].shape[1]
            scores = found["attention"][row * beams + beam][1 : len(ids) + 1, :, : len(source)]
            # A copy: it would keep that of the whole batch.
            attention = np.transpose(scores, (1, 0, 2)).copy()
        hypotheses.append(
            Hypothesis(
                text=preprocessor.detokenize(ids),
                score=0.0 if empty else float(found["scores"][row, beam]),
                log_prob=0.0 if empty else float(found["log_probs"][row, beam]),
                source_tokens=pieces(preprocessor.source_tokenizer, source),
                tokens=pieces(preprocessor.tokenizer, ids),
                token_ids=ids,
                attention=attention,
            )
        )
    return hypotheses


def pieces(tokenizer: Any, ids: Any) -> list[str]:
    """Return the subwords of ids."""
    return tokenizer.subwords.pieces(ids)

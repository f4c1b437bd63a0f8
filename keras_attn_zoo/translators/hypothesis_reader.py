"""From the results of a search to hypotheses: unknown words replaced, and ordered by minimum Bayes risk."""

import dataclasses
from typing import Any

import keras_hub
import numpy as np

from keras_attn_zoo.data import UNKNOWN
from keras_attn_zoo.data.encoded_text import EncodedText
from keras_attn_zoo.data.hypothesis import Hypothesis
from keras_attn_zoo.data.words import normalise
from keras_attn_zoo.decoding import BeamSearch, Sampling
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.translators.translations import read_hypotheses


def checked_sampler(sampler: keras_hub.samplers.Sampler, n_best: int, limit: int) -> BeamSearch:
    """Return the search that finds hypotheses with scores, of at most `limit` tokens; raise if there is none."""
    found = sampler if isinstance(sampler, BeamSearch) else Sampling.like(sampler, n_best)
    if found is None:
        raise UserError(
            f"a {type(sampler).__name__} returns no scores, so translate cannot search by it: call generate, or "
            "compile(sampler='greedy' or 'beam')."
        )
    if n_best > found.num_beams:
        what, remedy = ("sample", "draw more") if isinstance(found, Sampling) else ("beam", "search with more beams")
        raise UserError(
            f"n_best={n_best} is more than {counted(found.num_beams, what)}: {remedy}.",
            f"--n-best {n_best} is more than {counted(found.num_beams, what)}: set --{what}s {n_best}.",
        )
    if found.min_length > limit - 2:
        text = f"is more than the {limit - 2} tokens that a translation may have besides start and end"
        raise UserError(
            f"min_length={found.min_length} {text}: set a smaller one.",
            f"--min-length {found.min_length} {text}: set a smaller one, or a larger --max-tokens.",
        )
    return found


class HypothesisReader:
    """Reads the hypotheses of sentences from what a search returned; see `Translator.translate` for the arguments.

    Attributes:
        hypotheses: how many hypotheses of a sentence the search has to find.
        attention: whether it has to keep attention.
    """

    def __init__(
        self,
        preprocessor: Any,
        sampler: BeamSearch,
        n_best: int,
        attention: bool,
        mbr: str | None,
        replace_unknown: bool,
    ) -> None:
        if mbr is not None:
            # sacrebleu takes long to import.
            from keras_attn_zoo.evaluation.minimum_bayes_risk import check_utility

            check_utility(mbr)
            if sampler.num_beams == 1:
                text = "chooses among several hypotheses, and the search has one"
                raise UserError(
                    f"mbr {text}: take more beams or samples.", f"--mbr {text}: give more --beams, or --samples."
                )
        if replace_unknown and not all(subwords.whole_words for subwords in preprocessor.subwords):
            text = "is for word models, and this translator has subwords: leave it out."
            raise UserError(f"replace_unknown {text}", f"--replace-unknown {text}")
        self._preprocessor, self._n_best, self._keep = preprocessor, n_best, attention
        self._mbr, self._replace, self._drawn = mbr, replace_unknown, isinstance(sampler, Sampling)
        self.hypotheses = n_best if mbr is None else sampler.num_beams
        self.attention = attention or replace_unknown

    def source_words(self, sentences: Any) -> list[list[str]]:
        """Return the words of each sentence that may take the place of unknown ones; none unless they are replaced."""
        if not self._replace:
            return [[]] * len(sentences)
        if isinstance(sentences, EncodedText):
            raise UserError("replace_unknown writes source words, which encoded text has not: give sentences.")
        return [normalise(sentence).split() for sentence in sentences]

    def read(self, found: dict[str, np.ndarray], row: int, source: list[int], words: list[str]) -> list[Hypothesis]:
        """Return the hypotheses of one sentence, given its ids and its words."""
        hypotheses = read_hypotheses(found, row, source, self.hypotheses, self._preprocessor)
        if self._replace:
            hypotheses = [self._with_words(one, source, words) for one in hypotheses]
        return hypotheses if self._mbr is None or not hypotheses else self._by_risk(hypotheses)

    def _by_risk(self, hypotheses):
        """The hypotheses that agree best with all, the best first."""
        from keras_attn_zoo.evaluation.minimum_bayes_risk import expected_utilities

        probabilities = None
        if not self._drawn:
            log_probs = np.array([one.log_prob for one in hypotheses])
            probabilities = np.exp(log_probs - log_probs.max())
        utilities = expected_utilities([one.text for one in hypotheses], probabilities, self._mbr)
        ordered = sorted(zip(hypotheses, utilities, strict=True), key=lambda pair: -pair[1])[: self._n_best]
        return [dataclasses.replace(one, score=utility) for one, utility in ordered]

    def _with_words(self, hypothesis, source, words):
        """A hypothesis with the source word that is attended to most in place of each unknown one."""
        attention = hypothesis.attention
        if not self._keep:
            hypothesis = dataclasses.replace(hypothesis, attention=None)
        places = [i for i, token in enumerate(hypothesis.token_ids) if token == UNKNOWN]
        if not places:
            return hypothesis
        if self._preprocessor.truncation.keep == "end":
            words = words[1 - len(source) :]
        # Each word is a token; the last token is the end.
        aligned = attention.mean(axis=0)[places, :-1].argmax(axis=1)
        replaced = [words[j] for j in aligned]
        text = self._preprocessor.tokenizer.subwords.decode_words(hypothesis.token_ids, replaced)
        return dataclasses.replace(hypothesis, text=text)

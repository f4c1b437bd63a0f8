"""Beam search for translations that contain given phrases."""

import functools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops, tree

from keras_attn_zoo.decoding.beam_search import BeamSearch, Step, flat
from keras_attn_zoo.decoding.logits_processors import IMPOSSIBLE, tokens_at
from keras_attn_zoo.support.types import Tensor, TensorTree

# In the place of an id of a phrase: the token behind it, which begins another word; and what follows that.
WORD_START, ANYTHING = -1, -2


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class GridBeamSearch(BeamSearch):
    """Beam search whose translations contain given phrases, by a beam for each number of tokens that is missing.

    Use it for terms that a translation must have; `Translator.translate` does so if there are required words. A phrase
    is met where its tokens follow each other and the next token begins another word, or nothing follows.

        left(y) = Σ_c |c| [c is not met in y] - the longest beginning of one of these c that y ends with

    Hypotheses with the same number of tokens left compete for `num_beams` places, and only one with none left can end.
    Besides the likeliest tokens, each is continued with the next token of every phrase. So phrases are never lost to
    likelier hypotheses, and with as many beams as there are hypotheses the search is exhaustive.

    A step computes `num_beams * (1 + phrase_tokens)` hypotheses of a sentence, and
    takes at least as much longer: with three phrases of two tokens, seven times.

    Args:
        num_beams: number of hypotheses for each number of tokens left.
        phrase_tokens: how many tokens the phrases of a sentence have together, at most.
        word_starts: ids of tokens that begin a word, or something that is none, such as the end.
        **kwargs: see `BeamSearch`.

    State: all in the loop's variables; what is met follows from the tokens.

    Example:
        >>> sampler = GridBeamSearch(4, phrase_tokens=2, word_starts=[1, 3])
        >>> sampler.rows
        12

    Source: Hokamp and Liu 2017, algorithm 1.

    Differs from the paper: a phrase that is left half-way may be begun again, and one may end in the likeliest tokens
    of the model as well.
    """

    def __init__(self, num_beams: int, phrase_tokens: int, word_starts: Sequence[int], **kwargs: Any) -> None:
        super().__init__(num_beams, **kwargs)
        self.phrase_tokens = phrase_tokens
        self.word_starts = list(word_starts)

    @property
    def rows(self) -> int:
        """Number of hypotheses of a sentence that a step computes."""
        return self.num_beams * (1 + self.phrase_tokens)

    def search(self, *args: Any, **kwargs: Any) -> dict[str, TensorTree]:
        """Return the hypotheses that have all phrases, the best first; see `BeamSearch.search`.

        It records no trace. Its `data` is `{"phrases": (batch, phrases, length)}`, ids as `phrase_rows` returns them.
        """
        found = super().search(*args, **kwargs)
        # The first are those with nothing left.
        first = {name: found[name][:, : self.num_beams] for name in ("token_ids", "scores", "log_probs")}

        def first_rows(x):
            return flat(ops.reshape(x, (-1, self.rows, *ops.shape(x)[1:]))[:, : self.num_beams])

        return {**found, **first, "state": tree.map_structure(first_rows, found["state"])}

    def best_candidates(self, step: Step, count: int) -> dict[str, Tensor]:
        """Return the best continuations for each number of tokens left; see `BeamSearch.best_candidates`."""
        batch, beams = ops.shape(step.log_probs)[0], self.rows
        vocabulary = step.logits.shape[-1]
        logits = ops.cast(flat(step.logits), "float32")
        process = step.process()
        allowed = logits / self.temperature if process is None else process(logits / self.temperature)
        given, forced, frozen = flat(step.given()), flat(step.forced), flat(step.finished)
        width = min(count, vocabulary)
        steps, ids = self.best_of_step(logits, given, forced, width, frozen, lambda _: allowed)

        phrases = ops.repeat(ops.cast(step.data["phrases"], "int32"), beams, axis=0)
        starts = np.isin(np.arange(vocabulary), self.word_starts)
        progress = _Progress(phrases, flat(step.tokens), step.start, step.index, starts)
        # The likeliest tokens may not have those that meet a phrase, or that end.
        stops = ops.convert_to_tensor([list(step.stop_token_ids or ())], "int32")
        more = ops.concatenate([progress.next_tokens(), ops.repeat(stops, batch * beams, axis=0)], axis=1)
        free = ops.logical_not(ops.logical_or(forced, frozen))[:, None]
        costs = ops.take_along_axis(allowed, ops.maximum(more, 0), axis=1)
        costs = costs - ops.logsumexp(logits / self.temperature, axis=-1, keepdims=True)
        costs = ops.where(ops.logical_and(free, _is_new(more, ids)), costs, IMPOSSIBLE)
        steps = ops.concatenate([steps, costs], axis=1)
        ids = ops.concatenate([ids, ops.maximum(more, 0)], axis=1)

        left = ops.where(frozen[:, None], 0, progress.left_after(ids))
        ends = ops.logical_and(free, ops.any(ids[..., None] == stops[:, None], axis=-1))
        steps = ops.where(ops.logical_and(ends, left > 0), IMPOSSIBLE, steps)
        steps = ops.reshape(steps, (batch, beams, -1))
        candidates = ops.maximum(step.log_probs[..., None] + steps, IMPOSSIBLE)
        scores = self.scored(candidates, *step.of_candidates())

        scores, candidates, left, ids = (ops.reshape(x, (batch, -1)) for x in (scores, candidates, left, ids))
        banks = ops.arange(1 + self.phrase_tokens, dtype="int32")[None, :, None]
        # Below what is impossible: a bank may have fewer hypotheses than places.
        scores, best = ops.top_k(ops.where(left[:, None] == banks, scores[:, None], 2 * IMPOSSIBLE), k=self.num_beams)
        scores, best = ops.reshape(scores, (batch, -1)), ops.cast(ops.reshape(best, (batch, -1)), "int32")
        log_probs = ops.take_along_axis(candidates, best, axis=1)
        return {
            "token_ids": ops.take_along_axis(ids, best, axis=1),
            "parents": best // steps.shape[-1],
            "log_probs": ops.where(scores > 1.5 * IMPOSSIBLE, log_probs, IMPOSSIBLE),
            "scores": scores,
        }


def phrase_rows(phrases: Sequence[Sequence[Sequence[int]]]) -> np.ndarray:
    """Return the ids of the phrases of each sentence as `GridBeamSearch` takes them, `(sentences, phrases, length)`.

    Example:
        >>> phrase_rows([[[5, 6]], []]).tolist()
        [[[5, 6, -1]], [[-2, -2, -2]]]
    """
    count = max(map(len, phrases))
    longest = max((len(phrase) for of_sentence in phrases for phrase in of_sentence), default=0)
    rows = np.full((len(phrases), count, longest + 1), ANYTHING, "int32")
    for row, of_sentence in zip(rows, phrases, strict=True):
        for place, phrase in zip(row, of_sentence, strict=False):
            place[: len(phrase) + 1] = [*phrase, WORD_START]
    return rows


def _is_new(more, ids):
    """Which of some tokens are neither among others nor further on the left; those below 0 are none."""
    places = np.arange(more.shape[1])
    again = ops.logical_and(more[:, :, None] == more[:, None], places[:, None] > places)
    known = ops.logical_or(ops.any(again, axis=2), ops.any(more[:, :, None] == ids[:, None], axis=2))
    return ops.logical_and(more >= 0, ops.logical_not(known))


class _Progress:
    """What hypotheses have of their phrases, `(rows, phrases, length)`, before a position."""

    def __init__(self, phrases, tokens, start, index, word_starts):
        self.phrases, self.word_starts = phrases, ops.convert_to_tensor(word_starts)
        self.sizes = ops.sum(ops.cast(phrases >= 0, "int32"), axis=2)
        tokens = ops.cast(tokens, "int32")
        longest = phrases.shape[2]
        places = ops.arange(tokens.shape[1], dtype="int32")
        # Whether a phrase is somewhere, with the beginning of a word behind it: a place is that of its first token.
        found = ops.ones((1, tokens.shape[1], phrases.shape[1]), dtype="bool")
        for i in range(longest):
            there, wanted = ops.roll(tokens, -i, axis=1)[:, :, None], phrases[:, None, :, i]
            starts = ops.logical_and(wanted == WORD_START, ops.take(self.word_starts, there))
            fits = ops.logical_or(there == wanted, starts)
            fits = ops.logical_and(fits, ops.logical_and(places >= start, places + i < index)[:, None])
            found = ops.logical_and(found, ops.logical_or(wanted == ANYTHING, fits))
        self.done = ops.any(found, axis=1)
        # Whether the last tokens are the first of a phrase: none of them, one, and so on.
        ends = [ops.ones_like(self.done)]
        for size in range(1, longest):
            same = [tokens_at(tokens, index - size + i)[:, None] == phrases[:, :, i] for i in range(size)]
            ends.append(ops.logical_and(index - size >= start, functools.reduce(ops.logical_and, same)))
        self.begun = ops.stack(ends, axis=2)
        # Those that are complete if the next token begins a word.
        whole = ops.arange(longest, dtype="int32") == self.sizes[..., None]
        self.complete = ops.any(ops.logical_and(self.begun, whole), axis=2)

    def next_tokens(self):
        """The next token of each phrase, `(rows, phrases)`; below 0 for a phrase that is met."""
        sizes = ops.arange(self.begun.shape[2], dtype="int32")
        begun = ops.logical_and(self.begun, sizes < self.sizes[..., None])
        place = ops.max(ops.where(begun, sizes, 0), axis=2)
        token = ops.take_along_axis(self.phrases, place[..., None], axis=2)[..., 0]
        return ops.where(ops.logical_or(self.done, self.complete), ANYTHING, token)

    def left_after(self, ids):
        """How many tokens are missing after each of some tokens `(rows, tokens)`."""
        goes_on = ops.logical_and(self.begun[:, None], ids[:, :, None, None] == self.phrases[:, None])
        lengths = 1 + ops.arange(self.phrases.shape[2], dtype="int32")
        progress = ops.max(ops.where(goes_on, lengths, 0), axis=3)
        stays = ops.logical_and(self.complete[:, None], ops.take(self.word_starts, ids)[..., None])
        met = ops.logical_or(ops.logical_or(self.done[:, None], stays), progress == self.sizes[:, None])
        missing = ops.sum(ops.where(met, 0, self.sizes[:, None]), axis=2)
        return missing - ops.max(ops.where(met, 0, progress), axis=2)

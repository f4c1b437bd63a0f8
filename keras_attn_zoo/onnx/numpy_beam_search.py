"""Beam search in NumPy, with the results of `decoding.BeamSearch` and `decoding.PooledBeamSearch`."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

# The log-probability of the impossible; finite, so that sums are never NaN.
IMPOSSIBLE = -1e9
# Coverage of a source position that hard attention leaves out, whose logarithm would not be finite.
_LEAST_COVERAGE = 1e-9

Hypotheses = dict[str, np.ndarray]


class Found(NamedTuple):
    """A translation: its score, its log-probability, its ids, and attention `(tokens, heads, source)` or None."""

    score: float
    log_prob: float
    token_ids: np.ndarray
    attention: np.ndarray | None


def top_k(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest numbers of each row, the largest first, and their places.

    Example:
        >>> values, places = top_k(np.array([[1.0, 3.0, 2.0]]), 2)
        >>> places.tolist()
        [[1, 2]]
    """
    rows = np.arange(len(x))
    places, values = np.empty((len(x), k), "int64"), np.empty((len(x), k), x.dtype)
    for i in range(k):
        # One after the other: NumPy finds the largest number of a row many times faster than it parts a row.
        places[:, i] = x.argmax(axis=1)
        values[:, i] = x[rows, places[:, i]]
        x[rows, places[:, i]] = -np.inf
    # Where only -inf is left, a place is found twice: its number is that of the first time, which is written last.
    x[rows[:, None], places[:, ::-1]] = values[:, ::-1]
    return values, places


@dataclasses.dataclass(frozen=True)
class BeamSearch:
    """Search as `decoding.BeamSearch` does, whose docstring has the arguments and the equations.

    A sentence leaves the batch when what is asked for is certain.

    Args:
        beams, length_penalty, coverage_penalty, min_length, no_repeat_ngram: see there.
        end: the id that ends a translation.
        limit: maximum tokens of a translation, start and end included.
        n_best: how many translations are asked for.
        attention: whether to keep it.
    """

    beams: int
    length_penalty: float
    end: int
    limit: int
    n_best: int = 1
    attention: bool = False
    coverage_penalty: float = 0.0
    min_length: int = 0
    no_repeat_ngram: int = 0

    def search(self, steps: Any, start: int) -> list[list[Found]]:
        """Return the translations of a batch, the best first.

        Args:
            steps: see `ONNXSteps`.
            start: the id that begins a translation.
        """
        batch = len(steps.mask)
        found: list[list[Found]] = [[] for _ in range(batch)]
        numbers = np.arange(batch)
        hypotheses = self._begin(steps.mask, start)
        rows = numbers[:, None]
        for position in range(1, self.limit):
            log_probs, attention = steps(hypotheses["tokens"][:, :, -1], rows)
            self._rule_out(log_probs, hypotheses["tokens"], position)
            before = log_probs.shape[1]
            hypotheses, parents = self._advance(hypotheses, log_probs, attention, position)
            rows = np.arange(len(parents))[:, None] * before + parents
            going_on = self._improvable(hypotheses) & (position < self.limit - 1)
            # To drop a few sentences costs more than to go on with them.
            if going_on.sum() > len(going_on) * 3 // 4:
                continue
            for place in np.flatnonzero(~going_on):
                found[numbers[place]] = self._read({name: x[place] for name, x in hypotheses.items()})
            if not going_on.any():
                break
            numbers, rows = numbers[going_on], rows[going_on]
            hypotheses = {name: x[going_on] for name, x in hypotheses.items()}
            steps.keep(going_on)
        return found

    def _begin(self, mask: np.ndarray, start: int) -> Hypotheses:
        """Return the beginning of every translation: the beams of a sentence are still one."""
        one = (len(mask), 1)
        hypotheses = {
            "tokens": np.full((*one, 1), start, "int32"),
            "log_probs": np.zeros(one, "float32"),
            "lengths": np.zeros(one, "float32"),
            "finished": np.zeros(one, "bool"),
        }
        if self.coverage_penalty:
            # Padding is covered from the start.
            hypotheses["coverage"] = 1.0 - mask[:, None].astype("float32")
        return hypotheses

    def _rule_out(self, log_probs: np.ndarray, tokens: np.ndarray, position: int) -> None:
        """Make an end that comes too early impossible, and what would repeat an n-gram."""
        if position - 1 < self.min_length:
            log_probs[..., self.end] = IMPOSSIBLE
        n = self.no_repeat_ngram
        if n and position > n:
            # All n-grams so far, and the last n - 1 tokens.
            grams = np.lib.stride_tricks.sliding_window_view(tokens[:, :, 1:], n, axis=2)
            repeated = (grams[..., :-1] == tokens[:, :, None, position - n + 1 :]).all(axis=-1)
            sentence, beam, place = np.nonzero(repeated)
            log_probs[sentence, beam, grams[sentence, beam, place, -1]] = IMPOSSIBLE

    def _candidates(self, hypotheses, log_probs, width):
        """Return tokens and log-probabilities of the best continuations of each hypothesis, `(batch, beams, width)`."""
        batch, beams, vocabulary = log_probs.shape
        steps, tokens = top_k(log_probs.reshape(-1, vocabulary), min(width, vocabulary))
        steps, tokens = (x.reshape(batch, beams, -1) for x in (steps, tokens))
        return tokens, np.maximum(hypotheses["log_probs"][..., None] + steps, np.float32(IMPOSSIBLE))

    def _advance(self, hypotheses, log_probs, attention, position):
        """Return the best continuations of all hypotheses, and which of these they continue."""
        finished = hypotheses["finished"]
        hypotheses["lengths"] = hypotheses["lengths"] + ~finished
        if self.coverage_penalty:
            grown = hypotheses["coverage"] + attention.mean(axis=2)
            hypotheses["coverage"] = np.where(finished[..., None], hypotheses["coverage"], grown)
        # A finished one goes on with padding, at no cost.
        log_probs[finished] = IMPOSSIBLE
        log_probs[finished, 0] = 0.0
        tokens, candidates = self._candidates(hypotheses, log_probs, self.beams)
        width = tokens.shape[2]
        scores = self._scored(candidates, {name: x[:, :, None] for name, x in hypotheses.items()})
        best = np.argsort(-scores.reshape(len(scores), -1), axis=1, kind="stable")[:, : self.beams]
        parents = best // width
        chosen = _at(tokens.reshape(len(tokens), -1), best)
        hypotheses = self._followed(hypotheses, parents, chosen, attention)
        hypotheses["log_probs"] = _at(candidates.reshape(len(candidates), -1), best)
        hypotheses["finished"] = hypotheses["finished"] | (chosen == self.end)
        return hypotheses, parents

    def _followed(self, hypotheses, parents, chosen, attention):
        """Return what belongs to the hypotheses that are continued, with one token more."""
        if self.attention:
            before = hypotheses.get("attention", attention[:, :, None][:, :, :0])
            hypotheses = {**hypotheses, "attention": np.concatenate([before, attention[:, :, None]], axis=2)}
        followed = {name: _at(x, parents) for name, x in hypotheses.items()}
        followed["tokens"] = np.concatenate([followed["tokens"], chosen[..., None].astype("int32")], axis=2)
        return followed

    def _scored(self, log_probs, hypotheses):
        """Return the scores of log-probabilities, given lengths and coverage."""
        scores = log_probs / ((5.0 + hypotheses["lengths"]) / 6.0) ** self.length_penalty
        if self.coverage_penalty:
            covered = np.log(np.clip(hypotheses["coverage"], _LEAST_COVERAGE, 1.0)).sum(axis=-1)
            scores = scores + self.coverage_penalty * covered
        return scores

    def _improvable(self, hypotheses):
        """Return whether each sentence has a hypothesis that may become one of those that are asked for."""
        log_probs, finished = hypotheses["log_probs"], hypotheses["finished"]
        running = ~finished & (log_probs > IMPOSSIBLE / 2)
        if self.n_best < finished.shape[1]:
            scores = self._scored(log_probs, hypotheses)
            certain = np.where(finished[:, : self.n_best].all(axis=1), scores[:, self.n_best - 1], -np.inf)
            # Coverage may yet become complete.
            most = log_probs / ((5.0 + np.float32(self.limit - 1)) / 6.0) ** self.length_penalty
            running &= most > certain[:, None]
        return running.any(axis=1)

    def _read(self, hypotheses):
        """Return the translations of one sentence."""
        scores = self._scored(hypotheses["log_probs"], hypotheses)
        return [
            _found(score, log_prob, tokens, attention)
            for score, log_prob, tokens, attention in zip(
                scores,
                hypotheses["log_probs"],
                hypotheses["tokens"],
                hypotheses.get("attention", [None] * len(scores)),
                strict=True,
            )
            if log_prob > IMPOSSIBLE / 2
        ][: self.n_best]


@dataclasses.dataclass(frozen=True)
class PooledBeamSearch(BeamSearch):
    """Search as `decoding.PooledBeamSearch` does, whose docstring has the arguments.

    Args:
        early_stopping, forced_end, renormalize: see there.
    """

    early_stopping: bool | str = False
    forced_end: int | None = None
    renormalize: bool = True

    def _begin(self, mask, start):
        """Return the beginnings, with an empty pool for each sentence."""
        hypotheses = super()._begin(mask, start)
        pools = np.empty(len(mask), dtype=object)
        pools[:] = [[] for _ in mask]
        return {**hypotheses, "pool": pools, "improvable": np.ones(len(mask), "bool")}

    def _rule_out(self, log_probs, tokens, position):
        """Rule out as `BeamSearch` does; without what is ruled out, the others sum to 1 if that is asked for."""
        super()._rule_out(log_probs, tokens, position)
        if self.renormalize and (self.min_length or self.no_repeat_ngram):
            # Each is a logarithm of a probability, so none is large; the sum is 0 if nothing is possible any more.
            log_probs -= np.log(np.maximum(np.exp(log_probs).sum(axis=-1, keepdims=True), np.float32(1e-38)))

    def _advance(self, hypotheses, log_probs, attention, position):
        """Return the best unfinished continuations; those that end enter the pools."""
        last = self.limit - 1
        if self.forced_end is not None and position == last:
            log_probs[:] = IMPOSSIBLE
            log_probs[..., self.forced_end] = 0.0
        tokens, candidates = self._candidates(hypotheses, log_probs, 2 * self.beams)
        batch, width = len(tokens), tokens.shape[2]
        candidates, best = top_k(candidates.reshape(batch, -1), min(2 * self.beams, tokens[0].size))
        parents, chosen = best // width, _at(tokens.reshape(batch, -1), best)
        ends = (chosen == self.end) | (position == last)
        pools, improvable = hypotheses.pop("pool"), hypotheses.pop("improvable")
        every = self._followed(hypotheses, parents, chosen, attention)
        # The candidates beyond the best `beams` are there for the next step alone.
        enters = ends & (np.arange(ends.shape[1]) < self.beams) & improvable[:, None] & (candidates > IMPOSSIBLE / 2)
        scores = candidates / np.float32(position) ** self.length_penalty
        for place in zip(*np.nonzero(enters), strict=True):
            kept = every["attention"][place] if self.attention else None
            one = _found(scores[place], candidates[place], every["tokens"][place], kept)
            pools[place[0]] = sorted([*pools[place[0]], one], key=lambda found: -found.score)[: self.beams]
        running, places = top_k(np.where(ends, np.float32(IMPOSSIBLE), candidates), min(self.beams, ends.shape[1]))
        hypotheses = {name: _at(x, places) for name, x in every.items()} | {"log_probs": running, "pool": pools}
        hypotheses["improvable"] = improvable & self._better(running[:, 0], pools, position)
        return hypotheses, _at(parents, places)

    def _better(self, log_probs, pools, position):
        """Return where the best beam, if it ended, would have a higher score than the worst of a full pool."""
        worst = np.array([pool[-1].score if len(pool) == self.beams else IMPOSSIBLE for pool in pools])
        # Where it never stops early, the best that it may still become: as long as possible, at no cost.
        longest = self.limit - 1 if self.early_stopping == "never" and self.length_penalty > 0 else position
        better = (log_probs / np.float32(longest) ** self.length_penalty > worst) & (log_probs > IMPOSSIBLE / 2)
        return better & (worst < IMPOSSIBLE / 2) if self.early_stopping is True or self.beams == 1 else better

    def _improvable(self, hypotheses):
        """Return where the search goes on."""
        return hypotheses["improvable"]

    def _read(self, hypotheses):
        """Return the pool of one sentence."""
        return hypotheses["pool"][: self.n_best]


def _found(score, log_prob, tokens, attention):
    """A translation, with copies of what would keep arrays of the whole batch."""
    return Found(float(score), float(log_prob), tokens[1:].copy(), None if attention is None else attention.copy())


def _at(x, places):
    """Rows `(batch, chosen, ...)` of an array `(batch, rows, ...)`."""
    return x[np.arange(len(x))[:, None], places]

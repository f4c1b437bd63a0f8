"""Beam search over the step contract: frozen finished hypotheses, length penalty, n-best, attention."""

import dataclasses
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import keras
import keras_hub
from keras import ops, tree

from keras_attn_zoo.decoding.logits_processors import (
    IMPOSSIBLE,
    ForbiddenWords,
    LogitsProcessor,
    MinLength,
    NoRepeatedNgrams,
    composed,
)
from keras_attn_zoo.kernels import top_k
from keras_attn_zoo.support.configuration import Configured
from keras_attn_zoo.support.types import Tensor, TensorTree

# Coverage of a source position that hard attention leaves out, whose logarithm would not be finite.
_LEAST_COVERAGE = 1e-9


def length_penalty(length: float | Tensor, alpha: float) -> float | Tensor:
    """Return ((5 + length) / 6) ** alpha, the divisor of a log-probability; 1 for `alpha=0`.

    Example:
        >>> length_penalty(7.0, 1.0)
        2.0
    """
    return ((5.0 + length) / 6.0) ** alpha


def coverage_penalty(coverage: Tensor, beta: float) -> Tensor:
    """Return cp = β Σ_j log(min(Σ_i α_ij, 1)), which is added to a score: source words left out lower it.

    Args:
        coverage: Σ_i α_ij, what the positions of a translation attend to each source position, `(rows, source)`; 1 for
            padding.
        beta: β; 0 for no penalty.

    Example:
        >>> round(float(coverage_penalty(np.array([[1.5, 0.5, 1.0]]), 0.2)[0]), 4)
        -0.1386

    Source: Wu et al. 2016, equation 14.
    """
    return beta * ops.sum(ops.log(ops.clip(coverage, _LEAST_COVERAGE, 1.0)), axis=-1)


def stops_at(token_ids: Tensor, stop_token_ids: Sequence[int] | None, given: Tensor) -> Tensor:
    """Return where tokens are stop tokens: not where they are given, as a forced one belongs to the beginning."""
    stops = ops.zeros_like(token_ids, dtype="bool")
    for stop in stop_token_ids or ():
        stops = ops.logical_or(stops, token_ids == stop)
    return ops.logical_and(stops, ops.logical_not(given))


@dataclasses.dataclass(frozen=True)
class Step:
    """A position of a search, and the hypotheses before it.

    Attributes:
        logits: of the next tokens, `(batch, beams, vocabulary)`.
        tokens: those so far and what is given, `(batch, beams, length)`.
        forced: whether the token of the position is given, bool `(batch, beams)`.
        finished: whether a hypothesis has ended, bool `(batch, beams)`.
        log_probs: those of the hypotheses, `(batch, beams)`.
        lengths: their tokens with the next one, `(batch, beams)`.
        bonus: `{"bonus": (batch, beams)}`, what coverage adds to scores; empty without a coverage penalty.
        start: the first position of translations.
        index: the position.
        processors, stop_token_ids, data: see `BeamSearch.search`.
    """

    logits: Tensor
    tokens: Tensor
    forced: Tensor
    finished: Tensor
    log_probs: Tensor
    lengths: Tensor
    bonus: dict[str, Tensor]
    start: Tensor
    index: Tensor
    processors: Sequence[LogitsProcessor]
    stop_token_ids: Sequence[int] | None
    data: dict[str, Tensor]

    def given(self) -> Tensor:
        """Return the tokens of the position, `(batch, beams)`, which mean something where they are forced."""
        return self.tokens[:, :, self.index]

    def of_candidates(self) -> tuple[Tensor, dict[str, Tensor]]:
        """Return lengths and bonus for all continuations of a hypothesis, `(batch, beams, 1)`."""
        return self.lengths[..., None], tree.map_structure(lambda x: x[..., None], self.bonus)

    def beams(self, first: int, count: int) -> "Step":
        """Return some of the hypotheses of every sentence."""
        names = ("logits", "tokens", "forced", "finished", "log_probs", "lengths", "bonus")
        parts = tree.map_structure(lambda x: x[:, first : first + count], {name: getattr(self, name) for name in names})
        return dataclasses.replace(self, **parts)

    def penalized(self, penalty: Tensor) -> "Step":
        """Return the same with a penalty of tokens, `(batch * beams, vocabulary)`, to be chosen by."""
        processors = (*self.processors, lambda logits, tokens, index: logits - penalty)
        return dataclasses.replace(self, processors=processors)

    def process(self) -> Callable[[Tensor], Tensor] | None:
        """Return what rules out tokens, a function of logits `(batch * beams, vocabulary)`; None if nothing does."""
        return composed(self.processors, flat(self.tokens), self.index)


def flat(x: Tensor) -> Tensor:
    """Return an array `(batch, beams, ...)` as `(batch * beams, ...)`."""
    return ops.reshape(x, (-1, *ops.shape(x)[2:]))


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class BeamSearch(Configured, keras_hub.samplers.Sampler):
    """Search for the translations with the highest length-normalised log-probability.

    Use it as `translator.compile(sampler=BeamSearch(num_beams=5))`, or through
    `Translator.translate`. With one beam it is greedy search.

        score(y) = log p(y_1..y_n | x) / ((5 + n) / 6)^α + β Σ_j log(min(Σ_i α_ij, 1))

    where n includes the end token, which belongs to y unless y is cut at the maximum length. α_ij is the attention of
    position i to source position j, and counts as far as a hypothesis has come. A finished hypothesis keeps its score
    and its place until `num_beams` others beat it. With as many beams as there are hypotheses, the search is
    exhaustive. It ends when all hypotheses kept are finished, or when no other can still beat those asked for: an
    unfinished one's log-probability only falls, so its score will never be above that with the longest length and
    complete coverage.

    Args:
        num_beams: number of hypotheses kept; 1 is greedy search.
        length_penalty: α; 0 compares plain log-probabilities, larger values favour longer translations.
        coverage_penalty: β; 0 for none, larger values favour translations of all source words.
        min_length: minimum tokens of a translation, without its end.
        no_repeat_ngram: n, of which no translation has the same n-gram of tokens twice; 0 allows all.

    What `min_length`, `no_repeat_ngram` and the processors of a search rule out is
    impossible; the probabilities of the rest stay those of the model.

    State: all in the loop's variables; the state of the model's steps, attention included, is reordered with the beams.

    Raises:
        ValueError: fewer than one beam; a negative number.

    Example:
        >>> translator.compile(sampler=BeamSearch(num_beams=4, length_penalty=0.6))
        >>> translator.generate(["Guten Tag"])

    Source: Hiemsch, section 4 (beam search is mentioned but not used); the length penalty is mentioned by Zeng, section
    3.1; both penalties have the form of Wu et al. 2016, equation 14.
    """

    def __init__(
        self,
        num_beams: int = 5,
        length_penalty: float = 0.0,
        coverage_penalty: float = 0.0,
        min_length: int = 0,
        no_repeat_ngram: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(num_beams, int) or num_beams < 1:
            raise ValueError(f"BeamSearch: `num_beams` must be a positive integer. Received: {num_beams!r}.")
        for name, value in (("length_penalty", length_penalty), ("coverage_penalty", coverage_penalty)):
            if not isinstance(value, numbers.Real) or value < 0:
                raise ValueError(f"BeamSearch: `{name}` must be a number of at least 0. Received: {value!r}.")
        for name, value in (("min_length", min_length), ("no_repeat_ngram", no_repeat_ngram)):
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"BeamSearch: `{name}` must be an integer of at least 0. Received: {value!r}.")
        self.num_beams = num_beams
        self.length_penalty = float(length_penalty)
        self.coverage_penalty = float(coverage_penalty)
        self.min_length = min_length
        self.no_repeat_ngram = no_repeat_ngram

    @property
    def rows(self) -> int:
        """Number of hypotheses of a sentence that a step computes."""
        return self.num_beams

    def __call__(
        self,
        next: Any,
        prompt: Tensor,
        cache: TensorTree = None,
        index: int = 0,
        mask: Tensor = None,
        stop_token_ids: Any = None,
        model: Any = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return the best token ids `(batch, length)`; the call of every KerasHub sampler."""
        return self.search(next, prompt, cache, index, mask, stop_token_ids, model, n_best=1)["token_ids"][:, 0]

    def search(
        self,
        next: Callable,
        prompt: Tensor,
        cache: dict[str, TensorTree],
        index: int | Tensor = 0,
        mask: Tensor | None = None,
        stop_token_ids: Sequence[int] | None = None,
        model: keras.Model | None = None,
        trace: bool = False,
        n_best: int | None = None,
        limit: int | None = None,
        processors: Sequence[LogitsProcessor] = (),
        data: dict[str, Tensor] | None = None,
    ) -> dict[str, TensorTree]:
        """Search, and return all hypotheses, the best first.

        Args:
            next: function of token ids `(batch * beams, length)`, cache and index to logits
                `(batch * beams, vocabulary)`, hidden states (unused) and the next cache.
            prompt: token ids `(batch, length)`; those from `index` on are overwritten.
            cache: `{"memory": ..., "state": ...}`, trees of tensors `(batch, ...)`: "memory" stays
                with the sentence, "state" follows the beams. What `next` changes in a third tree, "by_sentence", which
                may be left out, stays with the sentence too. With a coverage penalty, `next` leaves it in the cache as
                "bonus" `(batch * beams,)`.
            index: first position to write.
            mask: bool, shaped like `prompt`, true where its tokens are forced.
            stop_token_ids: ids that finish a hypothesis, other than the padding id 0; None for none.
            model: model whose variables the loop reads.
            trace: whether to record the candidates of every position, twice as many as beams. What `next` leaves in
                the cache as "record", a tree of tensors `(batch * beams, ...)`, is recorded too; the cache begins
                with one like it, `(batch, ...)`.
            n_best: how many hypotheses are asked for: the search ends as soon as these are certain, and what comes
                after them may be unfinished. None for all.
            limit: maximum tokens of a translation, if `prompt` has not room for as many.
            processors: what rules out tokens, beside `min_length` and `no_repeat_ngram`.
            data: what some subclasses choose tokens by, tensors `(batch, ...)`.

        Returns:
            a dict: "token_ids" `(batch, beams, length)`, "scores" and "log_probs" `(batch, beams)`, and "state", the
            last state, with `batch * beams` rows in the same order. A place without a hypothesis has a log-probability
            below `IMPOSSIBLE / 2`. "certain" `(batch,)` says where more room would not have changed what was asked for.

            With `trace` also "trace", a dict of "token_ids", "parents", "log_probs" and "scores"
            `(batch, length, candidates)`, the best candidates of each position first. The first `beams` of them were
            kept: they are the parents of the next position's, by their place. A finished one continues with token 0.
            Its "record" `(batch, length, beams, ...)` belongs to the parents. A position that the search does not
            reach has log-probabilities below `IMPOSSIBLE / 2`.
        """
        beams = self.rows
        batch, length = ops.shape(prompt)[0], ops.shape(prompt)[1]
        index = ops.cast(index, "int32")
        start = index
        processors = self.all_processors(start, (limit or length) - 1, stop_token_ids, processors)
        tokens, forced, memory, state, log_probs = self._begin(prompt, mask, cache)
        by_sentence = cache.get("by_sentence", {})
        finished = ops.zeros((batch, beams), dtype="bool")
        lengths = ops.zeros((batch, beams), dtype="float32")
        # What coverage adds to the scores.
        bonus = {"bonus": ops.zeros((batch, beams), dtype="float32")} if self.coverage_penalty else {}
        considered = 2 * beams if trace else beams
        traced: dict[str, TensorTree] = {}
        if trace:
            shape = (batch, length, considered)
            traced = {name: ops.zeros(shape, dtype="int32") for name in ("token_ids", "parents")}
            traced |= {name: ops.full(shape, IMPOSSIBLE, dtype="float32") for name in ("log_probs", "scores")}
            traced["record"] = tree.map_structure(
                lambda x: ops.zeros((batch, length, beams, *ops.shape(x)[1:]), dtype=x.dtype), cache["record"]
            )

        def folded(x):
            return ops.reshape(x, (batch, beams, *ops.shape(x)[1:]))

        def improvable(log_probs, finished, lengths, bonus):
            """Whether a sentence has a hypothesis that may become one of those that are asked for."""
            running = ops.logical_and(ops.logical_not(finished), log_probs > IMPOSSIBLE / 2)
            if n_best is not None and n_best < beams:
                # Hypotheses are in the order of their scores. Coverage may yet become complete.
                certain = ops.where(
                    ops.all(finished[:, :n_best], axis=1),
                    self.scored(log_probs, lengths, bonus)[:, n_best - 1],
                    float("-inf"),
                )
                longest = ops.cast((limit or length) - start, "float32")
                running = ops.logical_and(running, self.scored(log_probs, longest, {}) > certain[:, None])
            return ops.any(running, axis=1)

        def unfinished(tokens, state, by_sentence, index, log_probs, finished, lengths, bonus, traced):
            return ops.any(improvable(log_probs, finished, lengths, bonus))

        def body(tokens, state, by_sentence, index, log_probs, finished, lengths, bonus, traced):
            cache = {"memory": memory, "state": state, "by_sentence": by_sentence}
            logits, _, new = next(tokens, cache, index)
            new_lengths = lengths + ops.cast(ops.logical_not(finished), "float32")
            if self.coverage_penalty:
                bonus = {"bonus": ops.where(finished, bonus["bonus"], folded(new["bonus"]))}
            step = Step(
                logits=folded(logits),
                tokens=folded(tokens),
                forced=folded(forced[:, index]),
                finished=finished,
                log_probs=log_probs,
                lengths=new_lengths,
                bonus=bonus,
                start=start,
                index=index,
                processors=processors,
                stop_token_ids=stop_token_ids,
                data=data or {},
            )
            found = self.best_candidates(step, considered)
            parents, token, log_probs = (found[name][:, :beams] for name in ("parents", "token_ids", "log_probs"))
            if trace:
                found["record"] = tree.map_structure(folded, new["record"])
                traced = tree.map_structure(
                    lambda all, one: ops.slice_update(all, (0, index, *[0] * (len(one.shape) - 1)), one[:, None]),
                    traced,
                    found,
                )
            rows = ops.reshape(ops.arange(batch, dtype="int32")[:, None] * beams + parents, (-1,))

            def follow(x):
                # A single beam needs no reordering.
                return x if beams == 1 else ops.take(x, rows, axis=0)

            def follow_beams(x):
                return folded(follow(flat(x)))

            tokens = follow(tokens)
            state = tree.map_structure(follow, new["state"])
            finished, lengths = follow_beams(finished), follow_beams(new_lengths)
            bonus = tree.map_structure(follow_beams, bonus)
            column = ops.cast(ops.reshape(token, (-1, 1)), tokens.dtype)
            tokens = ops.slice_update(tokens, (0, index), column)
            given = folded(follow(forced[:, index]))
            finished = ops.logical_or(finished, stops_at(token, stop_token_ids, given))
            return tokens, state, new.get("by_sentence", {}), index + 1, log_probs, finished, lengths, bonus, traced

        tokens, state, _, _, log_probs, finished, lengths, bonus, traced = self.run_loop(
            unfinished,
            body,
            loop_vars=(tokens, state, by_sentence, index, log_probs, finished, lengths, bonus, traced),
            maximum_iterations=length - start,
            model=model,
        )
        return {
            "token_ids": folded(tokens),
            "scores": self.scored(log_probs, ops.maximum(lengths, 1.0), bonus),
            "log_probs": log_probs,
            "certain": ops.logical_not(improvable(log_probs, finished, lengths, bonus)),
            "state": state,
            **({"trace": traced} if trace else {}),
        }

    def all_processors(
        self,
        start: Tensor,
        last: int | Tensor,
        stop_token_ids: Sequence[int] | None,
        further: Sequence[LogitsProcessor],
    ) -> list[LogitsProcessor]:
        """Return what rules out tokens between two positions: that of the settings, and what a search is given."""
        own: list[LogitsProcessor] = []
        if self.min_length and stop_token_ids:
            own.append(MinLength(self.min_length, stop_token_ids, start))
        if self.no_repeat_ngram:
            own.append(NoRepeatedNgrams(self.no_repeat_ngram, start))
        given = (dataclasses.replace(one, last=last) if isinstance(one, ForbiddenWords) else one for one in further)
        return [*own, *given]

    def scored(self, log_probs: Tensor, lengths: Tensor, bonus: dict[str, Tensor]) -> Tensor:
        """Return the scores of log-probabilities; `bonus`, if there is one, has what coverage adds to them."""
        scores = log_probs / length_penalty(lengths, self.length_penalty)
        return scores + bonus["bonus"] if bonus else scores

    def best_candidates(self, step: Step, count: int) -> dict[str, Tensor]:
        """Return the best continuations of the hypotheses, the best first; subclasses choose by something else.

        Args:
            step: the hypotheses.
            count: how many continuations, at least as many as hypotheses; those that come first are kept.

        Returns:
            a dict of "token_ids", "parents", "log_probs" and "scores", `(batch, count)`.
        """
        beams, vocabulary = ops.shape(step.log_probs)[1], ops.shape(step.logits)[-1]
        # The best candidates of a sentence are among the best of each of its beams.
        width = min(count, vocabulary) if isinstance(vocabulary, int) else count
        given, forced, frozen = flat(step.given()), flat(step.forced), flat(step.finished)
        steps, chosen = self.best_of_step(flat(step.logits), given, forced, width, frozen, step.process())
        steps = ops.reshape(steps, (-1, beams, width))
        chosen = ops.reshape(chosen, (-1, beams * width))
        candidates = ops.maximum(step.log_probs[..., None] + steps, IMPOSSIBLE)
        scores = self.scored(candidates, *step.of_candidates())
        scores, best = ops.top_k(ops.reshape(scores, (-1, beams * width)), k=min(count, beams * width))
        best = ops.cast(best, "int32")
        log_probs = ops.take_along_axis(ops.reshape(candidates, (-1, beams * width)), best, axis=1)
        token = ops.take_along_axis(chosen, best, axis=1)
        return {"token_ids": token, "parents": best // width, "log_probs": log_probs, "scores": scores}

    def run_loop(
        self,
        cond: Callable,
        body: Callable,
        model: keras.Model | None = None,
        loop_vars: Sequence[TensorTree] | None = None,
        maximum_iterations: int | Tensor | None = None,
    ) -> Sequence[TensorTree]:
        """Run a loop as KerasHub does, which under JAX gives it the variables of the sampler and the model as values.

        Without variables that change, the loop reads the model's where they are, in the scope around it.
        """
        if self.variables:
            return super().run_loop(cond, body, model, loop_vars, maximum_iterations)
        return ops.while_loop(cond, body, loop_vars, maximum_iterations)

    def _begin(self, prompt, mask, cache):
        """Return tokens, where they are forced, memory and state, with a row for each beam; and log-probabilities.

        The beams of a sentence begin alike.
        """
        beams = self.rows
        forced = ops.zeros_like(prompt, dtype="bool") if mask is None else ops.cast(mask, "bool")
        rows = tree.map_structure(
            lambda x: ops.repeat(x, beams, axis=0), (prompt, forced, cache["memory"], cache["state"])
        )
        first_row = ops.convert_to_tensor([self.first_log_probs()], dtype="float32")
        log_probs = ops.broadcast_to(first_row, (ops.shape(prompt)[0], beams))
        return *rows, log_probs

    def first_log_probs(self) -> list[float]:
        """Return those of a sentence's hypotheses before the first position: one is possible, as they are alike."""
        return [0.0] + [IMPOSSIBLE] * (self.rows - 1)

    def best_of_step(
        self,
        logits: Tensor,
        given: Tensor,
        forced: Tensor,
        width: int,
        frozen: Tensor | None = None,
        processed: Callable[[Tensor], Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and ids `(rows, width)` of the best next tokens, the best first.

        They have the largest logits, so of all others only their sum is needed. Where forced, all tokens but the given
        one are impossible; where frozen, all but padding, which costs nothing. `processed` makes others impossible.
        """
        logits = ops.cast(logits, "float32") / self.temperature
        normalizer = ops.logsumexp(logits, axis=-1, keepdims=True)
        steps, ids = top_k(logits if processed is None else processed(logits), width)
        steps, ids = steps - normalizer, ops.cast(ids, "int32")
        token, alone = ops.cast(given, "int32")[:, None], forced[:, None]
        cost = ops.take_along_axis(logits, token, axis=1) - normalizer
        if frozen is not None:
            token = ops.where(frozen[:, None], 0, token)
            cost = ops.where(frozen[:, None], 0.0, cost)
            alone = ops.logical_or(alone, frozen[:, None])
        # The only token that is possible, then the others in turn.
        places = ops.arange(width, dtype="int32")[None]
        others = places - ops.cast(places <= token, "int32")
        steps = ops.where(alone, ops.where(places == 0, cost, IMPOSSIBLE), steps)
        return steps, ops.where(alone, ops.where(places == 0, token, others), ids)

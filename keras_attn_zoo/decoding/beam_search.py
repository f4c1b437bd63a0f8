"""Beam search over the step contract: frozen finished hypotheses, length penalty, n-best, attention."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import keras_hub
from keras import ops, tree

from keras_attn_zoo.kernels import top_k
from keras_attn_zoo.support.types import Config, Tensor, TensorTree

# The log-probability of the impossible; finite, so that sums and quotients are never NaN.
IMPOSSIBLE = -1e9


def length_penalty(length: float | Tensor, alpha: float) -> float | Tensor:
    """Return ((5 + length) / 6) ** alpha, the divisor of a log-probability; 1 for `alpha=0`.

    Example:
        >>> length_penalty(7.0, 1.0)
        2.0
    """
    return ((5.0 + length) / 6.0) ** alpha


def stops_at(token_ids: Tensor, stop_token_ids: Sequence[int] | None, given: Tensor) -> Tensor:
    """Return where tokens are stop tokens: not where they are given, as a forced one belongs to the beginning."""
    stops = ops.zeros_like(token_ids, dtype="bool")
    for stop in stop_token_ids or ():
        stops = ops.logical_or(stops, token_ids == stop)
    return ops.logical_and(stops, ops.logical_not(given))


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class BeamSearch(keras_hub.samplers.Sampler):
    """Search for the translations with the highest length-normalised log-probability.

    Use it as `translator.compile(sampler=BeamSearch(num_beams=5))`, or through
    `Translator.translate`. With one beam it is greedy search.

        score(y) = log p(y_1..y_n | x) / ((5 + n) / 6)^α

    where n includes the end token, which belongs to y unless y is cut at the
    maximum length. A finished hypothesis keeps its score and its place until
    `num_beams` others beat it. With as many beams as there are hypotheses, the
    search is exhaustive. It ends when all hypotheses kept are finished, or when no
    other can still beat those asked for: an unfinished one's log-probability only
    falls, so its score will never be above that with the longest length.

    Args:
        num_beams: number of hypotheses kept; 1 is greedy search.
        length_penalty: α; 0 compares plain log-probabilities, larger values favour longer translations.

    State: all in the loop's variables; the state of the model's steps, attention
    included, is reordered with the beams.

    Raises:
        ValueError: fewer than one beam, or a negative α.

    Example:
        >>> translator.compile(sampler=BeamSearch(num_beams=4, length_penalty=0.6))
        >>> translator.generate(["Guten Tag"])

    Source: Hiemsch, section 4 (beam search is mentioned but not used); the length
    penalty is mentioned by Zeng, section 3.1, and has the form of Wu et al. 2016.
    """

    def __init__(self, num_beams: int = 5, length_penalty: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(num_beams, int) or num_beams < 1:
            raise ValueError(f"BeamSearch: `num_beams` must be a positive integer. Received: {num_beams}.")
        if length_penalty < 0:
            raise ValueError(f"BeamSearch: `length_penalty` must not be negative. Received: {length_penalty}.")
        self.num_beams = num_beams
        self.length_penalty = float(length_penalty)

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
    ) -> dict[str, TensorTree]:
        """Search, and return all hypotheses, the best first.

        Args:
            next: function of token ids `(batch * beams, length)`, cache and index to logits
                `(batch * beams, vocabulary)`, hidden states (unused) and the next cache.
            prompt: token ids `(batch, length)`; those from `index` on are overwritten.
            cache: `{"memory": ..., "state": ...}`, trees of tensors `(batch, ...)`: "memory" stays
                with the sentence, "state" follows the beams. What `next` changes in a third tree, "by_sentence", which
                may be left out, stays with the sentence too.
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

        Returns:
            a dict: "token_ids" `(batch, beams, length)`, "scores" and "log_probs" `(batch, beams)`, and
            "state", the last state, with `batch * beams` rows in the same order. A place without a
            hypothesis has a log-probability below `IMPOSSIBLE / 2`. "certain" `(batch,)` says where more room would
            not have changed what was asked for.

            With `trace` also "trace", a dict of "token_ids", "parents", "log_probs" and "scores"
            `(batch, length, candidates)`, the best candidates of each position first. The first `beams` of them were
            kept: they are the parents of the next position's, by their place. A finished one continues with token 0.
            Its "record" `(batch, length, beams, ...)` belongs to the parents. A position that the search does not
            reach has log-probabilities below `IMPOSSIBLE / 2`.
        """
        beams = self.num_beams
        batch, length = ops.shape(prompt)[0], ops.shape(prompt)[1]
        index = ops.cast(index, "int32")
        start = index
        tokens, forced, memory, state, log_probs = self._begin(prompt, mask, cache)
        by_sentence = cache.get("by_sentence", {})
        finished = ops.zeros((batch, beams), dtype="bool")
        lengths = ops.zeros((batch, beams), dtype="float32")
        considered = 2 * beams if trace else beams
        traced: dict[str, TensorTree] = {}
        if trace:
            shape = (batch, length, considered)
            traced = {name: ops.zeros(shape, dtype="int32") for name in ("token_ids", "parents")}
            traced |= {name: ops.full(shape, IMPOSSIBLE, dtype="float32") for name in ("log_probs", "scores")}
            traced["record"] = tree.map_structure(
                lambda x: ops.zeros((batch, length, beams, *ops.shape(x)[1:]), dtype=x.dtype), cache["record"]
            )

        def scored(log_probs, lengths):
            return log_probs / length_penalty(lengths, self.length_penalty)

        def improvable(log_probs, finished, lengths):
            """Whether a sentence has a hypothesis that may become one of those that are asked for."""
            running = ops.logical_and(ops.logical_not(finished), log_probs > IMPOSSIBLE / 2)
            if n_best is not None and n_best < beams:
                # Hypotheses are in the order of their scores.
                certain = ops.where(
                    ops.all(finished[:, :n_best], axis=1), scored(log_probs, lengths)[:, n_best - 1], float("-inf")
                )
                longest = ops.cast((limit or length) - start, "float32")
                running = ops.logical_and(running, scored(log_probs, longest) > certain[:, None])
            return ops.any(running, axis=1)

        def unfinished(tokens, state, by_sentence, index, log_probs, finished, lengths, traced):
            return ops.any(improvable(log_probs, finished, lengths))

        def body(tokens, state, by_sentence, index, log_probs, finished, lengths, traced):
            cache = {"memory": memory, "state": state, "by_sentence": by_sentence}
            logits, _, new = next(tokens, cache, index)
            vocabulary = ops.shape(logits)[-1]
            # The best candidates of a sentence are among the best of each of its beams.
            width = min(considered, vocabulary) if isinstance(vocabulary, int) else considered
            frozen = ops.reshape(finished, (-1,))
            steps, chosen = self.best_of_step(logits, tokens[:, index], forced[:, index], width, frozen)
            steps = ops.reshape(steps, (-1, beams, width))
            chosen = ops.reshape(chosen, (-1, beams * width))

            candidates = ops.maximum(log_probs[..., None] + steps, IMPOSSIBLE)
            new_lengths = lengths + ops.cast(ops.logical_not(finished), "float32")
            scores = scored(candidates, new_lengths[..., None])
            scores, best = ops.top_k(ops.reshape(scores, (-1, beams * width)), k=min(considered, beams * width))
            best = ops.cast(best, "int32")
            parents = best // width
            token = ops.take_along_axis(chosen, best, axis=1)
            log_probs = ops.take_along_axis(ops.reshape(candidates, (-1, beams * width)), best, axis=1)
            if trace:
                found = {"token_ids": token, "parents": parents, "log_probs": log_probs, "scores": scores}
                found["record"] = tree.map_structure(
                    lambda x: ops.reshape(x, (batch, beams, *ops.shape(x)[1:])), new["record"]
                )
                traced = tree.map_structure(
                    lambda all, one: ops.slice_update(all, (0, index, *[0] * (len(one.shape) - 1)), one[:, None]),
                    traced,
                    found,
                )
            parents, token, log_probs = (x[:, :beams] for x in (parents, token, log_probs))

            rows = ops.reshape(ops.arange(batch, dtype="int32")[:, None] * beams + parents, (-1,))

            def follow(x):
                # A single beam needs no reordering.
                return x if beams == 1 else ops.take(x, rows, axis=0)

            tokens = follow(tokens)
            state = tree.map_structure(follow, new["state"])
            finished = ops.reshape(follow(ops.reshape(finished, (-1,))), (batch, beams))
            lengths = ops.reshape(follow(ops.reshape(new_lengths, (-1,))), (batch, beams))
            column = ops.cast(ops.reshape(token, (-1, 1)), tokens.dtype)
            tokens = ops.slice_update(tokens, (0, index), column)
            given = ops.reshape(follow(forced[:, index]), (batch, beams))
            finished = ops.logical_or(finished, stops_at(token, stop_token_ids, given))
            return tokens, state, new.get("by_sentence", {}), index + 1, log_probs, finished, lengths, traced

        tokens, state, _, _, log_probs, finished, lengths, traced = self.run_loop(
            unfinished,
            body,
            loop_vars=(tokens, state, by_sentence, index, log_probs, finished, lengths, traced),
            maximum_iterations=length - start,
            model=model,
        )
        return {
            "token_ids": ops.reshape(tokens, (batch, beams, length)),
            "scores": scored(log_probs, ops.maximum(lengths, 1.0)),
            "log_probs": log_probs,
            "certain": ops.logical_not(improvable(log_probs, finished, lengths)),
            "state": state,
            **({"trace": traced} if trace else {}),
        }

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

        The beams of a sentence begin alike: all but the first are impossible.
        """
        beams = self.num_beams
        forced = ops.zeros_like(prompt, dtype="bool") if mask is None else ops.cast(mask, "bool")
        rows = tree.map_structure(
            lambda x: ops.repeat(x, beams, axis=0), (prompt, forced, cache["memory"], cache["state"])
        )
        first_row = ops.concatenate([ops.zeros((1, 1)), ops.full((1, beams - 1), IMPOSSIBLE)], axis=1)
        log_probs = ops.cast(ops.broadcast_to(first_row, (ops.shape(prompt)[0], beams)), "float32")
        return *rows, log_probs

    def best_of_step(
        self, logits: Tensor, given: Tensor, forced: Tensor, width: int, frozen: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and ids `(rows, width)` of the best next tokens, the best first.

        They have the largest logits, so of all others only their sum is needed. Where forced, all tokens but the given
        one are impossible; where frozen, all but padding, which costs nothing.
        """
        logits = ops.cast(logits, "float32") / self.temperature
        normalizer = ops.logsumexp(logits, axis=-1, keepdims=True)
        steps, ids = top_k(logits, width)
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

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {**super().get_config(), "num_beams": self.num_beams, "length_penalty": self.length_penalty}

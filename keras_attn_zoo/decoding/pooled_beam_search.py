"""Beam search as Transformers does it: finished hypotheses leave the beam for a pool."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops, tree

from keras_attn_zoo.decoding.beam_search import BeamSearch, flat, stops_at
from keras_attn_zoo.decoding.logits_processors import IMPOSSIBLE, LogitsProcessor, composed
from keras_attn_zoo.support.types import Tensor, TensorTree


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class PooledBeamSearch(BeamSearch):
    """Beam search whose beams are all unfinished: what is finished goes to a pool of the best.

    Use it to get the translations of Transformers' `generate` from a model that was opened from there. It looks at more
    hypotheses than `BeamSearch`, in which a finished hypothesis keeps a beam, and needs more steps.

        score(y) = log p(y_1..y_n | x) / n^α

    where n includes the end token. At each position the 2k best continuations of k beams are found. Those of the best k
    that end go to the pool, which keeps the k with the highest scores; the best k that do not end are the next beams. A
    sentence is done when no beam, if it ended now, would have a higher score than the worst of a full pool. With one
    beam, it is greedy search.

    Args:
        num_beams: k, the number of beams and of hypotheses in the pool.
        length_penalty: α, 1 in Transformers unless its generation_config.json says otherwise.
        early_stopping: True, and a sentence is done as soon as its pool is full; "never", and it is done when no beam,
            however long it becomes, can have a higher score than the worst of a full pool.
        forced_end: the id of the end token, if a translation of the maximum length ends with it, at no cost to its
            score; with None, it is cut.
        renormalize: whether probabilities sum to 1 without the tokens that are ruled out, such as the body's
            `suppressed_tokens`, or only with them.
        **kwargs: `min_length`, `no_repeat_ngram` and `temperature`, see `BeamSearch`.

    State: all in the loop's variables, as with `BeamSearch`; of the state of the
    model's steps, the pool keeps only the attention.

    Raises:
        ValueError: see `BeamSearch`; a coverage penalty; another `early_stopping`; an id that is none.

    Example:
        >>> translator.compile(sampler=PooledBeamSearch(num_beams=6, length_penalty=1.0))
    """

    def __init__(
        self,
        num_beams: int = 5,
        length_penalty: float = 0.0,
        early_stopping: bool | str = False,
        forced_end: int | None = None,
        renormalize: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_beams, length_penalty, **kwargs)
        if coverage := self.coverage_penalty:
            raise ValueError(
                f"PooledBeamSearch: `coverage_penalty` must be 0; a BeamSearch has it. Received: {coverage}."
            )
        if not isinstance(early_stopping, bool) and early_stopping != "never":
            raise ValueError(
                f"PooledBeamSearch: `early_stopping` must be True, False or 'never'. Received: {early_stopping!r}."
            )
        if forced_end is not None and (type(forced_end) is not int or forced_end < 0):
            raise ValueError(f"PooledBeamSearch: `forced_end` must be an id or None. Received: {forced_end!r}.")
        self.early_stopping = early_stopping
        self.forced_end = forced_end
        self.renormalize = bool(renormalize)

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
        """Return all hypotheses, the best first; see `BeamSearch.search`.

        It records no trace, and ignores `n_best` and `data`.
        """
        if trace:
            raise ValueError("PooledBeamSearch records no trace: search with a BeamSearch.")
        beams = self.num_beams
        batch, length = ops.shape(prompt)[0], ops.shape(prompt)[1]
        start = index = ops.cast(index, "int32")
        last = (limit or length) - 1
        processors = self.all_processors(start, last, stop_token_ids, processors)

        def folded(x):
            return ops.reshape(x, (batch, -1, *ops.shape(x)[1:]))

        def gather(x, places):
            """Rows of `(batch, rows, ...)` at places `(batch, chosen)`."""
            count = ops.shape(x)[1]
            rows = ops.arange(batch, dtype="int32")[:, None] * count + places
            return folded(ops.take(flat(x), ops.reshape(rows, (-1,)), axis=0))

        def scored(log_probs, index):
            tokens = ops.cast(index - start + 1, "float32")
            return log_probs / tokens**self.length_penalty

        tokens, forced, memory, state, running = self._begin(prompt, mask, cache)
        nothing = ops.full_like(running, IMPOSSIBLE)
        pool = {"tokens": folded(tokens), "scores": nothing, "log_probs": nothing, "kept": _kept(state, folded)}
        improvable = ops.ones((batch,), dtype="bool")

        def unfinished(tokens, state, index, running, pool, improvable):
            return ops.any(improvable)

        def body(tokens, state, index, running, pool, improvable):
            logits, _, new = next(tokens, {"memory": memory, "state": state}, index)
            if (process := composed(processors, tokens, index)) is not None:
                logits = ops.where(forced[:, index][:, None], logits, process(ops.cast(logits, "float32")))
            if self.forced_end is not None:
                only_end = ops.where(ops.arange(ops.shape(logits)[-1]) == self.forced_end, 0.0, IMPOSSIBLE)
                now = ops.logical_and(index == last, ops.logical_not(forced[:, index]))
                logits = ops.where(now[:, None], only_end, ops.cast(logits, "float32"))
            vocabulary = ops.shape(logits)[-1]
            width = min(2 * beams, vocabulary) if isinstance(vocabulary, int) else 2 * beams
            steps, chosen = self.best_of_step(logits, tokens[:, index], forced[:, index], width)
            # Logits are logarithms of probabilities, without those of the tokens that are ruled out.
            possible = ops.logsumexp(ops.cast(logits, "float32"), axis=-1, keepdims=True)
            if not self.renormalize:
                steps = steps + possible
            steps = ops.where(possible > IMPOSSIBLE / 2, steps, IMPOSSIBLE)
            candidates = ops.maximum(running[..., None] + ops.reshape(steps, (batch, beams, width)), IMPOSSIBLE)
            candidates, best = ops.top_k(ops.reshape(candidates, (batch, -1)), k=2 * beams)
            best = ops.cast(best, "int32")
            parents = best // width
            token = ops.take_along_axis(ops.reshape(chosen, (batch, -1)), best, axis=1)

            ends = stops_at(token, stop_token_ids, gather(folded(forced[:, index]), parents))
            ends = ops.logical_or(ends, index == last)

            rows = gather(folded(tokens), parents)
            column = ops.cast(token, rows.dtype)[..., None]
            rows = ops.slice_update(rows, (0, 0, index), column)

            # The candidates beyond the best `beams` are there for the next step alone.
            enters = ops.logical_and(ends, ops.arange(2 * beams) < beams)
            enters = ops.logical_and(ops.logical_and(enters, improvable[:, None]), candidates > IMPOSSIBLE / 2)
            entering = {
                "tokens": rows,
                "scores": ops.where(enters, scored(candidates, index), IMPOSSIBLE),
                "log_probs": ops.where(enters, candidates, IMPOSSIBLE),
                "kept": _kept(new["state"], lambda x: gather(folded(x), parents)),
            }
            merged = tree.map_structure(lambda x, y: ops.concatenate([x, y], axis=1), pool, entering)
            _, places = ops.top_k(merged["scores"], k=beams)
            pool = tree.map_structure(lambda x: gather(x, ops.cast(places, "int32")), merged)

            running, places = ops.top_k(ops.where(ends, IMPOSSIBLE, candidates), k=beams)
            places = ops.cast(places, "int32")
            parents = ops.take_along_axis(parents, places, axis=1)
            state = tree.map_structure(lambda x: flat(gather(folded(x), parents)), new["state"])
            tokens = flat(gather(rows, places))
            worst = pool["scores"][:, -1]
            # Where it never stops early, the best that a beam may still become: as long as possible, at no cost.
            longest = last if self.early_stopping == "never" and self.length_penalty > 0 else index
            better = scored(running[:, 0], longest) > worst
            better = ops.logical_and(better, running[:, 0] > IMPOSSIBLE / 2)
            if self.early_stopping is True or beams == 1:
                better = ops.logical_and(better, worst < IMPOSSIBLE / 2)
            return tokens, state, index + 1, running, pool, ops.logical_and(improvable, better)

        _, state, _, _, pool, improvable = self.run_loop(
            unfinished,
            body,
            loop_vars=(tokens, state, index, running, pool, improvable),
            maximum_iterations=length - start,
            model=model,
        )
        return {
            "token_ids": pool["tokens"],
            "scores": pool["scores"],
            "log_probs": pool["log_probs"],
            "certain": ops.logical_not(improvable),
            "state": {**state, **tree.map_structure(flat, pool["kept"])},
        }


def _kept(state, function):
    """What the pool keeps of the state of a step: all but the model's own, which only a running beam needs."""
    return tree.map_structure(function, {name: value for name, value in state.items() if name != "model"})

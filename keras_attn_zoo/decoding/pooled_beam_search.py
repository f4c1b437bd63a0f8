"""Beam search as Transformers does it: finished hypotheses leave the beam for a pool."""

from collections.abc import Callable, Sequence

import keras
from keras import ops, tree

from keras_attn_zoo.decoding.beam_search import IMPOSSIBLE, BeamSearch
from keras_attn_zoo.types import Tensor, TensorTree


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class PooledBeamSearch(BeamSearch):
    """Beam search whose beams are all unfinished: what is finished goes to a pool of the best.

    Use it to get the translations of Transformers' `generate` from a model that was
    opened from there. It looks at more hypotheses than `BeamSearch`, in which a
    finished hypothesis keeps a beam, and needs more steps.

        score(y) = log p(y_1..y_n | x) / n^α

    where n includes the end token. At each position the 2k best continuations of k
    beams are found. Those of the best k that end go to the pool, which keeps the k
    with the highest scores; the best k that do not end are the next beams. A
    sentence is done when no beam, if it ended now, would have a higher score than
    the worst of a full pool.

    Args:
        num_beams: k, the number of beams and of hypotheses in the pool.
        length_penalty: α, 1 in Transformers unless its generation_config.json says otherwise.

    State: all in the loop's variables, as with `BeamSearch`; of the state of the
    model's steps, the pool keeps only the attention.

    Differences from Transformers: there, a translation may be forced to end at the
    maximum length, at no cost to its score; here, it is cut.

    Raises:
        ValueError: fewer than one beam, or a negative α.

    Example:
        >>> translator.compile(sampler=PooledBeamSearch(num_beams=6, length_penalty=1.0))
    """

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
        """Return all hypotheses, the best first; see `BeamSearch.search`.

        It records no trace, ignores `n_best` and `limit`, and does not say what is certain.
        """
        if trace:
            raise ValueError("PooledBeamSearch records no trace: search with a BeamSearch.")
        beams = self.num_beams
        batch, length = ops.shape(prompt)[0], ops.shape(prompt)[1]
        start = index = ops.cast(index, "int32")

        def folded(x):
            return ops.reshape(x, (batch, -1, *ops.shape(x)[1:]))

        def flat(x):
            return ops.reshape(x, (-1, *ops.shape(x)[2:]))

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
            vocabulary = ops.shape(logits)[-1]
            width = min(2 * beams, vocabulary) if isinstance(vocabulary, int) else 2 * beams
            steps, chosen = self.best_of_step(logits, tokens[:, index], forced[:, index], width)
            candidates = ops.maximum(running[..., None] + ops.reshape(steps, (batch, beams, width)), IMPOSSIBLE)
            candidates, best = ops.top_k(ops.reshape(candidates, (batch, -1)), k=2 * beams)
            best = ops.cast(best, "int32")
            parents = best // width
            token = ops.take_along_axis(ops.reshape(chosen, (batch, -1)), best, axis=1)

            ends = ops.zeros_like(token, dtype="bool")
            for stop in stop_token_ids or ():
                ends = ops.logical_or(ends, token == stop)
            # A forced stop token belongs to the given beginning.
            given = gather(folded(forced[:, index]), parents)
            ends = ops.logical_or(ops.logical_and(ends, ops.logical_not(given)), index == length - 1)

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
            better = scored(running[:, 0], index) > worst
            better = ops.logical_and(better, running[:, 0] > IMPOSSIBLE / 2)
            return tokens, state, index + 1, running, pool, ops.logical_and(improvable, better)

        _, state, _, _, pool, _ = self.run_loop(
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
            "state": {**state, **tree.map_structure(flat, pool["kept"])},
        }


def _kept(state, function):
    """What the pool keeps of the state of a step: all but the model's own, which only a running beam needs."""
    return tree.map_structure(function, {name: value for name, value in state.items() if name != "model"})

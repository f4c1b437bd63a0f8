"""Diverse beam search: groups of beams, of which each avoids the tokens of those before it."""

from typing import Any

import keras
import numpy as np
from keras import ops, tree

from keras_attn_zoo.decoding.beam_search import BeamSearch, Step, flat
from keras_attn_zoo.decoding.logits_processors import IMPOSSIBLE
from keras_attn_zoo.support.types import Tensor, TensorTree


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class DiverseBeamSearch(BeamSearch):
    """Beam search for translations that differ: groups of beams take different tokens at the same position.

    Use it for an n-best list with real alternatives, for example to choose from by minimum Bayes risk. At each position
    the groups follow each other, and group g takes the continuations with the highest

        log p(y_1..y_i | x) - λ · |{y_i in the groups before g}|

    with a count of the beams that have taken the token there. Each group is a beam search with `num_beams / groups`
    beams. All hypotheses are then sorted by their scores, see `BeamSearch`, and what two groups have found counts once.

    Args:
        num_beams: number of hypotheses, a multiple of `groups`.
        length_penalty: see `BeamSearch`.
        groups: number of groups, 1 for beam search.
        diversity: λ; 0 makes all groups alike.
        **kwargs: see `BeamSearch`.

    State: all in the loop's variables, as with `BeamSearch`.

    Raises:
        ValueError: `groups` does not divide `num_beams`; a negative λ; see `BeamSearch`.

    Example:
        >>> translator.compile(sampler=DiverseBeamSearch(num_beams=6, groups=3, diversity=0.5))

    Source: Vijayakumar et al. 2018, section 4, with Hamming diversity.

    Differs from the paper: λ counts at the position where a token is taken, and is no part of a hypothesis' score.
    """

    def __init__(
        self, num_beams: int = 6, length_penalty: float = 0.0, groups: int = 3, diversity: float = 0.5, **kwargs: Any
    ) -> None:
        super().__init__(num_beams, length_penalty, **kwargs)
        if not isinstance(groups, int) or groups < 1 or num_beams % groups:
            raise ValueError(f"DiverseBeamSearch: `groups` must divide num_beams={num_beams}. Received: {groups}.")
        if diversity < 0:
            raise ValueError(f"DiverseBeamSearch: `diversity` must not be negative. Received: {diversity}.")
        self.groups = groups
        self.diversity = float(diversity)

    def search(self, *args: Any, n_best: int | None = None, **kwargs: Any) -> dict[str, TensorTree]:
        """Return all hypotheses, the best first; see `BeamSearch.search`. It records no trace, and ignores `n_best`."""
        # Which ones are the best is known at the end.
        return _sorted(super().search(*args, **kwargs))

    def first_log_probs(self) -> list[float]:
        """Return those of the beams of a sentence before the first position: each group has one hypothesis."""
        size = self.num_beams // self.groups
        return super().first_log_probs()[:size] * self.groups

    def best_candidates(self, step: Step, count: int) -> dict[str, Tensor]:
        """Return the continuations that the groups take in turn; see `BeamSearch.best_candidates`."""
        size, vocabulary = self.num_beams // self.groups, ops.shape(step.logits)[-1]
        taken = ops.zeros_like(step.logits[:, 0], dtype="float32")
        found = []
        for first in range(0, self.num_beams, size):
            group = step.beams(first, size)
            alone = ops.logical_or(group.forced, group.finished)
            penalty = self.diversity * taken
            best = super().best_candidates(group.penalized(ops.repeat(penalty, size, axis=0)), size)
            parents, token = best["parents"], best["token_ids"]
            # What a group pays for a token chooses it, and is given back.
            paid = ops.take_along_axis(penalty, token, axis=1)
            alone = ops.take_along_axis(alone, parents, axis=1)
            log_probs = best["log_probs"] + ops.where(alone, 0.0, paid)
            is_new = ops.logical_not(ops.take_along_axis(group.finished, parents, axis=1))
            counts = ops.one_hot(token, vocabulary, dtype="float32") * ops.cast(is_new, "float32")[..., None]
            taken = taken + ops.sum(counts, axis=1)
            found.append({**best, "parents": parents + first, "log_probs": log_probs})
        return tree.map_structure(lambda *groups: ops.concatenate(groups, axis=1), *found)


def _sorted(found):
    """The results of a search, the best hypotheses first; of equal ones, all but the first are impossible."""
    ids = found["token_ids"]
    batch, beams = ops.shape(ids)[:2]
    equal = ops.all(ids[:, :, None] == ids[:, None], axis=-1)
    places = np.arange(beams)
    again = ops.any(ops.logical_and(equal, places[:, None] > places), axis=2)
    found |= {name: ops.where(again, IMPOSSIBLE, found[name]) for name in ("scores", "log_probs")}
    _, order = ops.top_k(found["scores"], k=beams)
    rows = ops.reshape(ops.arange(batch, dtype="int32")[:, None] * beams + ops.cast(order, "int32"), (-1,))

    def in_order(x):
        return ops.reshape(ops.take(flat(x), rows, axis=0), ops.shape(x))

    names = ("token_ids", "scores", "log_probs")
    state = tree.map_structure(lambda x: ops.take(x, rows, axis=0), found["state"])
    return {**found, **{name: in_order(found[name]) for name in names}, "state": state}

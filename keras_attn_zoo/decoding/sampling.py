"""Translations drawn from the model, by numbers that are given with each sentence."""

from collections.abc import Sequence
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_attn_zoo.decoding.beam_search import BeamSearch, Step, flat
from keras_attn_zoo.decoding.logits_processors import IMPOSSIBLE
from keras_attn_zoo.support.choices import LOWEST_TEMPERATURE
from keras_attn_zoo.support.types import Config, Tensor, TensorTree


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class Sampling(BeamSearch):
    """Draw translations from the model, token by token.

    Use it for several different translations, for back-translation, or for
    candidates to choose from by minimum Bayes risk.

        y_i ~ p(y | y_<i, x)^(1/T) / Σ_y' p(y' | y_<i, x)^(1/T)

    over the `top_k` likeliest tokens, and of these over the fewest whose probabilities sum to `top_p`. A token is drawn
    by a number u from [0, 1): it is the first at which the cumulative probability exceeds u. The numbers belong to a
    sentence: the same seed and sentence give the same translations in any batch, on any backend but for rounding.
    Scores are those of a `BeamSearch`, so that `log_prob` is the model's, whatever the temperature.

    KerasHub's `RandomSampler`, `TopKSampler` and `TopPSampler` draw alike, but from a stream of numbers that all
    sentences share, and return no scores; `like` makes a `Sampling` of one.

    Args:
        samples: number of translations of a sentence, in the order in which they are drawn.
        temperature: T; below 1 for likelier tokens.
        top_k: number of tokens to draw from; None for all.
        top_p: their probability, in (0, 1]; None for all.
        seed: a number of at least 0, with which the numbers begin.
        **kwargs: `length_penalty` and others, see `BeamSearch`.

    State: all in the loop's variables.

    Raises:
        ValueError: a number out of these bounds; see `BeamSearch`.

    Example:
        >>> translator.compile(sampler=Sampling(samples=8, top_p=0.9, seed=1))
        >>> translator.translate(["Guten Tag"], n_best=8)  # doctest: +SKIP

    Source: Fan et al. 2018, section 5 (top-k); Holtzman et al. 2020, section 3 (top-p).
    """

    def __init__(
        self,
        samples: int = 1,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(samples, temperature=temperature, **kwargs)
        if not temperature >= LOWEST_TEMPERATURE:
            raise ValueError(f"Sampling: `temperature` must be at least {LOWEST_TEMPERATURE}. Received: {temperature}.")
        if top_k is not None and (not isinstance(top_k, int) or top_k < 1):
            raise ValueError(f"Sampling: `top_k` must be a positive integer or None. Received: {top_k}.")
        if top_p is not None and not 0 < top_p <= 1:
            raise ValueError(f"Sampling: `top_p` must be above 0 and at most 1, or None. Received: {top_p}.")
        if not isinstance(seed, int) or seed < 0:
            raise ValueError(f"Sampling: `seed` must be an integer of at least 0. Received: {seed}.")
        self.top_k, self.top_p, self.seed = top_k, top_p, seed

    @classmethod
    def like(cls, sampler: keras_hub.samplers.Sampler, samples: int) -> "Sampling | None":
        """Return the one that draws like a sampler of KerasHub; None if there is none."""
        kinds = keras_hub.samplers
        if type(sampler) not in (kinds.RandomSampler, kinds.TopKSampler, kinds.TopPSampler):
            return None
        top_p = min(sampler.p, 1.0) if isinstance(sampler, kinds.TopPSampler) else None
        return cls(samples, sampler.temperature, getattr(sampler, "k", None), top_p, sampler.seed or 0)

    def numbers(self, sentences: Sequence[Sequence[int]], length: int) -> np.ndarray:
        """Return the numbers of sentences, given as ids, for translations of so many tokens.

        Returns:
            float32 `(sentences, samples, length)`, in [0, 1).

        Example:
            >>> Sampling(2, seed=1).numbers([[5, 3]], 4).shape
            (1, 2, 4)
        """
        shape = self.num_beams, length
        drawn = [np.random.default_rng([self.seed, *map(int, ids)]).random(shape, "float32") for ids in sentences]
        return np.stack(drawn)

    def search(self, *args: Any, n_best: int | None = None, **kwargs: Any) -> dict[str, TensorTree]:
        """Return all translations, in the order in which they are drawn; see `BeamSearch.search`.

        It records no trace, and ignores `n_best`. Its `data` is `{"numbers": (batch, samples, length)}`.
        """
        return super().search(*args, **kwargs)

    def first_log_probs(self) -> list[float]:
        """Return those of the samples of a sentence before the first position: all are possible."""
        return [0.0] * self.num_beams

    def best_candidates(self, step: Step, count: int) -> dict[str, Tensor]:
        """Return a token for each sample; see `BeamSearch.best_candidates`."""
        logits, process = ops.cast(flat(step.logits), "float32"), step.process()
        allowed = logits if process is None else process(logits)
        numbers = step.data["numbers"][:, :, step.index]
        token = ops.reshape(self.draw(allowed, ops.reshape(numbers, (-1,))), ops.shape(step.log_probs))
        token = ops.where(step.forced, ops.cast(step.given(), "int32"), token)
        token = ops.where(step.finished, 0, token)
        places = ops.reshape(token, (-1, 1))
        cost = ops.take_along_axis(ops.log_softmax(logits), places, axis=1)
        # Where nothing is allowed, what is drawn is not either.
        is_allowed = ops.take_along_axis(allowed, places, axis=1) > IMPOSSIBLE / 2
        is_allowed = ops.logical_or(is_allowed, ops.reshape(step.forced, (-1, 1)))
        cost = ops.reshape(ops.where(is_allowed, cost, IMPOSSIBLE), ops.shape(token))
        cost = ops.where(step.finished, 0.0, cost)
        log_probs = step.log_probs + cost
        parents = ops.broadcast_to(ops.arange(self.num_beams, dtype="int32"), ops.shape(token))
        scores = self.scored(log_probs, step.lengths, step.bonus)
        return {"token_ids": token, "parents": parents, "log_probs": log_probs, "scores": scores}

    def draw(self, logits: Tensor, numbers: Tensor) -> Tensor:
        """Return the ids `(rows,)` that numbers from [0, 1) `(rows,)` draw from logits `(rows, vocabulary)`."""
        probabilities, ids = ops.softmax(logits / self.temperature), None
        vocabulary = logits.shape[-1]
        if self.top_k is not None or self.top_p is not None:
            probabilities, ids = ops.top_k(probabilities, min(self.top_k or vocabulary, vocabulary))
        cumulative = ops.cumsum(probabilities, axis=-1)
        if self.top_p is not None:
            # With the token that reaches it.
            kept = cumulative - probabilities < self.top_p
            cumulative = ops.cumsum(ops.where(kept, probabilities, 0.0), axis=-1)
        bound = numbers[:, None] * cumulative[:, -1:]
        place = ops.sum(ops.cast(cumulative <= bound, "int32"), axis=-1, keepdims=True)
        place = ops.minimum(place, cumulative.shape[-1] - 1)
        found = place if ids is None else ops.take_along_axis(ops.cast(ids, "int32"), place, axis=1)
        return found[:, 0]

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        config = {name: value for name, value in super().get_config().items() if name != "num_beams"}
        own = {name: getattr(self, name) for name in ("top_k", "top_p", "seed")}
        return {**config, "samples": self.num_beams, **own}

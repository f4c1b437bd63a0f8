"""A search on ids: a sampler runs the steps of a body; what a preset keeps of it, as a dict of settings, and back."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_attn_zoo.bodies.backbone import TranslationBackbone
from keras_attn_zoo.data.shapes import grid_length, grid_rows, pad_rows
from keras_attn_zoo.decoding import (
    BeamSearch,
    DiverseBeamSearch,
    GridBeamSearch,
    PooledBeamSearch,
    Sampling,
    coverage_penalty,
)
from keras_attn_zoo.decoding.beam_search import stops_at
from keras_attn_zoo.decoding.logits_processors import LogitsProcessor
from keras_attn_zoo.support.choices import HIGHEST_PENALTY, MOST_BEAMS, MOST_TOKENS
from keras_attn_zoo.support.types import Config, Tensor

# The axis of target positions in the results of `search` and of `Translator.generate_step`.
_TARGET_AXIS = {"token_ids": 2, "attention": 1, "decoder_token_ids": 1, "decoder_padding_mask": 1}
# A logit whose probability is 0, finite in float16 too.
_SUPPRESSED = -60_000.0
# The searches whose hypotheses keep to their sentence, as `BeamSearch` has it, and all of this package.
_BEAM_SEARCHES = (BeamSearch, DiverseBeamSearch, GridBeamSearch, Sampling)
_SEARCHES = (*_BEAM_SEARCHES, PooledBeamSearch)
# Inputs of a search beside ids, which samplers choose tokens by.
_DATA = ("numbers", "phrases")
# What every search has in a preset.
_NAMES = {"beams", "length_penalty", "search_top_k"}
# What it may have besides: names, and what a preset without it has. Those that earlier versions know have none.
FURTHER_SETTINGS: Config = {"coverage_penalty": 0.0, "min_length": 0, "no_repeat_ngram": 0}
# What a `PooledBeamSearch` has besides.
_OF_POOLED = {"early_stopping", "forced_end", "renormalize"}

Found = dict[str, np.ndarray]


def search(
    model: keras.Model,
    inputs: dict[str, Tensor],
    sampler: keras_hub.samplers.Sampler,
    stop_token_ids: Sequence[int] | None,
    top_k: int | None = None,
    attention: bool = False,
    trace: bool = False,
    n_best: int | None = None,
    limit: int | None = None,
    processors: Sequence[LogitsProcessor] = (),
) -> dict[str, Tensor]:
    """Translate a batch.

    Args:
        model: a `Translator`; its body and its variables are read.
        inputs: "encoder_token_ids" and "encoder_padding_mask" `(batch, source)`; "decoder_token_ids" and
            "decoder_padding_mask" `(batch, target)`, the beginnings of the translations, with room for the rest; for
            some samplers "numbers" or "phrases", see `Sampling` and `GridBeamSearch`.
        sampler: a `BeamSearch`, or another KerasHub sampler.
        stop_token_ids: ids that end a translation; None for none.
        top_k: source positions that a latent alignment sums over; see `TranslationBackbone.start_search`.
        attention: whether to keep the scores of every step with the hypotheses; only with a `BeamSearch`.
        trace: whether to record every position's candidates, with the scores of the beams that they continue; only with
            a `BeamSearch`.
        n_best: how many hypotheses are asked for, see `BeamSearch.search`; None for all.
        limit, processors: see there too.

    Returns:
        What `BeamSearch.search` returns, except its state, and if requested "attention"
        `(batch * beams, target, heads, source)`. The "record" of a trace holds scores
        `(batch, target, beams, heads, source)`. With another sampler, "token_ids" `(batch, 1, target)`.
    """
    prompt = inputs["decoder_token_ids"]
    # Other samplers reorder the whole state.
    beams = sampler.rows if _searches_as(sampler, *_BEAM_SEARCHES) else 1
    constants, memory, state = model.backbone.start_search(
        inputs["encoder_token_ids"], inputs["encoder_padding_mask"], prompt.shape[1], top_k, beams
    )
    cache = {"memory": memory, "by_sentence": state.pop("by_sentence", {}), "state": {"model": state}}
    batch, length = ops.shape(prompt)[0], ops.shape(prompt)[1]
    heads, source = model.backbone.attention_heads, ops.shape(inputs["encoder_token_ids"])[1]
    if trace:
        cache["record"] = ops.zeros((batch, heads, source), dtype="float32")
    if attention:
        cache["state"]["attention"] = ops.zeros((batch, length, heads, source), dtype="float32")
    # Of the samplers of this package.
    beta = getattr(sampler, "coverage_penalty", 0.0)
    if beta:
        # Padding is covered from the start.
        cache["state"]["coverage"] = 1.0 - ops.cast(inputs["encoder_padding_mask"], "float32")

    def next(prompt, cache, index):
        state = cache["state"]["model"]
        if cache.get("by_sentence"):
            state = {**state, "by_sentence": cache["by_sentence"]}
        logits, scores, state = model.backbone.search_step(prompt[:, index - 1], cache["memory"], state, constants)
        logits = suppressed_logits(model.backbone, logits, getattr(sampler, "renormalize", True))
        by_sentence, state = state.pop("by_sentence", {}), {"model": state}
        if attention:
            state["attention"] = ops.slice_update(
                cache["state"]["attention"], (0, index, 0, 0), ops.cast(scores[:, None], "float32")
            )
        more = {"record": ops.cast(scores, "float32")} if trace else {}
        if beta:
            of_step = ops.mean(ops.cast(scores, "float32"), axis=1)
            state["coverage"] = cache["state"]["coverage"] + of_step
            more["bonus"] = coverage_penalty(state["coverage"], beta)
        return logits, None, {"memory": cache["memory"], "by_sentence": by_sentence, "state": state, **more}

    arguments: dict[str, Any] = {
        "next": next,
        "prompt": prompt,
        "cache": cache,
        "index": 1,
        "mask": inputs["decoder_padding_mask"],
        "stop_token_ids": stop_token_ids,
        "model": model,
    }
    if not isinstance(sampler, BeamSearch):
        return {"token_ids": sampler(**arguments)[:, None]}
    # Samplers with a search of their own need not know of these.
    if trace:
        arguments["trace"] = True
    if takes_processors(sampler):
        data = {name: inputs[name] for name in _DATA if name in inputs}
        arguments |= {"n_best": n_best, "limit": limit, "processors": processors, "data": data}
    found = sampler.search(**arguments)
    state = found.pop("state")
    return {**found, "attention": state["attention"]} if attention else found


def suppressed_logits(backbone: TranslationBackbone, logits: Tensor, renormalize: bool) -> Tensor:
    """Return the logits of a step, in which the suppressed tokens have no probability.

    The others sum to 1 without them or, if `renormalize` is false, only with them.
    """
    if not renormalize:
        logits = ops.log_softmax(ops.cast(logits, "float32"))
    if not backbone.suppressed_tokens:
        return logits
    suppressed = np.isin(np.arange(backbone.target_vocabulary_size), backbone.suppressed_tokens)
    return ops.where(suppressed, _SUPPRESSED, logits)


def retrying_at_full_length(
    run: Callable[[dict[str, np.ndarray]], Found], known_if_empty: bool = True
) -> Callable[[dict[str, np.ndarray]], Found]:
    """Return a search that first gives translations twice as much room as the sources take, instead of all.

    A step reads all the room that there is for earlier positions. Sentences whose translations are not certain in
    little room are searched once more.

    Args:
        run: function of the inputs of `search`, arrays, to its result, with a `limit`.
        known_if_empty: whether nobody asks for the translation of a source that is an end token alone.
    """

    def call(inputs):
        prompt, mask = inputs["decoder_token_ids"], inputs["decoder_padding_mask"].astype("bool")
        length = prompt.shape[1]
        given = np.flatnonzero(mask.any(axis=0)).max(initial=0)
        little = grid_length(given + 2 * inputs["encoder_token_ids"].shape[1], length)
        if little > length * 3 // 4:
            return _without_certainty(run(inputs))
        found = run({**inputs, "decoder_token_ids": prompt[:, :little], "decoder_padding_mask": mask[:, :little]})
        certain = found["certain"]
        if known_if_empty:
            certain = certain | (inputs["encoder_padding_mask"].sum(axis=1) < 2)
        found = {name: _padded(name, x, prompt) for name, x in _without_certainty(found).items()}
        again = np.flatnonzero(~certain)
        if len(again):
            # Batches are filled up with copies of a row.
            chosen, place = np.unique(_first_of_equal_rows(inputs)[again], return_inverse=True)
            rows = grid_rows(len(chosen), len(prompt))
            more = run({name: pad_rows(x[chosen], rows) for name, x in inputs.items()})
            for name, x in found.items():
                by_sentence = x.reshape(len(prompt), -1, *x.shape[1:])
                by_sentence[again] = more[name].reshape(rows, *by_sentence.shape[1:])[place]
        return found

    return call


def _without_certainty(found):
    return {name: x for name, x in found.items() if name != "certain"}


def _first_of_equal_rows(inputs):
    """For every row, the number of the first of those before it that are equal to it without a break."""
    count = len(next(iter(inputs.values())))
    equal = [(x[1:] == x[:-1]).all(axis=tuple(range(1, x.ndim))) for x in inputs.values()]
    begins = np.concatenate([[True], ~np.logical_and.reduce(equal)])
    return np.maximum.accumulate(np.where(begins, np.arange(count), 0))


def _padded(name, x, prompt):
    """An array for all positions, which may be written to: where there was no room, the prompt or zeros."""
    if (axis := _TARGET_AXIS.get(name)) is None:
        return x.copy()
    little, length = x.shape[axis], prompt.shape[1]
    if name == "decoder_token_ids":
        return np.concatenate([x, prompt[:, little:]], axis=1)
    return np.pad(x, [(0, length - little if i == axis else 0) for i in range(x.ndim)])


def searches_as_beam_search(sampler: keras_hub.samplers.Sampler) -> bool:
    """Return whether a sampler is a `BeamSearch` without a search of its own."""
    return _searches_as(sampler, BeamSearch)


def _searches_as(sampler, *classes):
    return isinstance(sampler, classes) and type(sampler).search in [one.search for one in classes]


def may_retry_at_full_length(sampler: keras_hub.samplers.Sampler) -> bool:
    """Return whether a sampler may search some sentences twice: not if it would draw other random numbers."""
    return takes_processors(sampler) and not sampler.variables


def takes_processors(sampler: keras_hub.samplers.Sampler) -> bool:
    """Return whether a sampler is one of this package, without a search of its own."""
    return _searches_as(sampler, *_SEARCHES)


def numbers_of(
    sampler: keras_hub.samplers.Sampler, sentences: Sequence[Sequence[int]], length: int
) -> dict[str, np.ndarray]:
    """Return the inputs of a search by which a `Sampling` draws translations of so many tokens; none for others."""
    return {"numbers": sampler.numbers(sentences, length)} if isinstance(sampler, Sampling) else {}


def search_key(sampler: keras_hub.samplers.Sampler, top_k: int | None) -> tuple[Hashable, ...]:
    """Return what tells the compiled function of a search from others: a sampler's settings may change at any time."""
    return sampler, repr(sampler.get_config()), top_k


def until_stop(token_ids: Tensor, prompt_mask: Tensor, stop_token_ids: Sequence[int] | None) -> Tensor:
    """Return a mask that is true up to and including the first stop token outside the prompt."""
    if not stop_token_ids:
        return ops.ones_like(token_ids, dtype="bool")
    stops = stops_at(token_ids, stop_token_ids, ops.cast(prompt_mask, "bool"))
    before = ops.cumsum(ops.cast(stops, "int32"), axis=-1) - ops.cast(stops, "int32")
    return before == 0


def settings_of(sampler: keras_hub.samplers.Sampler, top_k: int | None) -> Config | None:
    """Return the settings of a search; None with a sampler for which presets keep none.

    Example:
        >>> settings_of(BeamSearch(4, 0.6), None)
        {'beams': 4, 'length_penalty': 0.6, 'search_top_k': None}
    """
    if type(sampler) not in (BeamSearch, PooledBeamSearch):
        return None
    settings: Config = {"beams": sampler.num_beams, "length_penalty": sampler.length_penalty, "search_top_k": top_k}
    if type(sampler) is PooledBeamSearch:
        config = sampler.get_config()
        settings["pooled"] = {name: config[name] for name in sorted(_OF_POOLED)}
    further = {name: getattr(sampler, name) for name in FURTHER_SETTINGS}
    settings |= {name: value for name, value in further.items() if value != FURTHER_SETTINGS[name]}
    return settings if are_search_settings(settings) else None


def sampler_of(settings: Config) -> BeamSearch:
    """Return the sampler of a search with settings that `are_search_settings`."""
    kept = {name: settings[name] for name in ("length_penalty", *FURTHER_SETTINGS) if name in settings}
    if "pooled" in settings:
        return PooledBeamSearch(settings["beams"], **{**kept, **settings["pooled"]})
    return BeamSearch(settings["beams"], **kept)


def are_search_settings(settings: Any) -> bool:
    """Return whether a search can have them: a stranger's preset may say anything, and memory grows with the beams."""
    if not isinstance(settings, dict) or settings.keys() - {"pooled", *FURTHER_SETTINGS} != _NAMES:
        return False
    beams, penalty = settings["beams"], settings["length_penalty"]
    if type(beams) is not int or not 1 <= beams <= MOST_BEAMS:
        return False
    if type(penalty) not in (int, float) or not 0 <= penalty <= HIGHEST_PENALTY:
        return False
    further = {**FURTHER_SETTINGS, **{name: settings[name] for name in FURTHER_SETTINGS if name in settings}}
    coverage = further.pop("coverage_penalty")
    if type(coverage) not in (int, float) or not 0 <= coverage <= HIGHEST_PENALTY:
        return False
    if any(type(value) is not int or not 0 <= value <= MOST_TOKENS for value in further.values()):
        return False
    return "pooled" not in settings or (not coverage and _are_of_pooled(settings["pooled"]))


def _are_of_pooled(settings):
    if not isinstance(settings, dict) or settings.keys() != _OF_POOLED:
        return False
    try:
        PooledBeamSearch(**settings)
    except ValueError:
        return False
    return isinstance(settings["renormalize"], bool)

"""What a preset keeps of a search: its sampler as a dict of settings, and back."""

from typing import Any

import keras_hub

from keras_attn_zoo.decoding import BeamSearch, PooledBeamSearch
from keras_attn_zoo.support.choices import HIGHEST_PENALTY, MOST_BEAMS
from keras_attn_zoo.support.types import Config

_NAMES = {"beams", "length_penalty", "search_top_k"}
# What a `PooledBeamSearch` has besides.
_OF_POOLED = {"early_stopping", "forced_end", "renormalize"}


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
    return settings if are_search_settings(settings) else None


def sampler_of(settings: Config) -> BeamSearch:
    """Return the sampler of a search with settings that `are_search_settings`."""
    both = settings["beams"], settings["length_penalty"]
    return PooledBeamSearch(*both, **settings["pooled"]) if "pooled" in settings else BeamSearch(*both)


def are_search_settings(settings: Any) -> bool:
    """Return whether a search can have them: a stranger's preset may say anything, and memory grows with the beams."""
    if not isinstance(settings, dict) or settings.keys() - {"pooled"} != _NAMES:
        return False
    beams, penalty = settings["beams"], settings["length_penalty"]
    if type(beams) is not int or not 1 <= beams <= MOST_BEAMS:
        return False
    if type(penalty) not in (int, float) or not 0 <= penalty <= HIGHEST_PENALTY:
        return False
    return "pooled" not in settings or _are_of_pooled(settings["pooled"])


def _are_of_pooled(settings):
    if not isinstance(settings, dict) or settings.keys() != _OF_POOLED:
        return False
    try:
        PooledBeamSearch(**settings)
    except ValueError:
        return False
    return isinstance(settings["renormalize"], bool)

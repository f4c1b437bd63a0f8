"""Search, by the steps of a layer or a model."""

from keras_attn_zoo.support.extras import require, require_backend

require("keras_hub", user=__name__, backend=True)
require_backend(hub=True)

from keras_attn_zoo.decoding.beam_search import BeamSearch, coverage_penalty, length_penalty
from keras_attn_zoo.decoding.diverse_beam_search import DiverseBeamSearch
from keras_attn_zoo.decoding.grid_beam_search import GridBeamSearch
from keras_attn_zoo.decoding.logits_processors import ForbiddenWords
from keras_attn_zoo.decoding.pooled_beam_search import PooledBeamSearch
from keras_attn_zoo.decoding.sampling import Sampling

__all__ = [
    "BeamSearch",
    "DiverseBeamSearch",
    "ForbiddenWords",
    "GridBeamSearch",
    "PooledBeamSearch",
    "Sampling",
    "coverage_penalty",
    "length_penalty",
]

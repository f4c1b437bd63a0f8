"""Search, by the steps of a layer or a model."""

from keras_attn_zoo.support.extras import require, require_backend

require("keras_hub", user=__name__, backend=True)
require_backend(hub=True)

from keras_attn_zoo.decoding.beam_search import BeamSearch, length_penalty
from keras_attn_zoo.decoding.pooled_beam_search import PooledBeamSearch

__all__ = ["BeamSearch", "PooledBeamSearch", "length_penalty"]

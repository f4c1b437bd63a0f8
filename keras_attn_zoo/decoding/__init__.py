"""Search, by the steps of a layer or a model."""

from keras_attn_zoo.extras import require, require_backend

require("keras_hub", user=__name__)
require_backend()

from keras_attn_zoo.decoding.beam_search import BeamSearch, length_penalty

__all__ = ["BeamSearch", "length_penalty"]

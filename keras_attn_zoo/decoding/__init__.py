"""Search over the step contract."""

from keras_attn_zoo.decoding.beam_search import BeamSearch, length_penalty

__all__ = ["BeamSearch", "length_penalty"]

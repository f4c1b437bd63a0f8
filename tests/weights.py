"""Weights that are equal under every backend, whose initialisers draw different numbers from one seed."""

import zlib

import numpy as np


def fill_weights(layer, seed=0, scale=0.5):
    """Fill every weight of a built layer or model from its path: uniform in [-scale, scale].

    The numbers are multiples of scale / 32: with a scale that is a power of two bfloat16 holds them
    exactly, so that all policies start from the same numbers. Layers need names of their own choice,
    since the automatic ones count what the process has made so far.
    """
    for weight in layer.weights:
        rng = np.random.default_rng([seed, zlib.crc32(weight.path.encode())])
        weight.assign((rng.integers(-32, 33, size=weight.shape) * (scale / 32)).astype("float32"))

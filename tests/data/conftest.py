"""Corpora of numbers, which the tests of batches share."""

import numpy as np
import pytest

from keras_attn_zoo.data.cache import build_cache
from tests.data.helpers import Numbers


@pytest.fixture(scope="module")
def make_corpus(tmp_path_factory):
    def make(lengths, seed=0):
        rng = np.random.default_rng(seed)
        pairs = [tuple(" ".join(map(str, rng.integers(4, 1000, n))) for n in pair) for pair in lengths]
        return build_cache(tmp_path_factory.mktemp("cache") / "c", pairs, Numbers(), Numbers())

    return make

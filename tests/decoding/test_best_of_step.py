"""The best next tokens, against a softmax over the whole vocabulary in float64 and a stable sort."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.decoding.beam_search import IMPOSSIBLE

FORCED, FROZEN, BOTH = 1, 2, 3


def log_probs(logits, given, temperature):
    """Those of all tokens; a forced row has only the given one, a frozen row only padding."""
    scaled = logits.astype("float64") / temperature
    found = scaled - np.log(np.exp(scaled).sum(axis=1, keepdims=True))
    for rows, token, cost in ((FORCED, given[FORCED], found[FORCED, given[FORCED]]), (FROZEN, 0, 0.0), (BOTH, 0, 0.0)):
        found[rows] = IMPOSSIBLE
        found[rows, token] = cost
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("size", "width"), [(1000, 4), (6, 6), (7, 1)])
def test_they_are_those_of_a_softmax_over_all_tokens(size, width, dtype):
    rng = np.random.default_rng([size, width])
    # Multiples of 1/8, as bfloat16 has them: many are equal.
    logits = rng.integers(-40, 40, (6, size)).astype("float32") / 8
    given = rng.integers(1, size, 6)
    given[FORCED] = 2
    expected = log_probs(logits, given, temperature=2.0)
    of_rows = [ops.convert_to_tensor(np.isin(np.arange(6), rows)) for rows in ((FORCED, BOTH), (FROZEN, BOTH))]
    search = BeamSearch(width, temperature=2.0)
    found = search.best_of_step(ops.cast(logits, dtype), ops.convert_to_tensor(given), of_rows[0], width, of_rows[1])
    steps, ids = (ops.convert_to_numpy(x) for x in found)
    order = np.argsort(-expected, axis=1, kind="stable")[:, :width]
    np.testing.assert_allclose(steps, np.take_along_axis(expected, order, axis=1), rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(expected, ids, axis=1), steps, rtol=1e-6, atol=1e-5)
    assert all(len(set(row)) == width for row in ids.tolist())
    # PyTorch promises no order among equal numbers.
    rows = [FORCED, FROZEN, BOTH] if keras.config.backend() == "torch" else slice(None)
    np.testing.assert_array_equal(ids[rows], order[rows])

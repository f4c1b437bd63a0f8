import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.kernels import combine_masks, masked_softmax
from tests.layers.cases import BATCH, masks_of

TARGET, SOURCE = 3, 5
QUERY_MASK, VALUE_MASK, ATTENTION_MASK = masks_of(TARGET, SOURCE).values()
FLOAT32_TOLERANCE = 1e-6


@pytest.mark.parametrize("parts", list(itertools.product([False, True], repeat=4)))
@pytest.mark.parametrize("heads", [False, True])
def test_combination_of_masks(parts, heads):
    """Against a loop over positions, for every set of masks."""
    query, value, attention, causal = parts
    of_heads = np.stack([ATTENTION_MASK, ~ATTENTION_MASK], axis=1) if heads else ATTENTION_MASK
    mask = combine_masks(
        QUERY_MASK if query else None,
        VALUE_MASK if value else None,
        of_heads if attention else None,
        causal,
        TARGET,
        SOURCE,
    )
    if not any(parts):
        assert mask is None
        return
    mask = np.broadcast_to(ops.convert_to_numpy(mask), (BATCH, 2, TARGET, SOURCE))
    for b, h, i, j in np.ndindex(mask.shape):
        allowed = [True]
        if query:
            allowed.append(QUERY_MASK[b, i])
        if value:
            allowed.append(VALUE_MASK[b, j])
        if attention:
            allowed.append(of_heads[b, h, i, j] if heads else of_heads[b, i, j])
        if causal:
            allowed.append(j <= i)
        assert mask[b, h, i, j] == all(allowed)


def test_softmax_by_hand():
    weights = masked_softmax(
        [[0.0, np.log(3), 5.0], [1e4, 1e4, -1e4], [7.0, 8.0, 9.0]],
        [[True, True, False], [True, True, True], [False, False, False]],
    )
    expected = [[0.25, 0.75, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(ops.convert_to_numpy(weights), expected, atol=FLOAT32_TOLERANCE)
    weights = masked_softmax([[0.0, np.log(3)]])
    np.testing.assert_allclose(ops.convert_to_numpy(weights), [[0.25, 0.75]], atol=FLOAT32_TOLERANCE)


def test_softmax_of_bfloat16_runs_in_float32():
    energies = np.linspace(-1, 1, 7, dtype="float32")[None]
    mask = np.array([[True] * 6 + [False]])
    weights = masked_softmax(ops.cast(energies, "bfloat16"), mask)
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    assert ops.convert_to_numpy(weights).sum() == pytest.approx(1, abs=FLOAT32_TOLERANCE)

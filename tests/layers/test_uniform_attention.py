"""What the laws do not say of uniform attention: it costs what it is worth."""

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import UniformAttention
from tests.layers.cases import numbers


@pytest.mark.parametrize("mask", [None, [[True] * 4 + [False], [True] * 5]])
def test_there_is_no_softmax(monkeypatch, mask):
    def refuse(*args, **kwargs):
        raise AssertionError("a softmax of equal energies")

    for name in ("softmax", "exp"):
        monkeypatch.setattr(ops, name, refuse)
    value = numbers("value", 2, 5, 3)
    mask = None if mask is None else np.array(mask)
    context, scores = UniformAttention()(
        numbers("query", 2, 4, 3), value, value_mask=mask, return_attention_scores=True
    )
    real = np.ones((2, 5)) if mask is None else mask
    weights = real / real.sum(-1, keepdims=True)
    np.testing.assert_allclose(ops.convert_to_numpy(scores), np.tile(weights[:, None, None], (1, 1, 4, 1)), atol=1e-7)
    wanted = np.tile(np.einsum("bs,bsd->bd", weights, value)[:, None], (1, 4, 1))
    np.testing.assert_allclose(ops.convert_to_numpy(context), wanted, atol=1e-6)

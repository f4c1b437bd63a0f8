import math

import numpy as np
import pytest

from keras_attn_zoo.analysis.attention_statistics import attention_entropy
from keras_attn_zoo.errors import UserError


def test_entropy_by_hand():
    weights = [[0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0], [0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 0.0, 0.0]]
    expected = [math.log(4), 0.0, 1.5 * math.log(2), 0.0]
    np.testing.assert_allclose(attention_entropy(weights), expected, atol=1e-12)


def test_padding_is_left_out():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(5), size=(2, 3, 4))
    lengths = (5, 2)
    mask = np.arange(5) < np.array(lengths)[:, None]
    entropy = attention_entropy(weights, mask[:, None, None, :])
    assert entropy.shape == (2, 3, 4)
    for b, h, i in np.ndindex(2, 3, 4):
        row = weights[b, h, i, : lengths[b]]
        assert entropy[b, h, i] == pytest.approx(-sum(p * math.log(p) for p in row), abs=1e-12)


def test_nan_under_padding_does_no_harm():
    assert attention_entropy([[0.5, 0.5, np.nan]], [True, True, False]) == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("weights", "mask", "message"),
    [
        ([[0.5, -0.5]], None, "negative or NaN"),
        ([[0.5, np.nan]], None, "negative or NaN"),
        ([[0.5, 0.5]], [True, True, False], r"\(3,\) does not fit .*\(1, 2\)"),
    ],
)
def test_bad_input(weights, mask, message):
    with pytest.raises(UserError, match=message):
        attention_entropy(weights, mask)

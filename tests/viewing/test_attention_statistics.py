import math

import numpy as np
import pytest

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.viewing.attention_statistics import LayerStatistics, attention_entropy, jensen_shannon_divergence


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


def test_divergence_by_hand():
    even, first, second = [0.5, 0.5], [1.0, 0.0], [0.0, 1.0]
    found = jensen_shannon_divergence([first, even, even, first], [second, even, first, even])
    # H(3/4, 1/4) - H(1/2, 1/2) / 2
    half = 2 * math.log(2) - 0.75 * math.log(3) - 0.5 * math.log(2)
    np.testing.assert_allclose(found, [math.log(2), 0.0, half, half], atol=1e-12)
    with pytest.raises(UserError, match=r"shapes \(2,\) and \(3,\)"):
        jensen_shannon_divergence([0.5, 0.5], [0.2, 0.3, 0.5])


def relative_entropy(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a)


@pytest.mark.parametrize("causal", [False, True])
def test_statistics_of_layers(causal):
    """Row by row, over two sentences; layers have different numbers of heads."""
    rng = np.random.default_rng(1)
    sentences = []
    for length in (3, 4):
        seen = np.tri(length) if causal else np.ones((length, length))
        layers = [rng.random((heads, length, length)) * seen for heads in (2, 3)]
        sentences.append([one / one.sum(axis=-1, keepdims=True) for one in layers])
    statistics = LayerStatistics(2, causal=causal, bins=4)
    for layers in sentences:
        statistics.add(layers)
    for number in range(2):
        rows = [row for layers in sentences for head in layers[number] for row in head]
        entropy = np.mean([-sum(p * math.log(p) for p in row if p) for row in rows])
        assert statistics.entropy[number] == pytest.approx(entropy)
        weights = [
            float(head[i, j])
            for layers in sentences
            for head in layers[number]
            for i, j in np.ndindex(*head.shape)
            if j <= i or not causal
        ]
        shares = [np.mean([int(min(x * 4, 3)) == k for x in weights]) for k in range(4)]
        np.testing.assert_allclose(statistics.histogram[number], shares, atol=1e-12)
    pairs = [pair for one, other in sentences for pair in zip(one.mean(axis=0), other.mean(axis=0), strict=True)]
    apart = np.mean([sum(relative_entropy(p, (x + y) / 2) for p in (x, y)) / 2 for x, y in pairs])
    np.testing.assert_allclose(statistics.divergence, [[0.0, apart], [apart, 0.0]], atol=1e-12)


def test_statistics_of_nothing_or_of_other_layers():
    statistics = LayerStatistics(2)
    with pytest.raises(UserError, match="no sentence has been added"):
        statistics.entropy  # noqa: B018
    with pytest.raises(UserError, match="received weights of 1 layers, expected 2"):
        statistics.add([[[[1.0]]]])
    for second in ([[1.0]], [[[0.5, 0.5]]], [[[np.nan]]]):
        with pytest.raises(UserError, match=r"not those of one sentence|negative or NaN"):
            statistics.add([[[[1.0]]], second])
    # Nothing of those was counted.
    statistics.add([[[[1.0]]], [[[1.0]]]])
    np.testing.assert_array_equal(statistics.histogram.sum(axis=1), 1.0)

import math

import numpy as np
import pytest

from keras_attn_zoo.evaluation.likelihood import perplexity, token_accuracy
from keras_attn_zoo.support.errors import UserError


def test_perplexity_by_hand():
    # Probabilities 1/2, 1/4, 1/8: the geometric mean is 1/4.
    assert perplexity(math.log(2) + math.log(4) + math.log(8), 3) == pytest.approx(4.0)
    assert perplexity(0.0, 5) == 1.0


def test_perplexity_of_a_diverged_model():
    assert perplexity(1e6, 10) == math.inf
    assert perplexity(math.inf, 10) == math.inf
    assert math.isnan(perplexity(math.nan, 10))


def test_perplexity_without_tokens():
    with pytest.raises(UserError, match="0 tokens"):
        perplexity(1.0, 0)


def test_accuracy_counts_real_positions_only():
    predicted = np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])
    target = np.array([[1, 9, 3, 0, 0], [4, 5, 6, 9, 9]])
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
    assert token_accuracy(predicted, target, mask) == pytest.approx(5 / 8)
    assert token_accuracy(predicted, target) == pytest.approx(7 / 10)


def test_bad_input_of_accuracy():
    with pytest.raises(UserError, match=r"\(2,\), target \(3,\)"):
        token_accuracy([1, 2], [1, 2, 3])
    with pytest.raises(UserError, match="0 real positions"):
        token_accuracy([1, 2], [1, 2], [False, False])

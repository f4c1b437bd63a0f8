import math

import pytest

from keras_attn_zoo.evaluation.likelihood import perplexity
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

"""Expected utilities, against all pairs by sacrebleu."""

import pytest
from sacrebleu.metrics import BLEU, CHRF

from keras_attn_zoo.evaluation.minimum_bayes_risk import expected_utilities
from keras_attn_zoo.support.errors import UserError

CANDIDATES = ["the old house is red", "an old house is red", "the house is red", "", "the old house is red", "trees"]


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
@pytest.mark.parametrize("probabilities", [None, [0.1, 0.2, 0.05, 0.3, 0.25, 0.4]])
def test_they_are_the_means_over_all_pairs(utility, probabilities):
    metric = CHRF() if utility == "chrf" else BLEU(effective_order=True)
    weights = probabilities or [1.0] * len(CANDIDATES)
    found = expected_utilities(CANDIDATES, probabilities, utility)
    for candidate, utility_found in zip(CANDIDATES, found, strict=True):
        pairs = zip(CANDIDATES, weights, strict=True)
        total = sum(w * metric.sentence_score(candidate, [other]).score for other, w in pairs if other)
        assert utility_found == pytest.approx(total / sum(weights))
    assert found[0] == found[4] > found[5]


def test_an_unknown_utility_gets_the_nearest():
    with pytest.raises(UserError, match=r"there is no utility 'blue': did you mean bleu\?"):
        expected_utilities(CANDIDATES, utility="blue")

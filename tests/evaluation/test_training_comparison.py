"""The test that counts seeds and sentences: against scipy's t-tests, and by simulations whose effect is known."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import stats

from keras_attn_zoo.evaluation.text_scores import compare_systems, sentence_statistics
from keras_attn_zoo.evaluation.training_comparison import TrainingComparison, compare_trainings, holm, resampled_scores
from keras_attn_zoo.support.errors import UserError


def test_without_sentences_it_is_welch_s_test_or_the_paired_one():
    rng = np.random.default_rng(1)
    for n, m in ((3, 3), (3, 5), (7, 4)):
        own, other = rng.normal(30.5, 0.3, n), rng.normal(30.0, 0.9, m)
        found, wanted = compare_trainings(own, other), stats.ttest_ind(own, other, equal_var=False)
        assert (found.p_value, found.freedom) == pytest.approx((wanted.pvalue, wanted.df))
        for confidence in (0.9, 0.95):
            assert found.interval(confidence) == pytest.approx(tuple(wanted.confidence_interval(confidence)))
    own, other = rng.normal(30.5, 2.0, 5) + rng.normal(0, 0.1, (2, 5))
    found, wanted = compare_trainings(own, other, paired=True), stats.ttest_rel(own, other)
    assert (found.p_value, found.freedom) == pytest.approx((wanted.pvalue, 4))


def simulated(effect, rng, trials=1500, seeds=3, sentences=60):
    """Comparisons of systems that are `effect` apart: scores are means over sentences, which are the same for all.

    Seeds vary by 0.4, sentences by 1 for each system, and each training by 2 at each sentence.
    """
    found = []
    for _ in range(trials):
        of_system = rng.normal(0, 1.0, (2, 1, sentences))
        scores = rng.normal(0, 0.4, (2, seeds, 1)) + of_system + rng.normal(0, 2.0, (2, seeds, sentences))
        own, other = (scores + np.array([effect, 0.0])[:, None, None]) + rng.normal(0, 5.0, sentences)
        counts = rng.multinomial(sentences, np.full(sentences, 1 / sentences), size=200) / sentences
        found.append(compare_trainings(own.mean(1), other.mean(1), (own @ counts.T, other @ counts.T)))
    return found


@pytest.mark.long
def test_errors_are_as_rare_as_they_should_be_and_effects_are_found():
    rng = np.random.default_rng(2)
    alike = simulated(0.0, rng)
    wrong = np.mean([one.p_value < 0.05 for one in alike])
    assert 0.01 < wrong < 0.055
    # Sentences alone, as one pair of trainings is compared, see differences that are only those of two trainings.
    assert np.mean([abs(one.difference) > 1.96 * np.sqrt(2 * 1.0 / 60) for one in alike]) > 0.2
    # Those that show a difference as large as the margin to be none.
    margin = 1.0
    apart = simulated(margin, rng)
    inside = [max(map(abs, one.interval(0.9))) < margin for one in apart]
    assert np.mean(inside) < 0.055
    assert np.mean([one.interval()[0] <= margin <= one.interval()[1] for one in apart]) > 0.94
    least = np.mean([one.detectable for one in alike])
    assert 0.7 < np.mean([one.p_value < 0.05 for one in simulated(least, rng)]) < 0.9


@pytest.mark.parametrize(
    ("seeds", "spread", "paired"),
    [((3, 3), (1.0, 1.0), True), ((3, 3), (1.0, 0.0), False), ((3, 5), (3.0, 1.0), False)],
)
def test_trainings_that_happen_to_be_alike_are_not_certain(seeds, spread, paired):
    """A tenth of the variance is of sentences, which are many; of the rest, three trainings tell little."""
    rng = np.random.default_rng(4)
    of_text = (0.1 * sum(one**2 / n for one, n in zip(spread, seeds, strict=True))) ** 0.5
    wrong = np.zeros(2)
    for _ in range(4000):
        own, other = (rng.normal(0, one, n) for one, n in zip(spread, seeds, strict=True))
        found = compare_trainings(own + rng.normal(0, of_text), other, paired=paired)
        found = dataclasses.replace(found, of_text=of_text)
        wrong += [not low < 0 < high for low, high in map(found.interval, (0.95, 0.99))]
    # Welch's test alone takes 1.5 % for 1 % where the smaller group varies more; one number of degrees of freedom for
    # trainings and sentences together took 8 % for 5 %, and 3.5 % for 1 %.
    assert wrong[0] / 4000 < 0.06 and wrong[1] / 4000 < 0.02


def test_the_p_value_is_where_the_interval_reaches_0():
    found = TrainingComparison(1.0, 0.2, 3.0, 0.3, (3, 3))
    low, _ = found.interval(1 - found.p_value)
    assert 0.001 < found.p_value < 0.1 and low == pytest.approx(0, abs=1e-6)


def test_texts_are_drawn_as_a_mean_varies_and_as_sacrebleu_draws_them():
    rng = np.random.default_rng(3)
    own, other = rng.normal(0, 2, (2, 3, 400)) + rng.normal(0, 9, 400)
    drawn = [
        [resampled_scores(np.stack([run, np.ones(400)], -1), lambda sums: sums[0] / sums[1], 2000, 1) for run in system]
        for system in (own, other)
    ]
    found = compare_trainings([1.0, 1.0], [0.0, 0.0], drawn)
    assert found.of_text == pytest.approx((own.mean(0) - other.mean(0)).std(ddof=1) / 400**0.5, rel=0.05)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(1 / found.of_text))
    words = [f"w{i}" for i in range(50)]
    references = [" ".join(rng.choice(words, 10)) for _ in range(100)]
    text = [" ".join(w if rng.random() < 0.8 else "x" for w in line.split()) for line in references]
    scores = resampled_scores(*sentence_statistics(text, references, "bleu"), 1000, 1)
    of_sacrebleu = compare_systems("a", {"a": text, "b": text}, references, "bleu")["a"]["bleu"]
    assert scores.mean() == pytest.approx(of_sacrebleu.mean, abs=0.3)
    assert 1.96 * scores.std() == pytest.approx(of_sacrebleu.ci, rel=0.1)


def test_equal_trainings_and_too_few():
    assert compare_trainings([30.1] * 3, [30.1] * 3).p_value == 1.0
    sure = compare_trainings([31.0] * 3, [30.0] * 3)
    assert sure.p_value < 1e-11 and (sure.interval(), sure.detectable) == ((1.0, 1.0), 0.0)
    for own, other, paired in (([1.0], [1.0, 2.0], False), ([1.0, 2.0], [1.0, 2.0, 3.0], True)):
        with pytest.raises(UserError, match="give two or more, equally many if paired"):
            compare_trainings(own, other, paired=paired)


def test_holm_s_method_is_the_closure_of_bonferroni_s():
    """A comparison is rejected if every set of hypotheses that it is one of is; worked out by trying all sets."""
    rng = np.random.default_rng(3)
    for count in (1, 2, 5, 8):
        p_values = list(rng.uniform(0, 0.2, count) ** rng.integers(1, 4))
        numbers = range(count)
        sets = [one for size in numbers for one in itertools.combinations(numbers, size + 1)]
        rejected = {one: min(1.0, len(one) * min(p_values[i] for i in one)) for one in sets}
        wanted = [max(value for one, value in rejected.items() if i in one) for i in numbers]
        assert holm(p_values) == pytest.approx(wanted)
    # By hand: 0.01, 0.02, 0.03 and 0.04 by 4, 3, 2 and 1, none below one before.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([]) == []


def test_a_difference_that_many_comparisons_show_is_larger():
    """At the level of the test, as before; at that of a hundred, by quantiles of both distributions."""
    found = TrainingComparison(2.0, 0.4, 4.0, 0.0, (3, 3))
    assert found.detectable_at(0.05) == found.detectable
    wanted = 0.4 * (stats.t.ppf(1 - 0.05 / 200, 4) + stats.t.ppf(0.8, 4))
    assert found.detectable_at(0.05 / 100) == pytest.approx(wanted)

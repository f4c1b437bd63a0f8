"""Scores by length, and the speed of translation."""

import collections
import math
import types

import numpy as np
import pytest
import sacrebleu

from keras_attn_zoo.evaluation.training_comparison import resampled_scores
from keras_attn_zoo.runs import search_time as module
from keras_attn_zoo.runs.search_time import translation_speed
from keras_attn_zoo.studies.sampled_scores import SampledScore, any_differ, interval
from keras_attn_zoo.studies.scores_by_length import (
    class_of,
    joined_bounds,
    length_classes,
    scores_by_length,
    usual_bounds,
)
from keras_attn_zoo.support.errors import UserError
from tests import tiny


def test_each_class_has_the_score_of_its_sentences():
    references = ["a b c d", "a b c d e f", "g h i j k l", "m n o p"]
    hypotheses = ["a b c d", "a b c d x f", "g h i j k l", "m n o q"]
    lengths = [len(line.split()) for line in references]
    found = scores_by_length(hypotheses, references, lengths, [2, 4])
    assert math.isnan(found[0].score) and np.isnan(found[0].drawn).all()
    for one, chosen in zip(found[1:], ([0, 3], [1, 2]), strict=True):
        alone = [
            sacrebleu.corpus_bleu([hypotheses[i] for i in some], [[references[i] for i in some]]).score
            for some in (chosen, chosen[:1] * 2, chosen[1:] * 2)
        ]
        assert one.score == pytest.approx(alone[0])
        # Two sentences make three texts.
        assert {round(score, 6) for score in one.drawn} == {round(score, 6) for score in alone}


def test_a_class_without_references_has_no_score():
    found = scores_by_length(["a b", "c d e f g"], ["", "c d e f g"], [2, 5], [2])
    assert math.isnan(found[0].score) and found[1].score == pytest.approx(100)


def test_classes_of_length():
    assert length_classes([10, 20]) == ["≤10", "11-20", ">20"]
    assert [class_of(length, [10, 20]) for length in (0, 10, 11, 20, 21)] == [0, 0, 1, 1, 2]
    for bounds in ([], [0], [5, 5], [7, 3]):
        with pytest.raises(UserError, match="bounds must be positive and strictly increasing"):
            length_classes(bounds)


def test_no_class_has_fewer_than_twenty_sentences_and_no_sentence_is_left_out():
    """6, 406, 443, 108, 29, 6 and 2 sentences; of two texts, the one with fewer decides."""
    sizes = {3: 6, 7: 406, 12: 443, 17: 108, 22: 29, 27: 6, 40: 2}
    lengths = [length for length, size in sizes.items() for _ in range(size)]
    bounds = joined_bounds([5, 10, 15, 20, 25, 30], [lengths])
    assert bounds == [10, 15, 20]
    assert collections.Counter(class_of(length, bounds) for length in lengths) == {0: 412, 1: 443, 2: 108, 3: 37}
    assert joined_bounds([10, 20], [[5] * 20 + [15] * 20 + [25] * 20]) == [10, 20]
    assert joined_bounds([10, 20], [[5] * 20 + [15] * 20 + [25] * 20, [5] * 19 + [15] * 20 + [25] * 20]) == [20]
    for few in ([5] * 39, [5] * 20 + [15] * 19):
        with pytest.raises(UserError, match="no two classes of length with 20 sentences each"):
            joined_bounds([10, 20], [few])


def test_classes_are_narrow_enough_for_short_sentences():
    assert usual_bounds([[5, 15, 25, 35] * 20]) == [10, 20, 30]
    assert usual_bounds([[*[5, 15, 25] * 20, *[35] * 19]]) == [10, 20]
    assert usual_bounds([[2, 7, 12, 17] * 20]) == [5, 10, 15]
    # No width has four classes: the widest that has most.
    assert usual_bounds([[5, 15, 25] * 20]) == [10, 20]
    with pytest.raises(UserError, match="no two classes of length"):
        usual_bounds([[3] * 99])


def trainings(scores, samples=400):
    """Trainings whose score is the mean of scores of sentences, `(trainings, sentences)`."""
    sentences = scores.shape[1]
    drawn = [resampled_scores(row[:, None], lambda sums: float(sums[0]) / sentences, samples, 1) for row in scores]
    return [SampledScore(row.mean(), one) for row, one in zip(scores, drawn, strict=True)]


def test_the_interval_of_one_training_is_that_of_a_mean():
    scores = np.random.default_rng(0).normal(30, 8, (1, 400))
    mean, half = interval(trainings(scores, 4000))
    assert mean == scores.mean() and half == pytest.approx(1.96 * scores.std(ddof=1) / 20, rel=0.04)


def test_the_interval_of_several_trainings_holds_the_truth_as_often_as_it_says():
    """Each training is off by 3, each sentence by 8; an interval of one training knows of sentences alone."""
    draws, held = np.random.default_rng(2), []
    for _ in range(300):
        scores = 30 + draws.normal(0, 3, (3, 1)) + draws.normal(0, 8, 60)
        (mean, half), (one, of_sentences) = (interval(trainings(some, 100)) for some in (scores, scores[:1]))
        held.append((abs(mean - 30) <= half, abs(one - 30) <= of_sentences))
    both, sentences = np.mean(held, 0)
    assert 0.93 < both < 0.995 and sentences < 0.6


def test_a_difference_is_of_the_same_sentences():
    """Intervals overlap by far where every sentence is better by one; of nothing but noise, few differences show."""
    draws = np.random.default_rng(3)
    sentences = draws.normal(30, 8, 100)
    noise = draws.normal(0, 0.5, (6, 100))
    one, other = trainings(sentences + noise[:3]), trainings(sentences + 1 + noise[3:])
    for count in (1, 3):
        assert interval(one[:count])[1] > 1
        assert any_differ([(one[:count], other[:count])]) and not any_differ([(one[:count], one[:count])])

    def noisy():
        return trainings(sentences + draws.normal(0, 0.5, (3, 100)), 100)

    # However many are compared: here one, then ten.
    for pairs in (1, 10):
        alike = [any_differ([(noisy(), noisy()) for _ in range(pairs)]) for _ in range(100)]
        assert np.mean(alike) < 0.1
    # One that differs is found among ten that do not.
    assert any_differ([*((noisy(), noisy()) for _ in range(10)), (one, other)])


def test_speed_counts_the_tokens_of_all_runs(monkeypatch):
    """By a clock of which a run takes two seconds."""
    translator = tiny.translator()
    text, clock = translator.encode(tiny.sentences("source")[:3]), iter([0.0, 6.0])
    tokens = sum(len(best.token_ids) for [best] in translator.translate(text))
    calls, translate = [], translator.translate
    monkeypatch.setattr(translator, "translate", lambda *a, **k: (calls.append(k), translate(*a, **k))[1])
    monkeypatch.setattr(module, "time", types.SimpleNamespace(perf_counter=lambda: next(clock)))
    assert translation_speed(translator, text, batch_size=2, runs=3) == pytest.approx(tokens / 2)
    assert calls == 4 * [{"batch_size": 2}]

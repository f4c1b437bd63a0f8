"""Scores by length, and the speed of translation."""

import math
import types

import pytest
import sacrebleu

from keras_attn_zoo.runs import search_time as module
from keras_attn_zoo.runs.search_time import translation_speed
from keras_attn_zoo.studies.scores_by_length import class_of, length_classes, scores_by_length, usual_bounds
from keras_attn_zoo.support.errors import UserError
from tests import tiny


def test_each_class_has_the_score_of_its_sentences():
    references = ["a b c d", "a b c d e f", "g h i j k l", "m n o p"]
    hypotheses = ["a b c d", "a b c d x f", "g h i j k l", "m n o q"]
    lengths = [len(line.split()) for line in references]
    found = scores_by_length(hypotheses, references, lengths, [2, 4])
    assert math.isnan(found[0])
    for score, chosen in zip(found[1:], ([0, 3], [1, 2]), strict=True):
        alone = sacrebleu.corpus_bleu([hypotheses[i] for i in chosen], [[references[i] for i in chosen]])
        assert score == pytest.approx(alone.score)


def test_a_class_without_references_has_no_score():
    found = scores_by_length(["a b", "c d e f g"], ["", "c d e f g"], [2, 5], [2])
    assert math.isnan(found[0]) and found[1] == pytest.approx(100)


def test_classes_of_length():
    assert length_classes([10, 20]) == ["≤10", "11-20", ">20"]
    assert [class_of(length, [10, 20]) for length in (0, 10, 11, 20, 21)] == [0, 0, 1, 1, 2]
    for bounds in ([], [0], [5, 5], [7, 3]):
        with pytest.raises(UserError, match="bounds must be positive and strictly increasing"):
            length_classes(bounds)


def test_classes_are_narrow_enough_for_short_sentences():
    long = [5, 15, 25, 35] * 25
    assert usual_bounds(long) == [10, 20, 30, 40, 50, 60]
    # One sentence in 97 is enough for a class, one in 101 is not.
    assert usual_bounds([*[2, 4, 6, 14] * 24, 19]) == [5, 10, 15, 20, 25, 30]
    assert usual_bounds([*[2, 4, 6, 14] * 25, 19]) == [2, 4, 6, 8, 10, 12]
    assert usual_bounds([2, 4, 6, 8]) == [2, 4, 6, 8, 10, 12]
    # No width has four classes: the widest that has three, or one.
    assert usual_bounds([5, 15, 25]) == usual_bounds([3]) == [10, 20, 30, 40, 50, 60]


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

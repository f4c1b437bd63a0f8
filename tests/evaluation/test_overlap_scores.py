"""ROUGE and METEOR against values counted by hand."""

import numpy as np
import pytest

from keras_attn_zoo.evaluation.overlap_scores import OVERLAP_METRICS, check_references
from keras_attn_zoo.evaluation.text_scores import compare_systems, score_text
from keras_attn_zoo.support.errors import UserError

ROUGE = ("rouge1", "rouge2", "rougel", "rougelsum")


def scores(hypotheses, references, metrics=OVERLAP_METRICS, **options):
    found = score_text(hypotheses, references, metrics, **options)
    return {name: round(one.score, 4) for name, one in found.metrics.items()}


def f1(precision, recall):
    return round(100 * 2 * precision * recall / (precision + recall), 4)


def meteor(matches, chunks, hypothesis, reference):
    """The score of so many matches in so many chunks, from the lengths of both sentences."""
    precision, recall = matches / hypothesis, matches / reference
    mean = 10 * precision * recall / (recall + 9 * precision)
    return round(100 * mean * (1 - 0.5 * (chunks / matches) ** 3), 4)


def test_one_sentence_counted_by_hand():
    """Of 6 and 7 words: "the", "cat", "the" and "mat" are shared, as are "the cat" and "the mat"."""
    found = scores(["the cat is near the mat"], ["the cat sat down on the mat"])
    assert found["rouge1"] == f1(4 / 6, 4 / 7)
    assert found["rouge2"] == f1(2 / 5, 2 / 6)
    assert found["rougel"] == found["rougelsum"] == f1(4 / 6, 4 / 7)
    assert found["meteor"] == meteor(4, 2, 6, 7)


def test_order_counts_for_subsequences_and_chunks_but_not_for_words():
    found = scores(["down sat cat"], ["cat sat down"], ("rouge1", "rouge2", "rougel", "meteor"))
    assert found == {"rouge1": 100, "rouge2": 0, "rougel": f1(1 / 3, 1 / 3), "meteor": meteor(3, 3, 3, 3)}


def test_sentences_of_a_summary_are_compared_one_by_one():
    """The whole texts share "dogs bark" or "cats sleep" in order, their sentences share both."""
    found = scores(["Dogs bark. Cats sleep."], ["Cats sleep. Dogs bark."], ("rougel", "rougelsum"))
    assert found == {"rougel": 50, "rougelsum": 100}


def test_which_words_match():
    """Those with one stem, in any case, without the punctuation behind them; synonyms do not."""
    assert scores(["dogs barking"], ["dog barks"]) == dict.fromkeys(ROUGE, 100) | {"meteor": meteor(2, 1, 2, 2)}
    found = scores(["Yes, it is."], ["yes , it is ."])
    assert found == dict.fromkeys(ROUGE, 100) | {"meteor": meteor(5, 1, 5, 5)}
    assert scores(["big house"], ["large house"], "meteor") == {"meteor": meteor(1, 1, 2, 2)}


def test_a_text_has_the_mean_of_its_sentences():
    pairs = [("the cat is near the mat", "the cat sat down on the mat"), ("dogs", "dog"), ("", "a bird"), ("x", "y")]
    alone = [scores([hypothesis], [reference]) for hypothesis, reference in pairs]
    assert alone[2] == alone[3] == dict.fromkeys(OVERLAP_METRICS, 0)
    together = scores(*zip(*pairs, strict=True))
    for name in OVERLAP_METRICS:
        assert np.isclose(together[name], np.mean([one[name] for one in alone]), atol=1e-3)


def test_the_best_of_several_references_counts():
    found = scores(["a b c", "d e"], ["x y z", "d e"], more_references=[["a b c", ""]])
    assert found == pytest.approx(
        dict.fromkeys(ROUGE, 100) | {"meteor": (meteor(3, 1, 3, 3) + meteor(2, 1, 2, 2)) / 2}, abs=1e-3
    )


def test_signatures_name_the_library_and_its_options():
    found = score_text(["a b c"], ["a b c"], ["rougel", "meteor"])
    assert str(found["rougel"]).startswith(
        "ROUGE-L|nrefs:1|measure:f1|case:lc|tok:ascii|stem:porter|version:rouge-score-"
    )
    assert str(found["meteor"]).startswith(
        "METEOR|nrefs:1|case:lc|tok:13a|match:exact+stem|alpha:0.9|beta:3.0|gamma:0.5|version:nltk-"
    )


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_paired_tests_hold_for_them_too(test):
    references = [f"the {word} cat sat on the mat" for word in "abcdefghijklmnopqrst"]
    texts = {
        "base": [line.replace("cat", "dog") for line in references],
        "same": [line.replace("cat", "dog") for line in references],
        "better": references,
    }
    found = compare_systems("base", texts, references, ("rouge2", "meteor"), test=test, samples=200)
    for name in ("rouge2", "meteor"):
        assert found["same"][name].p_value == 1
        assert found["better"][name].p_value < 0.01
        assert np.isclose(found["better"][name].score, score_text(references, references, name)[name].score)
    assert found["base"]["rouge2"].score == pytest.approx(f1(4 / 6, 4 / 6), abs=1e-3)


def test_a_script_that_rouge_does_not_count_is_refused():
    with pytest.raises(UserError, match="words of a to z and digits alone, and there are none in '猫が座った'"):
        score_text(["猫が座った"], ["猫が座った"], "rouge1")
    assert scores(["…"], ["..."], "rouge1") == {"rouge1": 0}


def test_a_reference_that_rouge_does_not_count_is_named():
    texts = [["a cat", "…"], ["the cat", "кошка"]]
    with pytest.raises(UserError, match="there are none in 'кошка', a reference of news sentence 2"):
        check_references(["bleu", "rougel"], texts, "news")
    check_references(["bleu", "meteor"], texts, "news")
    check_references(["bleu", "rougel"], [["a cat", "…"], ["the cat", ""]], "news")

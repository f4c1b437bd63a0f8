import json
import os

import pytest
import sacrebleu

from keras_attn_zoo.cli.options import SIGNIFICANCE_TESTS
from keras_attn_zoo.evaluation.text_scores import TESTS, compare_systems, score_text, sentence_bleu
from keras_attn_zoo.support.errors import UserError

HYPOTHESES = ["the cat sat on the mat .", "A dog runs quickly home .", "nothing in common", ""]
REFERENCES = ["the cat sat on a mat .", "a dog runs home quickly .", "a reference of its own", "one more"]


@pytest.mark.parametrize("lowercase", [False, True])
def test_scores_equal_direct_calls_of_sacrebleu(lowercase):
    scores = score_text(HYPOTHESES, REFERENCES, lowercase=lowercase, tokenize="intl")
    bleu = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=lowercase, tokenize="intl")
    ter = sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES], case_sensitive=not lowercase)
    chrf = sacrebleu.CHRF(lowercase=lowercase).corpus_score(HYPOTHESES, [REFERENCES])
    assert [scores[m].score for m in ("bleu", "chrf", "ter")] == [bleu.score, chrf.score, ter.score]
    assert [scores[m].name for m in ("bleu", "chrf", "ter")] == ["BLEU", "chrF2", "TER"]
    assert scores["bleu"].verbose == str(bleu).split(maxsplit=3)[3]
    assert scores["bleu"].verbose.endswith("hyp_len = 16 ref_len = 20)")
    assert scores.segments == 4


def test_scores_are_written_as_json_and_as_lines():
    scores = score_text(HYPOTHESES, REFERENCES)
    assert json.loads(json.dumps(scores.as_dict()))["metrics"]["bleu"]["score"] == scores["bleu"].score
    lines = str(scores).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(f"BLEU|{scores['bleu'].signature} = {scores['bleu'].score:.2f} ")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((["a"], [" "]), {}, "all references are empty"),
        ((["a", "b"], ["a"]), {}, "2 hypotheses but 1 references"),
        (([], []), {}, "empty"),
        ((["a"], ["a"]), {"metrics": ("bleu", "rouge")}, "rouge.*choose from bleu, chrf, ter"),
        ((["a"], ["a"]), {"metrics": ()}, "choose from"),
        ((["a"], ["a"]), {"tokenize": "14b"}, "14b.*choose one of none, zh, 13a"),
        (("a", ["a"]), {}, "list of strings"),
        ((["a", None], ["a", "b"]), {}, "sentence 2 of the hypotheses is None"),
        ((["a", "b"], ["a", "b"]), {"more_references": [["a"]]}, "2 hypotheses but 1 references"),
        ((["a", "b"], ["a", ""]), {"more_references": [["a", "b"]]}, "a first reference is empty"),
    ],
)
def test_bad_input_of_score_text(arguments, options, message):
    with pytest.raises(UserError, match=message) as error:
        score_text(*arguments, **options)
    assert "\n" not in str(error.value)


def _corpus(wrong_every):
    references = [f"sentence {k} has words like a{k} b{k} c{k} and d{k}" for k in range(40)]
    return references, [r.replace("words", "wrds") if k % wrong_every == 0 else r for k, r in enumerate(references)]


def test_comparison_finds_a_large_difference_and_none_in_a_copy():
    references, good = _corpus(20)
    _, bad = _corpus(2)
    systems = {"good": good, "bad": bad, "copy": list(bad)}
    comparison = compare_systems("bad", systems, references, metrics=("chrf", "bleu"), samples=200)
    assert list(comparison.systems) == ["bad", "good", "copy"]
    for metric in ("chrf", "bleu"):
        assert comparison["bad"][metric].p_value is None
        assert comparison["good"][metric].p_value < 0.05
        assert comparison["copy"][metric].p_value == 1.0
        alone = score_text(good, references)[metric].score
        assert comparison["good"][metric].score == pytest.approx(alone, abs=1e-9)
        assert abs(comparison["good"][metric].mean - alone) < 1.0
        assert comparison["good"][metric].ci > 0
        assert "bs:200" in comparison.signatures[metric] and "seed:12345" in comparison.signatures[metric]
    json.dumps(comparison.as_dict())


def test_comparison_is_fixed_by_its_seed_alone(monkeypatch):
    references, good = _corpus(5)
    _, bad = _corpus(3)

    def run(seed):
        comparison = compare_systems(
            "bad", {"good": good, "bad": bad}, references, metrics="bleu", samples=50, seed=seed
        )
        return comparison.systems

    monkeypatch.setenv("SACREBLEU_SEED", "99")
    first = run(7)
    assert os.environ["SACREBLEU_SEED"] == "99"
    monkeypatch.delenv("SACREBLEU_SEED")
    assert run(7) == first
    assert "SACREBLEU_SEED" not in os.environ
    assert run(8) != first


@pytest.mark.parametrize(
    ("baseline", "systems", "options", "message"),
    [
        ("c", {"a": ["x"], "b": ["x"]}, {}, "'c'.*choose one of a, b"),
        ("a", {"a": ["x"]}, {}, "only system"),
        ("a", {"a": ["x"], "b": ["x", "y"]}, {}, "2 hypotheses of 'b' but 1 references"),
        ("a", {"a": ["x"], "b": ["x"]}, {"samples": 0}, "samples is 0"),
        ("a", {"a": ["x"], "b": ["x"]}, {"seed": 0}, "seed is 0"),
    ],
)
def test_bad_input_of_compare_systems(baseline, systems, options, message):
    with pytest.raises(UserError, match=message):
        compare_systems(baseline, systems, ["x"], **options)


def test_randomization_finds_a_large_difference_and_none_in_a_copy():
    references, good = _corpus(20)
    _, bad = _corpus(2)
    systems = {"good": good, "bad": bad, "copy": list(bad)}
    comparison = compare_systems("bad", systems, references, metrics="bleu", test="randomization", samples=500)
    assert comparison["good"]["bleu"].p_value < 0.05 and comparison["copy"]["bleu"].p_value == 1.0
    assert comparison["good"]["bleu"].mean is None and "ar:500" in comparison.signatures["bleu"]
    assert "ar:10000" in compare_systems("bad", systems, references, "bleu", test="randomization").signatures["bleu"]
    with pytest.raises(UserError, match="there is no test 't': choose from bootstrap, randomization"):
        compare_systems("bad", systems, references, test="t")


def test_the_tests_are_those_of_the_command_line():
    assert tuple(TESTS) == SIGNIFICANCE_TESTS


@pytest.mark.parametrize("tokenize", ["13a", "moses-en"])
def test_bleu_of_a_sentence_counts_the_ngrams_that_it_has(tokenize):
    """Two words have no n-grams of three or four. Empty references do not count; without others, nothing is right."""
    assert sentence_bleu("a b", "", "a b", tokenize=tokenize) == pytest.approx(100)
    assert sentence_bleu("A b", "a b", tokenize=tokenize, lowercase=True) == pytest.approx(100)
    assert sentence_bleu("a b", "", " ", tokenize=tokenize) == 0

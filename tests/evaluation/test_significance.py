"""p-values against exhaustive exchanges, an independent bootstrap and sacrebleu's own."""

import itertools

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, TER
from sacrebleu.significance import PairedTest

from keras_attn_zoo.evaluation.significance import paired_tests

WORDS = [f"w{i}" for i in range(60)]


def _texts(sentences, differing, seed=3, of_second=0.2):
    """References, and two systems that differ in so many sentences, with so many wrong words in them."""
    rng = np.random.default_rng(seed)
    references = [[str(word) for word in rng.choice(WORDS, 12)] for _ in range(sentences)]

    def damaged(words, share):
        return [word if rng.random() > share else str(rng.choice(WORDS)) for word in words]

    first = [damaged(words, 0.2) for words in references]
    second = [damaged(words, of_second) if i < differing else first[i] for i, words in enumerate(references)]
    return [[" ".join(words) for words in text] for text in (references, first, second)]


@pytest.mark.parametrize("metric", [BLEU(), TER()], ids=["bleu", "ter"])
@pytest.mark.parametrize("differing", [1, 4, 7])
def test_randomization_is_the_share_of_all_exchanges(metric, differing):
    references, first, second = _texts(30, differing)

    def difference(exchanged):
        pairs = [(b, a) if swap else (a, b) for swap, a, b in zip(exchanged, first, second, strict=False)]
        own = [[pair[side] for pair in pairs] + first[differing:] for side in (0, 1)]
        one, other = (metric.corpus_score(text, [references]).score for text in own)
        return abs(one - other)

    every = [difference(exchanged) for exchanged in itertools.product((False, True), repeat=differing)]
    wanted = np.mean(np.array(every) >= every[0] - 1e-9)
    found, signature = paired_tests(
        {"first": first, "second": second}, metric, [references], "randomization", samples=4000, seed=1
    )
    assert found["second"].p_value == pytest.approx(wanted, abs=0.025)
    assert found["first"].p_value is None and "ar:4000" in signature and "seed:1" in signature


@pytest.mark.parametrize(("differing", "least"), [(1, 1.0), (2, 0.5), (3, 0.25), (4, 0.125)])
@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_few_sentences_that_are_all_better_are_not_significant(test, differing, least):
    """All of n sentences are better: by randomization, p is 2/2^n."""
    references, first, _ = _texts(50, 0)
    second = references[:differing] + first[differing:]
    found, _ = paired_tests({"first": first, "second": second}, BLEU(), [references], test, 2000, 5)
    assert found["second"].p_value == pytest.approx(least, abs=0.03) and found["second"].p_value >= least - 0.03


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_a_text_of_one_sentence_says_nothing(test):
    texts = {"a": ["the cat sat on a mat today"], "b": ["the cat sat on the mat today"]}
    found, _ = paired_tests(texts, BLEU(), [["the cat sat on the mat today"]], test, 100, 1)
    assert found["b"].p_value == 1.0 and found["b"].score == pytest.approx(100)


@pytest.mark.long
def test_bootstrap_is_that_of_sacrebleu_and_one_sided(monkeypatch):
    """Independently: how often the resampled difference is as far from its mean, on the side that was seen."""
    references, first, second = _texts(80, 80, of_second=0.16)
    texts = {"first": first, "second": second}
    found, signature = paired_tests(texts, BLEU(), [references], "bootstrap", 1000, 11)
    monkeypatch.setenv("SACREBLEU_SEED", "11")
    _, theirs = PairedTest(list(texts.items()), {"BLEU": BLEU()}, [references], test_type="bs", n_samples=1000)()
    for name, own in zip(texts, theirs["BLEU"], strict=True):
        assert (found[name].score, found[name].mean, found[name].ci) == (own.score, own.mean, own.ci)
    assert "bs:1000" in signature
    rng, differences = np.random.default_rng(2), []
    for _ in range(400):
        rows = rng.integers(80, size=80)
        scores = [
            BLEU().corpus_score([text[i] for i in rows], [[references[i] for i in rows]]).score
            for text in (first, second)
        ]
        differences.append(scores[1] - scores[0])
    seen = found["second"].score - found["first"].score
    further = np.sign(seen) * (np.array(differences) - np.mean(differences)) >= abs(seen)
    assert 0.01 < further.mean() < 0.15
    assert found["second"].p_value == pytest.approx(further.mean(), abs=0.03)


def test_randomization_counts_equal_differences():
    """Six sentences differ by one word each, five for the better: of 64 exchanges, 14 differ by four words or six."""
    references = [" ".join(WORDS[i : i + 12]) for i in range(20)]
    wrong = [line.replace(line.split()[3], "x") for line in references]
    first, second = [*wrong[:5], *references[5:]], [*references[:5], wrong[5], *references[6:]]
    found, _ = paired_tests({"first": first, "second": second}, TER(), [references], "randomization", 4000, 2)
    assert found["second"].p_value == pytest.approx(14 / 64, abs=0.03)

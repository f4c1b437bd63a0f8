"""IBM Model 1 and the HMM against sums over all alignments, one by one."""

import collections
import itertools
import math

import numpy as np
import pytest
from scipy.special import digamma

from keras_attn_zoo.corpora.corpus import embedded_corpus
from keras_attn_zoo.evaluation import statistical_aligners
from keras_attn_zoo.evaluation.alignment_scores import alignment_scores
from keras_attn_zoo.evaluation.statistical_aligners import HMM, IBM1
from keras_attn_zoo.support.errors import UserError

TEXT = [
    (["a", "b", "c"], ["x", "y", "z"]),
    (["b", "a"], ["y", "x"]),
    (["c", "c", "a"], ["z", "x", "z", "w"]),
    (["b"], ["y", "w"]),
    (["a", "b", "c"], ["x", "z", "y"]),
]
NULL = 0.3


class Enumerated:
    """A model whose expectations are sums over all alignments; `s` is None for Model 1."""

    def __init__(self, alpha=0.0):
        self.alpha = alpha
        targets = {word for _, target in TEXT for word in target}
        self.t = collections.defaultdict(lambda: 1 / len(targets))
        self.s = None

    def share(self, count, total):
        return math.exp(digamma(count + self.alpha) - digamma(total)) if self.alpha else count / total

    def probability(self, source, target, alignment):
        found, last = 1.0, 0
        for word, at in zip(target, alignment, strict=True):
            if self.s is None:
                found /= len(source) + 1
            elif at == 0:
                found *= NULL
            else:
                found *= (1 - NULL) * self.s[at - last] / sum(self.s[one - last] for one in range(1, len(source) + 1))
                last = at
            found *= self.t[["", *source][at], word]
        return found

    def alignments(self, source, target):
        every = itertools.product(range(len(source) + 1), repeat=len(target))
        return {one: self.probability(source, target, one) for one in every}

    def update(self):
        pairs, jumps = collections.Counter(), collections.Counter()
        for source, target in TEXT:
            found = self.alignments(source, target)
            total = math.fsum(found.values())
            for alignment, probability in found.items():
                last = 0
                for word, at in zip(target, alignment, strict=True):
                    pairs[["", *source][at], word] += probability / total
                    if at:
                        jumps[at - last] += probability / total
                        last = at
        words = collections.Counter()
        for (source, _), count in pairs.items():
            words[source] += count + self.alpha
        self.t = {pair: self.share(count, words[pair[0]]) for pair, count in pairs.items()}
        if self.s is not None:
            self.s = {distance: jumps[distance] / sum(jumps.values()) for distance in self.s}


def agree(model, reference):
    for word in ("", "a", "b", "c"):
        expected = {target: t for (source, target), t in reference.t.items() if source == word}
        assert model.translations(word) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("alpha", [0.0, 0.4])
def test_model_1_is_that_of_all_alignments(alpha):
    reference = Enumerated(alpha)
    for iterations in range(1, 4):
        reference.update()
        agree(IBM1(TEXT, iterations, alpha), reference)


@pytest.fixture(scope="module", params=[0.0, 0.4], ids=["likelihood", "prior"])
def enumerated(request):
    reference = Enumerated(request.param)
    reference.update()
    reference.s = dict.fromkeys(range(-2, 4), 1 / 6)
    reference.update()
    reference.update()
    return reference


def test_the_hmm_is_that_of_all_alignments(enumerated):
    model = HMM(TEXT, 2, ibm1_iterations=1, null_probability=NULL, alpha=enumerated.alpha)
    agree(model, enumerated)
    assert model.jump_probabilities() == pytest.approx(enumerated.s, abs=1e-11)


def test_its_alignments_are_the_most_probable_ones(enumerated):
    found = HMM(TEXT, 2, ibm1_iterations=1, null_probability=NULL, alpha=enumerated.alpha).align(TEXT)
    for (source, target), links in zip(TEXT, found, strict=True):
        alignment = [0] * len(target)
        for j, i in links:
            alignment[i] = j + 1
        every = enumerated.alignments(source, target)
        assert every[tuple(alignment)] == pytest.approx(max(every.values()), rel=1e-9)


def test_alignments_of_model_1_are_the_most_probable_ones():
    model = IBM1(TEXT)
    t = {word: model.translations(word) for word in ("", "a", "b", "c")}
    for (source, target), links in zip(TEXT, model.align(TEXT), strict=True):
        best = {(j, i) for i, f in enumerate(target) for j in [int(np.argmax([t[e][f] for e in ["", *source]])) - 1]}
        assert links == {link for link in best if link[0] >= 0}


@pytest.mark.parametrize("model", [IBM1, HMM])
def test_batches_change_nothing(model, monkeypatch):
    whole = model(TEXT)
    monkeypatch.setattr(statistical_aligners, "_CELLS", 16)
    parts = model(TEXT)
    assert parts.align(TEXT) == whole.align(TEXT)
    for word in ("", "a", "b", "c"):
        assert parts.translations(word) == pytest.approx(whole.translations(word), abs=1e-12)


def test_long_sentences_do_not_underflow():
    words = [f"w{number}" for number in range(300)]
    model = HMM([(words, words), (words[:20], words[:20])], alpha=0)
    assert sum(model.translations("w7").values()) == pytest.approx(1)
    assert sum(model.jump_probabilities().values()) == pytest.approx(1)


def test_words_that_were_never_seen_get_no_link_and_harm_no_other():
    text = [(["a", "b"], ["x", "y"]), (["a"], ["x"]), (["b"], ["y"])]
    for model in (IBM1(text), HMM(text)):
        # Case makes no difference.
        [links] = model.align([(["A", "new", "b"], ["x", "neu", "Y"])])
        assert {(0, 0), (2, 2)} <= links and len(links) <= 3
        assert model.translations("new") == {}
    # Longer than any sentence of the training text.
    assert {(0, 0), (4, 4)} <= HMM(text).align([(["a", "a", "a", "a", "b"], ["x", "x", "x", "x", "y"])])[0]


@pytest.mark.long
def test_the_built_in_corpus_is_aligned():
    corpus = embedded_corpus(train=400, valid=2, test=40, max_words=8, words_per_kind=8)
    gold = [(source, target) for source, target, _ in corpus.gold]
    text = [*gold, *((source.split(), target.split()) for source, target in corpus.splits.train)]
    aer = [alignment_scores(model(text).align(gold), [one for *_, one in corpus.gold]).aer for model in (IBM1, HMM)]
    assert max(aer) < 0.2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([],), "there are no sentence pairs"),
        (([(["a"], ["x"]), (["a"], [])],), "sentence pair 2 has an empty side"),
        ((TEXT, 0), "iterations must be a positive integer; received 0"),
        ((TEXT, 5, 5, 1.0), "null_probability must be at least 0 and below 1; received 1.0"),
        ((TEXT, 5, 5, 0.2, -1.0), "alpha must be a number of at least 0; received -1.0"),
    ],
)
def test_bad_input(arguments, said):
    with pytest.raises(UserError, match=said):
        HMM(*arguments)


def test_progress_counts_all_rounds():
    done = []
    HMM(TEXT, progress=done.append)
    assert done == list(range(1, HMM.ROUNDS + 1))

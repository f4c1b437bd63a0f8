"""Scores of given translations, token by token, against the NumPy reference."""

import numpy as np
import pytest

from keras_attn_zoo.evaluation.likelihood import corpus_likelihood
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from tests import tiny
from tests.bodies.reference import log_softmax
from tests.translators.test_translator import END, START, TEXTS, reference_of, source_ids

TARGETS = tiny.sentences("target")[:6]
# Float32 log-probabilities of one token each.
TOLERANCE = {"rtol": 0, "atol": 2e-5}


@pytest.fixture(scope="module")
def task():
    return tiny.translator()


@pytest.fixture(scope="module")
def scored(task):
    return task.score(TEXTS, TARGETS)


def target_ids(task, text):
    return [*task.preprocessor.tokenizer.tokenize([text])[0], END]


@pytest.mark.parametrize("free_running", [False, True])
def test_scores_equal_numpy(task, scored, free_running):
    reference = reference_of(task)
    if free_running:
        scored = task.score(TEXTS, TARGETS, free_running=True)
    for text, target, one in zip(TEXTS, TARGETS, scored, strict=True):
        source, ids = source_ids(task, text), target_ids(task, target)
        forced = np.full(len(ids), not free_running)
        _, logits, _, read = reference.decode(source, [START, *ids[:-1]], forced)
        if free_running:
            assert read[1:] == logits[:-1].argmax(-1).tolist()
        gold = log_softmax(logits)[range(len(ids)), ids]
        np.testing.assert_allclose(one.log_probs, gold, **TOLERANCE)
        assert one.correct.tolist() == (logits.argmax(-1) == ids).tolist()
        assert (len(one.source_tokens), len(one.tokens)) == (len(source), len(ids))
        assert one.tokens[-1] == one.source_tokens[-1] == "</s>"
        assert one.log_prob == pytest.approx(gold.sum(), abs=1e-4)
        assert one.perplexity == pytest.approx(np.exp(-gold.mean()), rel=1e-4)


def test_a_latent_alignment_is_scored_by_its_mixture():
    arguments = {"cell": "lstm", "cross_attention": "bahdanau_feedback", "readout": "state", "output": "latent"}
    task = tiny.translator(seed=10, **arguments)
    reference = reference_of(task, **arguments)
    for text, target, one in zip(TEXTS[:2], TARGETS, task.score(TEXTS[:2], TARGETS[:2]), strict=False):
        ids = target_ids(task, target)
        nll = reference.nll(source_ids(task, text), [START, *ids[:-1]], ids)
        np.testing.assert_allclose(one.log_probs, -nll, **TOLERANCE)
    with pytest.raises(UserError, match="free_running needs an RNN without a latent alignment"):
        task.score(TEXTS, TARGETS, free_running=True)
    with pytest.raises(UserError, match="free_running needs an RNN without a latent alignment"):
        Translator(tiny.transformer()).score(TEXTS, TARGETS, free_running=True)


def test_a_pair_gets_the_same_score_alone_and_among_others(task, scored):
    calls = []
    small = task.score(TEXTS, TARGETS, batch_size=2, progress=calls.append)
    assert calls == [2, 4, 6] and task.score([], []) == []
    for one, other in zip([*small, task.score(TEXTS[0], TARGETS[0])], [*scored, scored[0]], strict=True):
        assert one.tokens == other.tokens and one.correct.tolist() == other.correct.tolist()
        np.testing.assert_allclose(one.log_probs, other.log_probs, **TOLERANCE)
    with pytest.raises(UserError, match="6 sources but 2 targets"):
        task.score(TEXTS, TARGETS[:2])


def test_likelihood_of_a_corpus_is_that_of_evaluate(task, scored):
    texts = {"encoder_text": TEXTS, "decoder_text": TARGETS}
    wanted = task.evaluate(texts, verbose=0, return_dict=True)
    found = corpus_likelihood(scored)
    assert found.keys() == {"loss", "perplexity", "accuracy", "tokens"}
    assert found == pytest.approx({name: float(wanted[name]) for name in found}, rel=1e-5)
    assert found["tokens"] == sum(len(target_ids(task, target)) for target in TARGETS)
    with pytest.raises(UserError, match="perplexity over 0 tokens"):
        corpus_likelihood([])

"""Translators with a latent alignment: search, posterior and numbers against NumPy, as the mixture is defined."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.support.errors import UserError
from tests import tiny
from tests.bodies.reference import log_softmax
from tests.translators.test_translator import END, START, TOLERANCE, reference_of, source_ids

TEXTS, TARGETS = tiny.sentences("source")[:5], tiny.sentences("target")[:5]
ARGUMENTS = {"cell": "lstm", "cross_attention": "bahdanau_feedback", "readout": "state", "output": "latent"}


@pytest.fixture(scope="module")
def task():
    return tiny.translator(seed=10, **ARGUMENTS)


def target_ids(task, text):
    return [*task.preprocessor.tokenizer.tokenize([text])[0], END]


@pytest.mark.parametrize(("compiled", "given"), [(None, None), (2, None), (1, 2)])
def test_hypotheses_equal_numpy(task, compiled, given):
    """Of the K best positions alone, a search divides by the probability that they hold together."""
    task.compile(sampler=BeamSearch(3, length_penalty=0.6), search_top_k=compiled)
    top_k = given or compiled
    reference = reference_of(task, **ARGUMENTS, top_k=top_k)
    lengths = set()
    for text, best in zip(TEXTS, task.translate(TEXTS, n_best=3, attention=True, top_k=given), strict=True):
        for hypothesis in best:
            ids = [task.preprocessor.tokenizer.token_to_id(piece) for piece in hypothesis.tokens]
            _, log_p, weights, _ = reference.decode(source_ids(task, text), [START, *ids[:-1]])
            if top_k is None:
                np.testing.assert_allclose(np.exp(log_p).sum(-1), 1)
            log_prob = log_softmax(log_p)[np.arange(len(ids)), ids].sum()
            np.testing.assert_allclose(hypothesis.log_prob, log_prob, **TOLERANCE)
            np.testing.assert_allclose(hypothesis.attention[0], weights, **TOLERANCE)
            lengths.add(len(ids))
    assert len(lengths) > 2


def test_a_number_of_positions_that_cannot_be(task):
    plain = tiny.translator(seed=10)
    for one, top_k, message in ((task, -1, "must be an integer"), (plain, 2, "applies only to latent alignments")):
        with pytest.raises(UserError, match=f"^top_k {message}"):
            one.translate(TEXTS, top_k=top_k)
        with pytest.raises(UserError, match=f"^search_top_k {message}"):
            one.compile(search_top_k=top_k)


def test_greedy_search_equals_numpy(task):
    task.compile(sampler="greedy")
    reference = reference_of(task, **ARGUMENTS)
    for text, translation in zip(TEXTS, task.generate(TEXTS), strict=True):
        tokens = [START]
        while len(tokens) < tiny.LENGTH and tokens[-1] != END:
            tokens.append(int(np.argmax(reference.decode(source_ids(task, text), tokens)[1][-1])))
        assert translation == task.preprocessor.detokenize(tokens)


def test_prior_and_posterior_of_a_given_translation_equal_numpy(task):
    reference = reference_of(task, **ARGUMENTS)
    priors = task.force(TEXTS, TARGETS, batch_size=2)
    posteriors = task.force(TEXTS, TARGETS, layers="posterior", batch_size=2)
    for text, target, prior, posterior in zip(TEXTS, TARGETS, priors, posteriors, strict=True):
        ids = target_ids(task, target)
        _, log_p, weights, _ = reference.decode(source_ids(task, text), [START, *ids[:-1]])
        wanted = [
            w * np.exp(q[:, i] - p[i]) for w, q, p, i in zip(weights, reference.lexicons, log_p, ids, strict=True)
        ]
        np.testing.assert_allclose(prior.attention[0], weights, **TOLERANCE)
        np.testing.assert_allclose(posterior.attention[0], wanted, **TOLERANCE)
        assert posterior.tokens == prior.tokens and posterior.source_tokens == prior.source_tokens
        assert np.abs(posterior.attention - prior.attention).max() > 0.01


@pytest.mark.slow_compiled
def test_evaluation_counts_the_mixture(task):
    reference = reference_of(task, **ARGUMENTS)
    nll, right = [], []
    for text, target in zip(TEXTS, TARGETS, strict=True):
        ids = target_ids(task, target)
        log_p = reference.decode(source_ids(task, text), [START, *ids[:-1]])[1]
        nll.extend(-log_p[np.arange(len(ids)), ids])
        right.extend(log_p.argmax(-1) == ids)
    task.compile(optimizer=keras.optimizers.SGD(0.0))
    texts = {"encoder_text": TEXTS, "decoder_text": TARGETS}
    found = task.evaluate(texts, batch_size=5, verbose=0, return_dict=True)
    assert found["perplexity"] == pytest.approx(np.exp(np.mean(nll)), rel=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean(right))
    logs = task.fit(texts, batch_size=5, verbose=0).history
    assert logs["loss"] == pytest.approx([np.mean(nll)], rel=1e-5)
    assert logs["accuracy"] == pytest.approx([np.mean(right)])


@pytest.mark.one_backend
def test_what_does_not_fit_is_said(task):
    with pytest.raises(UserError, match="the model has no latent alignment, so there is no posterior"):
        tiny.translator().force(TEXTS, TARGETS, layers="posterior")
    x, _, _ = tiny.batch()
    with pytest.raises(UserError, match="leave teacher_forcing_mask out"):
        task.backbone({**x, "teacher_forcing_mask": np.ones((3, 6), "bool")})
    with pytest.raises(UserError, match="output must be one of softmax, latent; received 'crf'"):
        tiny.backbone(output="crf")
    with pytest.raises(UserError, match="need hidden_dim = embedding_dim"):
        tiny.backbone(readout="state", tie_embeddings="target")

"""Forms of a latent alignment in translators: search, prior and posterior against NumPy, training, and presets."""

import contextlib

import keras
import numpy as np
import pytest

from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.training.run_log import read_steps
from keras_attn_zoo.translators import Translator
from tests import tiny
from tests.bodies.reference import log_softmax
from tests.bodies.reference_mixture import posterior as posterior_of
from tests.tiny_run import TINY, interrupted_after, make_corpus
from tests.translators.test_translator import END, START, TOLERANCE, reference_of, source_ids

TEXTS, TARGETS = tiny.sentences("source")[:5], tiny.sentences("target")[:5]
LATENT = {"readout": "state", "output": "latent"}
TOP_K = {"output": "latent", "marginalization": "top_k", "top_k": 3}
POSTERIOR = {
    **LATENT,
    "cross_attention": "luong_general",
    "attention_query": "current_state",
    "posterior_feeding": True,
}
REMEMBERED = {"posterior": POSTERIOR, "first_order": {**LATENT, "cell": "lstm", "max_jump": 2}}
FORMS = {
    **REMEMBERED,
    "max": {**LATENT, "marginalization": "max"},
    "hard": {**LATENT, "marginalization": "hard"},
}


@pytest.mark.parametrize(("name", "seed"), [("posterior", 2), ("first_order", 10)])
def test_beams_that_remember_their_alignment_equal_numpy(name, seed):
    """Which token a position is aligned by is known in the next step alone, when beams have changed places."""
    arguments = REMEMBERED[name]
    task = tiny.translator(seed=seed, **arguments)
    task.compile(sampler=BeamSearch(3, length_penalty=0.6))
    reference, lengths = reference_of(task, **arguments), set()
    for text, best in zip(TEXTS, task.translate(TEXTS, n_best=3, attention=True), strict=True):
        for hypothesis in best:
            ids = [task.preprocessor.tokenizer.token_to_id(piece) for piece in hypothesis.tokens]
            _, log_p, weights, _ = reference.decode(source_ids(task, text), [START, *ids[:-1]])
            log_prob = log_softmax(log_p)[np.arange(len(ids)), ids].sum()
            np.testing.assert_allclose(hypothesis.log_prob, log_prob, **TOLERANCE)
            np.testing.assert_allclose(hypothesis.attention[0], weights, **TOLERANCE)
            lengths.add(len(ids))
    assert len(lengths) > 2
    priors, posteriors = (task.force(TEXTS, TARGETS, layers=layers) for layers in (None, "posterior"))
    for text, target, prior, posterior in zip(TEXTS, TARGETS, priors, posteriors, strict=True):
        ids = [*task.preprocessor.tokenizer.tokenize([target])[0], END]
        _, _, weights, _ = reference.decode(source_ids(task, text), [START, *ids[:-1]])
        wanted = [posterior_of(*one) for one in zip(weights, reference.lexicons, ids, strict=True)]
        np.testing.assert_allclose(prior.attention[0], weights, **TOLERANCE)
        np.testing.assert_allclose(posterior.attention[0], wanted, **TOLERANCE)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.slow_compiled
def test_a_translator_of_each_form_learns(name):
    task = Translator(tiny.backbone(dropout=0.1, **FORMS[name]))
    task.compile(optimizer=keras.optimizers.Adam(0.03))
    x, y, w = tiny.batch(rows=4)
    logs = task.fit(x, y, sample_weight=w, batch_size=4, epochs=20, shuffle=False, verbose=0).history
    assert np.isfinite(logs["loss"]).all()
    assert np.mean(logs["loss"][-3:]) < 0.7 * logs["loss"][0]
    if name == "hard":
        # A sample of the bound is trained, perplexity is that of the exact sum; the samples are too few for a mean.
        assert np.abs(np.array(logs["loss"]) - np.log(logs["perplexity"])).min() > 1e-6


@pytest.mark.one_backend
@pytest.mark.long
def test_a_stopped_run_goes_on_with_the_samples_of_an_uninterrupted_one(tmp_path):
    system = TINY.override(output="latent", marginalization="hard", teacher_forcing=1.0, epochs=1, dropout=0.0)
    for name, stops in (("whole", 0), ("stopped", 4)):
        with interrupted_after(stops) if stops else contextlib.nullcontext():
            train_system(system, make_corpus(), tmp_path / name)
    train_system(system, make_corpus(), tmp_path / "stopped", resume=True)
    whole, resumed = (
        [line["loss"] for line in read_steps(tmp_path / name / "log.jsonl")] for name in ("whole", "stopped")
    )
    assert whole == resumed and len(whole) == 6


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        *((tiny.backbone, arguments) for arguments in REMEMBERED.values()),
        (tiny.transformer, {"output": "latent", "max_jump": 3, "attention_layer": "all"}),
        (tiny.transformer, {**TOP_K, "attention_layer": "all"}),
        (tiny.transformer, {"output": "latent", "marginalization": "max", "tie_embeddings": "target"}),
    ],
)
def test_presets_and_precision(body, arguments, tmp_path):
    task = tiny.translator(seed=4, body=body, dtype="mixed_bfloat16", **arguments)
    found = task.translate(TEXTS, attention=True)
    task.save_to_preset(str(tmp_path / "preset"))
    again = Translator.from_preset(str(tmp_path / "preset"), dtype="mixed_bfloat16")
    assert again.backbone.get_config() == task.backbone.get_config()
    again.compile(sampler=BeamSearch(3, length_penalty=0.6))
    for [one], [other] in zip(found, again.translate(TEXTS, attention=True), strict=True):
        assert (one.text, one.attention.shape) == (other.text, other.attention.shape)
        np.testing.assert_allclose(one.attention.sum(-1), 1, atol=1e-5)
        assert len(one.attention) == task.backbone.attention_heads
    scored = [one.log_prob for one in task.score(TEXTS, TARGETS)]
    assert np.isfinite(scored).all()


@pytest.mark.one_backend
def test_the_prior_of_first_order_is_no_layer():
    task = tiny.translator(seed=4, body=tiny.transformer, output="latent", max_jump=2)
    assert task.backbone.attention_heads == 1
    along = task.attention_along(TEXTS[0], TARGETS[0])
    [prior] = along["prior"]
    np.testing.assert_allclose(prior, task.force(TEXTS[0], TARGETS[0]).attention, atol=1e-6)
    assert np.abs(prior - along["cross"][-1].mean(0)).max() > 0.01
    with pytest.raises(UserError, match="the model's alignment is of first order, so it has no heads"):
        task.force(TEXTS[0], TARGETS[0], heads=[1])


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"output": "softmax"}, "posterior_feeding needs output='latent' and marginalization='exact'"),
        ({"marginalization": "max"}, "posterior_feeding needs .* marginalization='max'"),
        ({"attention_query": "previous_state"}, "posterior_feeding needs attention_query='current_state'"),
        ({"input_feeding": True}, "and neither input_feeding nor max_jump; .* input_feeding=True"),
        ({"max_jump": 2}, "and neither input_feeding nor max_jump; .* max_jump=2"),
    ],
)
def test_what_does_not_fit_is_said(changed, message):
    with pytest.raises(UserError, match=message) as caught:
        tiny.backbone(**{**POSTERIOR, **changed})
    assert "\n" not in str(caught.value)

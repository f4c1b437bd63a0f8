"""Guided alignment: the loss of attention against links, alone and in training steps, against NumPy float64."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import ATTENTIONS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.training.token_loss import alignment_losses
from keras_attn_zoo.translators import Translator
from tests import tiny
from tests.bodies.reference import ReferenceTranslator, log_softmax
from tests.bodies.transformer_reference import ReferenceTransformer
from tests.layers.calls import value_and_gradients
from tests.toy_tasks import looks
from tests.training.toy import fit_once, weights_of

WEIGHT = 0.7


def literal(weights, links):
    """The loss of one sentence, token by token, of weights `(heads, target, source)`."""
    found = np.zeros(len(links))
    for i, row in enumerate(links):
        for j, link in enumerate(row):
            if link:
                found[i] -= link / row.sum() * np.log(weights[:, i, j].mean())
    return found


def random_links(x, seed=0):
    """Links of a batch, also of padding, which count for nothing; some tokens have none and some several."""
    shape = (*x["decoder_token_ids"].shape, x["encoder_token_ids"].shape[1])
    return (np.random.default_rng([9, seed]).random(shape) < 0.3) & x["encoder_padding_mask"][:, None]


def test_the_loss_and_its_gradient_equal_the_equation():
    rng = np.random.default_rng(1)
    scores = rng.dirichlet(np.ones(5), (2, 3, 4)).astype("float32")
    links = (rng.random((2, 4, 5)) < 0.4).astype("float32")
    links[0, 1], links[1, 2] = 0, [0.5, 0, 0, 0, 2]
    # A link to where there is no weight, as behind padding.
    scores[1, :, 3], links[1, 3] = [0, 0.25, 0.25, 0.5, 0], [1, 1, 0, 0, 0]
    exact, shares = scores.astype("float64"), links / np.maximum(links.sum(-1, keepdims=True), 1e-9)
    expected = np.array([literal(np.maximum(one, 1e-30), of) for one, of in zip(exact, links, strict=True)])
    weights = rng.random((2, 4)).astype("float32")

    def loss(inputs):
        return ops.sum(
            alignment_losses(inputs["scores"], ops.convert_to_tensor(links)) * ops.convert_to_tensor(weights)
        )

    value, _, gradients = value_and_gradients(keras.layers.Identity(), loss, {"scores": scores})
    np.testing.assert_allclose(value, (expected * weights).sum(), rtol=1e-6)
    mean = exact.mean(1)
    by_mean = np.where(mean > 0, -shares * weights[..., None] / np.maximum(mean, 1e-9), 0)
    for head in range(3):
        np.testing.assert_allclose(gradients["scores"][:, head], by_mean / 3, rtol=1e-5)
    assert expected[0, 1] == 0 < expected[1, 3] < 40


BODIES = {
    "rnn": (tiny.backbone, {"cross_attention": "luong_general", "attention_query": "current_state"}),
    "latent rnn": (tiny.backbone, {"cross_attention": "bahdanau_feedback", "readout": "state", "output": "latent"}),
    "head": (tiny.transformer, {"attention_layer": "-2:1", "dropout": 0.0, "num_heads": 2}),
    "all layers": (tiny.transformer, {"attention_layer": "all", "dropout": 0.0, "cross_attention": "previous_weight"}),
}


@pytest.mark.parametrize(
    "name",
    [
        "rnn",
        pytest.param("latent rnn", marks=pytest.mark.one_backend),
        pytest.param("head", marks=pytest.mark.slow_compiled),
        pytest.param("all layers", marks=pytest.mark.one_backend),
    ],
)
def test_a_step_equals_finite_differences(name):
    """Of two parts of a batch, with smoothed labels, in float64, sentence by sentence."""
    body, arguments = BODIES[name]
    task = Translator(body(**arguments))
    task.compile(keras.optimizers.SGD(1.0), label_smoothing=0.1, guided_alignment=WEIGHT, accumulation_steps=2)
    x, y, w = tiny.batch(rows=4)
    links = random_links(x)
    paths = [v.path for v in task.backbone.trainable_variables]
    before = dict(zip(paths, weights_of(task.backbone), strict=True))
    logs = fit_once(task, ({**x, "links": links}, y, w))
    gradients = {path: before[path] - now for path, now in zip(paths, weights_of(task.backbone), strict=True)}

    def losses(weights):
        """Smoothed loss, likelihood and loss of the links, per token."""
        total = np.zeros(3)
        for i, n in enumerate(w.sum(-1).astype(int)):
            source = x["encoder_token_ids"][i][x["encoder_padding_mask"][i]]
            target, labels = x["decoder_token_ids"][i, :n], y[i, :n]
            if body is tiny.backbone:
                reference = ReferenceTranslator(weights, **tiny.BACKBONE, **arguments)
                own = [reference.nll(source, target, labels, smoothing).sum() for smoothing in (0.1, 0.0)]
                scores = reference.decode(source, target)[2][None]
            else:
                sizes = {**tiny.TRANSFORMER, **arguments}
                for unused in ("ffn_dim", "max_length", "dropout"):
                    del sizes[unused]
                reference = ReferenceTransformer(weights, **sizes)
                _, logits, _, cross = reference.decode(source, target)
                log_p = log_softmax(logits)
                gold = -log_p[np.arange(n), labels].sum()
                own = [0.9 * gold - 0.1 * log_p.mean(-1).sum(), gold]
                scores = reference.of_layer(cross)
            total += [*own, literal(scores, links[i, :n, : len(source)]).sum()]
        return total / w.sum()

    def objective(weights):
        smoothed, _, of_links = losses(weights)
        return smoothed + WEIGHT * of_links

    _, nll, of_links = losses(before)
    assert logs["alignment_loss"][0] == pytest.approx(of_links, rel=1e-5)
    assert logs["perplexity"][0] == pytest.approx(np.exp(nll), rel=1e-5)
    assert logs["loss"][0] == pytest.approx(objective(before), rel=1e-5)
    rng, step = np.random.default_rng(4), 1e-5
    for _ in range(4):
        direction = {path: rng.standard_normal(weights.shape) for path, weights in before.items()}
        there, back = (
            objective({path: weights + sign * step * direction[path] for path, weights in before.items()})
            for sign in (1, -1)
        )
        along = sum((gradients[path] * direction[path]).sum() for path in paths)
        np.testing.assert_allclose(along, (there - back) / (2 * step), rtol=1e-3, atol=1e-4)


def test_figures_are_per_token_and_those_of_a_validation_without_links_are_of_the_likelihood():
    task = Translator(tiny.backbone())
    task.compile(keras.optimizers.SGD(0.0), guided_alignment=WEIGHT)
    plain = Translator(task.backbone)
    plain.compile(keras.optimizers.SGD(0.0))
    x, y, w = tiny.batch(rows=4)
    guided = {**x, "links": random_links(x)}
    history = task.fit(
        guided, y, sample_weight=w, batch_size=2, shuffle=False, validation_data=(x, y, w), verbose=0
    ).history
    expected = plain.evaluate(x, y, sample_weight=w, batch_size=2, verbose=0, return_dict=True)
    whole = task.evaluate(guided, y, sample_weight=w, batch_size=4, verbose=0, return_dict=True)
    assert "val_alignment_loss" not in history and "alignment_loss" not in expected
    assert history["val_loss"][0] == pytest.approx(expected["loss"], rel=1e-6)
    assert history["perplexity"][0] == pytest.approx(expected["perplexity"], rel=1e-5)
    assert history["alignment_loss"][0] == pytest.approx(whole["alignment_loss"], rel=1e-5)
    assert whole["loss"] == pytest.approx(expected["loss"] + WEIGHT * whole["alignment_loss"], rel=1e-5)


@pytest.mark.one_backend
def test_in_bfloat16_the_loss_is_close_to_that_in_float32():
    x, y, w = tiny.batch(rows=4)
    found = []
    for dtype in ("float32", "mixed_bfloat16"):
        task = Translator(tiny.transformer(dtype=dtype, dropout=0.0))
        task.compile(keras.optimizers.SGD(0.1), guided_alignment=WEIGHT)
        found.append(fit_once(task, ({**x, "links": random_links(x)}, y, w))["alignment_loss"][0])
    assert found[0] != found[1] == pytest.approx(found[0], rel=2**-6)


@pytest.mark.one_backend
def test_a_saved_translator_keeps_the_weight_of_the_loss(tmp_path):
    task = Translator(tiny.backbone())
    task.compile("sgd", guided_alignment=WEIGHT)
    task.save(tmp_path / "task.keras")
    assert keras.saving.load_model(tmp_path / "task.keras").guided_alignment == WEIGHT


@pytest.mark.one_backend
@pytest.mark.parametrize("name", [name for name, entry in ATTENTIONS.items() if "cross" in entry.places])
def test_weights_that_no_training_changes_are_refused(name):
    task = Translator(tiny.transformer(cross_attention=name))
    if looks(name):
        task.compile(guided_alignment=WEIGHT)
        return
    with pytest.raises(UserError, match="needs a cross-attention that learns its weights, which UniformAttention"):
        task.compile(guided_alignment=WEIGHT)


@pytest.mark.one_backend
def test_errors():
    task = Translator(tiny.backbone())
    for wrong in (-0.5, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="`guided_alignment` must be a number of at least 0"):
            task.compile(guided_alignment=wrong)
    x, y, w = tiny.batch()
    task.compile(guided_alignment=WEIGHT)
    with pytest.raises(UserError, match=r"guided_alignment=0.7 needs links: give ids with x\['links'\]"):
        task.fit(x, y, sample_weight=w, verbose=0)
    with pytest.raises(UserError, match=r"links must have the shape .*, \(3, 6, 7\); received \(3, 7, 6\)"):
        task.fit({**x, "links": random_links(x).transpose(0, 2, 1)}, y, sample_weight=w, verbose=0)
    task.compile()
    with pytest.raises(UserError, match="x has links, but no weight for them: compile with guided_alignment"):
        task.fit({**x, "links": random_links(x)}, y, sample_weight=w, verbose=0)

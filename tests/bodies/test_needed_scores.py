"""Scores are computed for those who read them: of all layers, of the alignment's, or of none."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.bodies import TransformerBackbone
from keras_attn_zoo.translators import Translator
from tests import tiny
from tests.weights import fill_weights

BACKEND = keras.config.backend()
IDS = {
    "encoder_token_ids": np.array([[3, 4, 5, 2], [6, 7, 2, 0]], "int32"),
    "encoder_padding_mask": np.array([[True] * 4, [True] * 3 + [False]]),
    "decoder_token_ids": np.array([[1, 8, 9], [1, 8, 0]], "int32"),
    "decoder_padding_mask": np.array([[True] * 3, [True, True, False]]),
}
LABELS = np.array([[8, 9, 2], [8, 2, 0]], "int32")
# The layers of cross-attention.
CROSS = 2


@pytest.fixture(autouse=True)
def flash_attention(monkeypatch):
    """Ask for no weights where nobody reads them, by any kernel: no backend has flash attention on a CPU."""
    operation = ops.dot_product_attention
    monkeypatch.setattr(
        ops, "dot_product_attention", lambda *args, flash_attention, **kwargs: operation(*args, **kwargs)
    )


def translator(flash_attention=True, **settings):
    """A Transformer whose self-attention computes no weights if nobody reads them, or always."""
    attention = {"attention": "multi_head", "flash_attention": flash_attention}
    places = {f"{place}_attention": attention for place in ("encoder", "decoder")}
    model = Translator(TransformerBackbone(12, 12, **tiny.TRANSFORMER, **places, **settings), None)
    fill_weights(model)
    model.compile(keras.optimizers.SGD(1.0), jit_compile=BACKEND == "jax")
    return model


def step(model):
    """Figures and gradients, by weight, of a training step without dropout."""
    before = [ops.convert_to_numpy(w) for w in model.trainable_weights]
    weights = IDS["decoder_padding_mask"].astype("float32")
    logs = model.fit(IDS, LABELS, sample_weight=weights, batch_size=2, verbose=0).history
    after = [ops.convert_to_numpy(w) for w in model.trainable_weights]
    return [logs["loss"][0], *(old - new for old, new in zip(before, after, strict=True))]


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "settings",
    [{}, {"attention_layer": "all"}, {"output": "latent"}, {"output": "latent", "attention_layer": "0:1"}],
    ids=str,
)
def test_training_computes_only_what_the_loss_reads(settings, softmaxes):
    model = translator(dropout=0.0, **settings)
    softmaxes.clear()
    step(model)
    assert len(softmaxes) == CROSS


@pytest.mark.one_backend
@pytest.mark.parametrize("attention_layer", [-1, "all", "0:1"])
def test_a_call_computes_the_scores_of_the_alignment(attention_layer, softmaxes):
    model, plain = (translator(flash, attention_layer=attention_layer) for flash in (True, None))
    outputs = {}
    for attention in (True, False):
        softmaxes.clear()
        outputs[attention] = model(IDS, attention=attention)
        assert len(softmaxes) == CROSS
    assert outputs[True].keys() - outputs[False].keys() == {"attention_scores"}
    every_layer = plain.backbone.attention_model()({**IDS, "teacher_forcing_mask": None})
    of_head = {"0:1": [x[:, 1:2] for x in every_layer["cross"][:1]], -1: every_layer["cross"][-1:]}
    joined = of_head.get(attention_layer, every_layer["cross"])
    found = ops.convert_to_numpy(outputs[True]["attention_scores"])
    np.testing.assert_allclose(found, np.concatenate([ops.convert_to_numpy(x) for x in joined], axis=1), atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("output", ["softmax", "latent"])
def test_a_step_equals_one_through_weights(output):
    for found, wanted in zip(*(step(translator(x, dropout=0.0, output=output)) for x in (True, None)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=5e-6)


@pytest.mark.long
@pytest.mark.one_backend
def test_a_search_without_attention_finds_the_same():
    """Without weights in the encoder, which a search does not read, and through weights."""

    def found(flash_attention, attention):
        described = {"attention": "multi_head", "flash_attention": flash_attention}
        task = tiny.translator(body=tiny.transformer, encoder_attention=described)
        best = task.translate(tiny.sentences("source")[:4], n_best=2, attention=attention)
        return [one.text for several in best for one in several], [one.score for several in best for one in several]

    texts, scores = found(None, True)
    assert len(set(texts)) > 2
    for attention in (True, False):
        without = found(True, attention)
        assert without[0] == texts
        np.testing.assert_allclose(without[1], scores, atol=1e-5)

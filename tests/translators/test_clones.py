"""Clones of translators by Keras, and models made of their inputs and outputs."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from tests import tiny


@pytest.fixture(scope="module")
def ids():
    texts = {f"{side}_text": tiny.sentences(name)[:3] for side, name in (("encoder", "source"), ("decoder", "target"))}
    return tiny.preprocessor()(texts)


@pytest.mark.parametrize("body", [tiny.backbone, pytest.param(tiny.transformer, marks=pytest.mark.slow)])
def test_clones_specs_and_models_on_the_inputs(ids, body):
    task = tiny.translator(body=body, tie_embeddings="target")
    task.compile("adam", label_smoothing=0.1, sampler="greedy")
    x, y, weights = ids
    assert task.input.keys() == x.keys()
    outputs = task.predict(x, verbose=0)
    built = keras.Model(task.input, {"doubled": 2 * task.output["logits"]})
    np.testing.assert_allclose(built.predict(x, verbose=0)["doubled"], 2 * outputs["logits"], rtol=0, atol=1e-5)
    # A plain functional model with weights of its own, whose optimizer knows them, and the loss of the translator.
    clone = keras.models.clone_model(task)
    assert clone.optimizer.get_config() == task.optimizer.get_config()
    assert len(clone.optimizer.variables) == 2 + 2 * len(clone.trainable_variables)
    found = clone.predict(x, verbose=0)
    assert {name: one.shape for name, one in found.items()} == {name: one.shape for name, one in outputs.items()}
    # Tied embeddings stay tied: there is a weight for each weight.
    clone.set_weights(task.get_weights())
    np.testing.assert_allclose(clone.predict(x, verbose=0)["logits"], outputs["logits"], rtol=0, atol=1e-5)
    logs = outputs["logits"] - np.log(np.exp(outputs["logits"]).sum(-1, keepdims=True))
    losses = -0.9 * np.take_along_axis(logs, y[..., None], -1)[..., 0] - 0.1 * logs.mean(-1)
    expected = (losses * weights).sum() / weights.sum()
    np.testing.assert_allclose(clone.evaluate(x, y, sample_weight=weights, verbose=0), expected, rtol=1e-5)
    assert keras.models.clone_model(task.backbone).output.keys() == task.backbone.output.keys()
    other = Translator(type(task.backbone).from_config(task.backbone.get_config()), task.preprocessor)
    other.compile_from_config(task.get_compile_config())
    other.set_weights(task.get_weights())
    assert (other.label_smoothing, other.sampler.num_beams) == (0.1, 1)
    np.testing.assert_allclose(other.predict(x, verbose=0)["logits"], outputs["logits"], rtol=0, atol=1e-6)
    few = {name: keras.KerasTensor(x[name].shape, "int32") for name in x if name != "decoder_padding_mask"}
    spec = task.compute_output_spec(few)
    assert {name: one.shape for name, one in spec.items()} == {name: one.shape for name, one in outputs.items()}
    for part in (spec, task.backbone.compute_output_spec(few)):
        assert all(one.shape[0] == 3 for one in part.values())
    assert "attention_scores" not in task.backbone.compute_output_spec(few, attention=False)


@pytest.mark.parametrize("body", [tiny.backbone, pytest.param(tiny.transformer, marks=pytest.mark.slow)])
def test_a_clone_trains_as_its_translator_or_says_that_it_cannot(ids, body):
    for output in ("softmax", "latent"):
        task = tiny.translator(body=body, output=output, dropout=0.0)
        task.compile(keras.optimizers.SGD(0.5))
        clone = keras.models.clone_model(task)
        clone.set_weights(task.get_weights())
        x, y, weights = ids
        if output == "latent":
            with pytest.raises(UserError, match="have no gradient, so that this clone cannot be trained"):
                clone.fit(x, y, sample_weight=weights, verbose=0)
            continue
        losses = [
            model.fit(x, y, sample_weight=weights, epochs=2, verbose=0).history["loss"] for model in (task, clone)
        ]
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
        assert losses[0][1] < losses[0][0]

"""A translator as a SavedModel, run by TensorFlow alone."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.decoding import Sampling
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from keras_attn_zoo.translators.saved_model_export import export_to_saved_model
from tests import tiny

TEXTS = tiny.sentences("source")[:3]
ON_TENSORFLOW = keras.config.backend() == "tensorflow"


@pytest.mark.skipif(not ON_TENSORFLOW, reason="TensorFlow writes it")
@pytest.mark.parametrize(
    "body, options",
    [
        pytest.param(tiny.backbone, {}, marks=pytest.mark.slow),
        (tiny.transformer, {}),
        pytest.param(tiny.transformer, {"output": "latent"}, marks=pytest.mark.slow),
        pytest.param(
            tiny.transformer,
            {"encoder_attention": "recurrent", "decoder_attention": "recurrent", "max_length": 24},
            marks=pytest.mark.slow,
        ),
        pytest.param(tiny.transformer, {"cross_attention": "weight_subtraction"}, marks=pytest.mark.slow),
    ],
    ids=["rnn", "transformer", "latent", "recurrent", "weight_subtraction"],
)
def test_a_saved_model_translates_alike(tmp_path, body, options):
    import tensorflow as tf

    translator = tiny.translator(body=body, **options)
    export_to_saved_model(translator, tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served"))
    for texts in (TEXTS, TEXTS[:1]):
        sources = translator.encode(texts).sources
        lengths = np.array([len(ids) for ids in sources])[:, None]
        mask = np.arange(lengths.max()) < lengths
        ids = np.zeros(mask.shape, "int32")
        ids[mask] = np.concatenate(sources)
        found = served.translate(ids, mask)
        expected = translator.translate(texts, n_best=3)
        detokenize = translator.preprocessor.detokenize
        end = translator.preprocessor.tokenizer.end_token_id
        for row, hypotheses in zip(found["token_ids"].numpy(), expected, strict=True):
            cut = [ids[: [*ids, end].index(end)] for ids in row[:, 1:].tolist()]
            assert [detokenize(ids) for ids in cut] == [one.text for one in hypotheses]
        scores = [[one.score for one in hypotheses] for hypotheses in expected]
        np.testing.assert_allclose(found["scores"], scores, rtol=1e-4)
    assert (tmp_path / "served" / "assets.extra" / "source.spm").read_bytes() == tiny.subword_model("source")
    with pytest.raises(UserError, match="exists"):
        export_to_saved_model(translator, tmp_path / "served")


@pytest.mark.skipif(not ON_TENSORFLOW, reason="TensorFlow writes it")
def test_what_is_not_exported(tmp_path):
    with pytest.raises(UserError, match="a SavedModel draws no translations"):
        export_to_saved_model(tiny.translator(body=tiny.transformer, sampler=Sampling(2)), tmp_path / "served")
    with pytest.raises(UserError, match="the translator has no preprocessor"):
        export_to_saved_model(Translator(tiny.transformer()), tmp_path / "served")


@pytest.mark.skipif(ON_TENSORFLOW, reason="TensorFlow writes it")
def test_other_backends_say_which_one_writes_it(tmp_path):
    with pytest.raises(UserError, match="--backend tensorflow"):
        export_to_saved_model(None, tmp_path / "served")

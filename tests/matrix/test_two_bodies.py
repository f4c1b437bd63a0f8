"""One translator of each body under every backend: what an earlier version saved under PyTorch is loaded, searches,
trains, is saved and quantised, and gives the numbers that it gives under PyTorch.

Everything else above the layers is tested by day under PyTorch alone, and at night under all.
"""

import keras
import numpy as np
import pytest

from keras_attn_zoo.kernels import jax_cpu
from keras_attn_zoo.translators import Translator
from tests import tiny
from tests.earlier import archive

# An LSTM with input feeding; a Transformer whose three decoder layers have three mechanisms in each place.
BODIES = ("rnn", "mixed_1")
PAIRS = {"encoder_text": tiny.sentences("source")[:8], "decoder_text": tiny.sentences("target")[:8]}
# Of three steps under PyTorch, whose steps `tests/training` compares with equations.
LOSSES = {"rnn": [3.746488, 3.456715, 3.190730], "mixed_1": [3.537203, 3.131515, 3.019903]}


@pytest.fixture(scope="module", params=BODIES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def task(name):
    return archive.load(name)


def test_a_preset_of_pytorch_translates_as_it_did(task, name):
    archive.check_translations(task, name)


def test_it_trains_and_keeps_what_it_has_learned(task, name, tmp_path):
    """Without dropout, the losses of three steps are those under PyTorch; a preset holds what they led to."""
    body = type(task.backbone).from_config({**task.backbone.get_config(), "dropout": 0.0})
    body.set_weights(task.backbone.get_weights())
    trained = Translator(body, task.preprocessor)
    trained.compile(keras.optimizers.SGD(0.5, momentum=0.9), label_smoothing=0.1)
    found = trained.fit(PAIRS, batch_size=8, epochs=3, shuffle=False, verbose=0).history["loss"]
    np.testing.assert_allclose(found, LOSSES[name], rtol=1e-4)
    trained.save_to_preset(tmp_path / "preset")
    again = Translator.from_preset(str(tmp_path / "preset"))
    for ours, theirs in zip(again.get_weights(), trained.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("of_int8", "arguments"),
    [
        ("rnn_int8", {"cross_attention": "coverage"}),
        ("transformer_int8", {"body": tiny.transformer, "tie_embeddings": "target"}),
    ],
)
def test_it_is_quantised_and_translates_as_under_pytorch(of_int8, arguments, monkeypatch):
    # Elsewhere, JAX multiplies by what integers stand for, and does not round what it multiplies, as PyTorch does.
    monkeypatch.setattr(jax_cpu, "integers_are_slow", lambda: False)
    kept = archive.load(of_int8)
    archive.check_translations(kept, of_int8)
    made = tiny.translator(seed=5, **arguments)
    made.quantize("int8")
    for ours, theirs in zip(made.get_weights(), kept.get_weights(), strict=True):
        assert ours.dtype == theirs.dtype
        # Where two integers are as near, one backend takes the one and another the other.
        np.testing.assert_allclose(ours.astype("float32"), theirs, rtol=1e-6, atol=ours.dtype == "int8")

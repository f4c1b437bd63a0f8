"""Presets that version 0.1.0 saved, with what it made of them: they load, and give the same, under every backend."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.translators import Translator
from tests import tiny
from tests.bodies.reference import log_softmax

SAVED = Path(__file__).parent / "presets_of_0.1.0.zip"


@pytest.fixture(scope="module")
def presets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("presets")
    with zipfile.ZipFile(SAVED) as saved:
        saved.extractall(folder)
    return folder


@pytest.mark.parametrize("name", ["rnn", "transformer"])
@pytest.mark.slow_compiled
def test_translations_and_log_probabilities_are_those_of_0_1_0(presets, name):
    everything = json.loads((presets / "expected.json").read_text(encoding="utf-8"))
    task, expected = Translator.from_preset(str(presets / name)), everything[name]
    task.compile(sampler=BeamSearch(3, length_penalty=0.6))
    for here, there in zip(tiny.hypotheses(task, everything["texts"]), expected["hypotheses"], strict=True):
        assert [text for text, *_ in here] == [text for text, *_ in there]
        np.testing.assert_allclose([h[1:] for h in here], [h[1:] for h in there], rtol=0, atol=1e-4)
    x, labels, weights = tiny.batch()
    logits = tiny.compiled(task.backbone, lambda x: task.backbone.logits(task.backbone(x)))(x)
    found = np.take_along_axis(log_softmax(logits.astype("float64")), labels[..., None], axis=-1)[..., 0] * weights
    np.testing.assert_allclose(found, expected["log_probs"], rtol=0, atol=2e-5)
    assert np.ptp(found) > 3

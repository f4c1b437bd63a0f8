"""Translators in a `keras.RematScope`: their layers are computed again, with dropout, and gradients stay the same."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.bodies import RNNBackbone, TransformerBackbone
from keras_attn_zoo.layers.base.dropout import Dropout
from keras_attn_zoo.translators import Translator
from tests import tiny
from tests.layers.calls import BACKEND
from tests.weights import fill_weights


def trained(body, monkeypatch, **scope):
    """Weights after two steps of `fit` with dropout, and how often dropout was called."""
    of_body, sizes = RNNBackbone, tiny.BACKBONE
    if body == "transformer":
        of_body, sizes = TransformerBackbone, {**tiny.TRANSFORMER, "encoder_layers": 1, "decoder_layers": 1}
    with keras.RematScope(**scope):
        translator = Translator(of_body(tiny.PIECES, tiny.PIECES, dropout=0.3, **sizes))
    fill_weights(translator)
    states = [v for v in translator.non_trainable_variables if "seed" in v.path]
    assert len(states) > 1
    for number, state in enumerate(states):
        state.assign([number, 0])
    translator.compile(keras.optimizers.SGD(0.1))
    calls, call = [], Dropout.call

    def counted(self, inputs, training=False):
        calls.append(self)
        return call(self, inputs, training=training)

    with monkeypatch.context() as patch:
        patch.setattr(Dropout, "call", counted)
        x, y, weights = tiny.batch()
        translator.fit(x, y, sample_weight=weights, epochs=2, shuffle=False, verbose=0)
    return [v.numpy() for v in translator.trainable_variables], len(calls)


@pytest.mark.long
@pytest.mark.skipif(BACKEND == "tensorflow", reason="Keras 3.15's own layers fail there in a scope")
@pytest.mark.parametrize("body", ["rnn", "transformer"])
def test_a_translator_in_a_scope(body, monkeypatch):
    wanted, calls = trained(body, monkeypatch, mode=None)
    # One program for both under JAX.
    for mode in ("full", "larger_than") if BACKEND == "torch" else ("full",):
        found, calls_in_scope = trained(body, monkeypatch, mode=mode, output_size_threshold=1)
        for actual, desired in zip(found, wanted, strict=True):
            np.testing.assert_allclose(actual, desired, atol=1e-6)
        if BACKEND == "torch":
            # Elsewhere, programs are recomputed, not calls.
            assert calls_in_scope > 1.5 * calls

"""Training of the RNN translator's body: its loops have the gradients that the same loops have outside training."""

import keras
import numpy as np
import pytest
from keras import ops

from tests import tiny
from tests.layers.calls import BACKEND, assert_close, value_and_gradients
from tests.models.test_rnn_backbone import CONFIGS, forced_positions

pytestmark = pytest.mark.skipif(BACKEND != "jax", reason="other backends train by the same loop as they compute")


def gradients(backbone, training, guesses):
    x, _, _ = tiny.batch()
    x |= {"teacher_forcing_mask": forced_positions()} if guesses else {}
    rng = np.random.default_rng(0)

    def loss(_):
        outputs = backbone({name: ops.convert_to_tensor(part) for name, part in x.items()}, training=training)
        parts = outputs["decoder_sequence_output"], outputs["attention_scores"]
        return sum(ops.sum(ops.cast(part, "float32") * rng.normal(size=part.shape).astype("float32")) for part in parts)

    return value_and_gradients(backbone, loss, {})[1]


@pytest.mark.parametrize("guesses", [False, True], ids=["forced", "guessed"])
@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_in_training_are_those_outside(name, guesses):
    backbone = tiny.backbone(**CONFIGS[name])
    found, wanted = (gradients(backbone, training, guesses) for training in (True, False))
    for path, gradient in wanted.items():
        assert_close(found[path], gradient, "float32", path)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("name", ["bahdanau", "feedback_lstm_tanh", "luong_general_lstm_feeding", "coverage"])
def test_gradients_in_mixed_precision_are_close(name, policy):
    exact, mixed = (tiny.backbone(dtype=policy, **CONFIGS[name]) for policy in ("float32", policy))
    wanted, found = gradients(exact, True, False), gradients(mixed, True, False)
    for path, gradient in wanted.items():
        assert np.linalg.norm(found[path] - gradient) < 0.1 * np.linalg.norm(gradient) + 1e-3, path
        assert keras.backend.standardize_dtype(found[path].dtype) == "float32"

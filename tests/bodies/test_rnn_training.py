"""Training of the RNN translator's body: its loops have the gradients that the same loops have outside training."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.bodies.readout import Readout
from keras_attn_zoo.bodies.rnn_decoder import RNNDecoder
from keras_attn_zoo.layers import BahdanauAttention
from tests import tiny
from tests.bodies.test_rnn_backbone import CONFIGS, forced_positions
from tests.layers.calls import BACKEND, assert_close, value_and_gradients

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


class OwnMemory(BahdanauAttention):
    """Its memory has no "value", and its state no tensor in one place."""

    def prepare(self, *args, **kwargs):
        memory = super().prepare(*args, **kwargs)
        return {"key": memory["key"], "read": {"parts": [memory["value"], None]}, "mask": memory["mask"]}

    def weigh(self, weights, memory, mask=None, training=None):
        value = memory["read"]["parts"][0]
        return ops.matmul(ops.cast(weights[:, 0], value.dtype), value)

    def initial_state(self, memory, batch_size=None):
        mask = memory["mask"]
        return {
            "seen": ops.zeros((ops.shape(mask)[0],), "int32"),
            "last": ops.zeros_like(mask, self.compute_dtype),
            "no": None,
        }

    def advance(self, at, memory, mask, state):
        weights, _ = super().advance(at + ops.cast(state["last"], "float32")[:, None, None], memory, mask, {})
        return weights, {"seen": state["seen"] + 1, "last": weights[:, 0, 0], "no": None}


def decoder_gradients(attention, policy, rows, training):
    keras.utils.set_random_seed(0)
    embedding = keras.layers.Embedding(9, 4, dtype=policy, name="embedding")
    readout = Readout("tanh", 5, dtype=policy, name="readout")
    options = {"hidden_dim": 5, "input_feeding": True, "dtype": policy, "name": "decoder"}
    decoder = RNNDecoder(attention, embedding, readout, None, 4, 6, **options)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 9, (3 * rows, 4)).astype("int32")
    states = [ops.convert_to_tensor(rng.normal(size=(3 * rows, 5)).astype("float32"))]
    decoder.build(ids.shape, (3, 7, 6))
    mask = np.arange(7)[None] < np.array([[7], [5], [3]])
    upstream = rng.normal(size=(3 * rows, 4, 5)).astype("float32")

    def loss(given):
        readouts, _ = decoder(ids, given["source"], states, encoder_mask=mask, training=training)
        return ops.sum(ops.cast(readouts, "float32") * upstream)

    _, by_weight, by_input = value_and_gradients(
        decoder, loss, {"source": rng.normal(size=(3, 7, 6)).astype("float32")}
    )
    return {**by_weight, **by_input}


@pytest.mark.parametrize(
    "attention, of_attention, of_decoder, rows",
    [
        (OwnMemory, "float32", "float32", 1),
        (OwnMemory, "mixed_bfloat16", "mixed_bfloat16", 1),
        (BahdanauAttention, "mixed_bfloat16", "float32", 1),
        (BahdanauAttention, "float32", "mixed_bfloat16", 1),
        (BahdanauAttention, "float32", "float32", 2),
    ],
    ids=[
        "own memory",
        "own memory in bfloat16",
        "attention in bfloat16",
        "decoder in bfloat16",
        "two targets",
    ],
)
def test_gradients_of_a_decoder_with_any_attention(attention, of_attention, of_decoder, rows):
    found, wanted = (
        decoder_gradients(attention(7, dtype=of_attention, name="attention"), of_decoder, rows, training)
        for training in (True, False)
    )
    exact = of_attention == of_decoder == "float32"
    for path, gradient in wanted.items():
        assert np.linalg.norm(gradient) > 1e-2, path
        assert np.linalg.norm(found[path] - gradient) < (1e-4 if exact else 5e-2) * np.linalg.norm(gradient), path

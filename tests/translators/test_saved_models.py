"""Parts of a translator as Keras models of their own: saved, and loaded by a process that made none of them."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_attn_zoo.bodies import (
    Readout,
    RNNDecoder,
    TokenEmbedding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_attn_zoo.bodies.model_inputs import OPTIONAL_INPUTS
from keras_attn_zoo.bodies.output_projection import OutputProjection
from keras_attn_zoo.bodies.posterior_layer import Posterior
from keras_attn_zoo.layers import BahdanauAttention, LatentAlignmentHead, MultiHeadAttention
from tests import tiny

pytestmark = pytest.mark.one_backend

LATENT = {"output": "latent", "tie_embeddings": "all"}
MODELS = {
    "rnn": lambda: tiny.backbone(
        tie_embeddings="all", cell="lstm", input_feeding=True, readout="tanh", cross_attention="bahdanau_feedback"
    ).attention_model(),
    "rnn_posterior": lambda: tiny.backbone(readout="state", **LATENT).posterior_model(),
    "transformer": lambda: tiny.transformer(
        encoder_attention="recurrent",
        decoder_attention=["recurrent", "average"],
        cross_attention=["previous_weight", MultiHeadAttention(2, 3)],
        encoder_layers=1,
        encoder_positions="learned",
        normalization="pre",
    ).attention_model(),
    "transformer_posterior": lambda: tiny.transformer(encoder_layers=1, decoder_layers=1, **LATENT).posterior_model(),
}
CHECK = """
import sys, keras, numpy as np
import keras_attn_zoo.models
x = dict(np.load("inputs.npz"))
for name in sys.argv[1:]:
    model = keras.models.load_model(name + ".keras")
    labels = {"decoder_labels": x["decoder_token_ids"]} if "posterior" in name else {}
    found = keras.tree.flatten(model.predict_on_batch({**x, "teacher_forcing_mask": None, **labels}))
    wanted = np.load(name + ".npz")
    assert len(found) == len(wanted.files)
    for array, key in zip(found, wanted.files):
        np.testing.assert_allclose(array, wanted[key], atol=1e-6, err_msg=name)
"""


@pytest.mark.long
def test_attention_and_posterior_models_survive_in_a_fresh_process(tmp_path):
    x, _, _ = tiny.batch()
    np.savez(tmp_path / "inputs.npz", **x)
    for name, make in MODELS.items():
        model = make()
        model.save(tmp_path / f"{name}.keras")
        labels = {"decoder_labels": x["decoder_token_ids"]} if "posterior" in name else {}
        outputs = keras.tree.flatten(model.predict_on_batch({**OPTIONAL_INPUTS, **x, **labels}))
        np.savez(tmp_path / f"{name}.npz", *outputs)
    code = CHECK
    if keras.config.backend() != "tensorflow":
        code = "import sys\nsys.modules['tensorflow'] = sys.modules['tensorflow_text'] = None\n" + code
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, *MODELS], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


EMBEDDING = TokenEmbedding(11, 6)
SIZES = {"width": 8, "ffn_dim": 5, "normalization": "pre", "dropout": 0.25, "activation_dropout": 0.125}
LAYERS = {
    RNNDecoder: {
        "attention": BahdanauAttention(3),
        "target_embedding": EMBEDDING,
        "readout": Readout("maxout", 6),
        "output_projection": OutputProjection(11, EMBEDDING),
        "embedding_dim": 6,
        "encoder_dim": 7,
        "cell": "lstm",
        "hidden_dim": 5,
        "num_layers": 2,
        "attention_query": "current_state",
        "input_feeding": True,
        "readout_embedding": False,
        "dropout": 0.5,
    },
    TransformerEncoderLayer: {"attention": MultiHeadAttention(2, 4), **SIZES},
    TransformerDecoderLayer: {
        "self_attention": MultiHeadAttention(2, 4),
        "cross_attention": MultiHeadAttention(1, 3),
        **SIZES,
    },
    OutputProjection: {"vocabulary_size": 11, "embedding": None, "use_bias": False},
    Posterior: {"head": LatentAlignmentHead(11, 3)},
}


@pytest.mark.parametrize("layer", LAYERS)
def test_configurations_of_layers_made_of_layers(layer):
    config = keras.layers.serialize(layer(**LAYERS[layer]))
    assert keras.layers.serialize(keras.layers.deserialize(config)) == config
    for name, value in LAYERS[layer].items():
        found = config["config"][name]
        assert found["class_name"] == type(value).__name__ if isinstance(value, keras.Layer) else found == value


def test_what_a_saved_decoder_shared_it_shares_again(tmp_path):
    body = tiny.backbone(tie_embeddings="target", readout="tanh")
    model = body.attention_model()
    model.save(tmp_path / "model.keras")
    decoder = keras.models.load_model(tmp_path / "model.keras").get_layer("decoder")
    assert decoder.output_projection.embedding is decoder.target_embedding
    assert len(decoder.weights) == len(body.decoder.weights)


@pytest.mark.parametrize(
    ("layer", "arguments", "message"),
    [
        (RNNDecoder, {"cell": "rnn"}, "`cell` must be one of gru, lstm. Received: cell='rnn'"),
        (RNNDecoder, {"attention_query": "state"}, "`attention_query` must be one of previous_state, current_state"),
        (RNNDecoder, {"num_layers": 0}, "`num_layers` must be a positive integer. Received: num_layers=0"),
        (RNNDecoder, {"hidden_dim": None}, "`hidden_dim` must be a positive integer. Received: hidden_dim=None"),
        (TransformerEncoderLayer, {"normalization": "none"}, "`normalization` must be one of post, pre"),
        (TransformerDecoderLayer, {"width": 2.5}, "`width` must be a positive integer. Received: width=2.5"),
        (TransformerDecoderLayer, {"ffn_dim": -1}, "`ffn_dim` must be a positive integer. Received: ffn_dim=-1"),
    ],
)
def test_arguments_that_do_not_fit(layer, arguments, message):
    with pytest.raises(ValueError, match=f"^{layer.__name__}: {message}"):
        layer(**{**LAYERS[layer], **arguments})


def test_sizes_of_numpy_and_sizes_that_make_no_sense():
    assert type(Readout("tanh", np.int64(4)).get_config()["units"]) is int
    assert type(OutputProjection(np.int32(9)).get_config()["vocabulary_size"]) is int
    for make in (lambda size: Readout("tanh", size), OutputProjection):
        for size in (0, -1, 2.0, True, "4"):
            with pytest.raises(ValueError, match=r"must be a positive integer. Received: \w+="):
                make(size)

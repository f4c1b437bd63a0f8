"""This project's translators as a contender; the backend is that of KERAS_BACKEND."""

import importlib.metadata
import os
import sys

import numpy as np
from protocol import random_batch, refuse_cpu, serve

from keras_attn_zoo.support.backends import choose_backend

PRECISION, DEVICE, JOB = sys.argv[1:]
choose_backend(os.environ["KERAS_BACKEND"], JOB)

import keras  # noqa: E402

from keras_attn_zoo.bodies.schema import BODIES  # noqa: E402
from keras_attn_zoo.decoding import BeamSearch  # noqa: E402
from keras_attn_zoo.runs.named_systems import SYSTEMS  # noqa: E402
from keras_attn_zoo.training.adam import Adam  # noqa: E402
from keras_attn_zoo.translators import Translator  # noqa: E402

refuse_cpu(DEVICE, str(keras.ops.zeros(1).device))
keras.config.set_dtype_policy("mixed_bfloat16" if PRECISION == "bfloat16" else "float32")


def _model(task):
    system = SYSTEMS[task["system"]].override(**task["settings"])
    body, vocabulary = BODIES[system.body].body_class, task["vocabulary"]
    return Translator(body(vocabulary, vocabulary, **system.backbone))


def _search(task):
    model, (source, *_) = _model(task), random_batch(task)
    parameters = model.count_params()
    if PRECISION == "int8":
        model.quantize("int8")
    prompt = np.zeros((task["batch"], task["length"] + 1), "int32")
    prompt[:, 0] = 2
    inputs = {
        "encoder_token_ids": source.astype("int32"),
        "encoder_padding_mask": np.ones(source.shape, "bool"),
        "decoder_token_ids": prompt,
        "decoder_padding_mask": prompt > 0,
    }
    model.compile(sampler=BeamSearch(task["beams"]))
    search = model.make_generate_function()
    # Without an end token, every translation has the full length.
    return lambda: keras.ops.convert_to_numpy(search(inputs, stop_token_ids=None)["decoder_token_ids"]), parameters


def _train(task):
    if PRECISION == "int8":
        raise NotImplementedError("int8 is for search")
    model = _model(task)
    model.compile(optimizer=Adam(1e-3))
    source, given, labels = (x.astype("int32") for x in random_batch(task))
    real = np.ones(source.shape, "bool")
    x = {
        "encoder_token_ids": source,
        "encoder_padding_mask": real,
        "decoder_token_ids": given,
        "decoder_padding_mask": real,
    }
    weights = real.astype("float32")
    return lambda: float(model.train_on_batch(x, labels, weights, return_dict=True)["loss"]), model.count_params()


if __name__ == "__main__":
    backend = keras.config.backend()
    serve(
        lambda task: (_search if "beams" in task else _train)(task),
        f"keras-attn-zoo on {backend} {importlib.metadata.version(backend)}, Keras {keras.__version__}",
    )

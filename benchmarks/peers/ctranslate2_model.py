"""Write the weights of a preset as a model of CTranslate2: `WEIGHTS FOLDER`.

WEIGHTS is a folder that `preset_weights.py` wrote.
"""

import sys

import ctranslate2.specs
import numpy as np
from plain_weights import begin_model, load


def _linear(spec, arrays, *names):
    """Dense layers side by side: kernels are `(outputs, inputs)` there."""
    spec.weight = np.concatenate([arrays[f"{name}.kernel"].T for name in names])
    spec.bias = np.concatenate([arrays[f"{name}.bias"] for name in names])


def _norm(spec, arrays, name):
    spec.gamma, spec.beta = arrays[f"{name}.gamma"], arrays[f"{name}.beta"]


def _attention(spec, arrays, name, cross=False):
    _norm(spec.layer_norm, arrays, f"{name}.norm")
    parts = [f"{name}.{part}" for part in ("query", "key", "value")]
    groups = [parts[:1], parts[1:]] if cross else [parts]
    for linear, group in zip(spec.linear, [*groups, [f"{name}.output"]], strict=True):
        _linear(linear, arrays, *group)


def _network(spec, arrays, name):
    _norm(spec.layer_norm, arrays, f"{name}.norm")
    _linear(spec.linear_0, arrays, f"{name}.hidden")
    _linear(spec.linear_1, arrays, f"{name}.output")


def convert(weights, folder):
    """Write a folder that `ctranslate2.Translator` opens."""
    arrays, settings, tokens = load(weights)
    layers = settings["encoder_layers"], settings["decoder_layers"]
    spec = ctranslate2.specs.TransformerSpec.from_config(layers, settings["num_heads"], pre_norm=True)
    table = arrays["embeddings"]
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = table
    for side, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        side.position_encodings.encodings = arrays["positions"]
        _norm(side.layer_norm, arrays, f"{name}.norm")
        for i, layer in enumerate(side.layer):
            _attention(layer.self_attention, arrays, f"{name}.{i}.self")
            if name == "decoder":
                _attention(layer.attention, arrays, f"{name}.{i}.cross", cross=True)
            _network(layer.ffn, arrays, f"{name}.{i}.ffn")
    spec.config.bos_token, spec.config.eos_token = tokens[settings["start"]], tokens[settings["end"]]
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_eos = True
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.validate()
    spec.save(str(begin_model(folder, weights)))


if __name__ == "__main__":
    convert(*sys.argv[1:])

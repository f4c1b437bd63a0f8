"""Write the weights of a Transformer preset as a model of CTranslate2: `PRESET FOLDER`."""

import sys
from pathlib import Path

import ctranslate2.specs
import numpy as np
import sentencepiece
from keras import ops

from keras_attn_zoo.models import Translator

# Positions that the model is given.
LONGEST = 512


def _array(variable):
    return ops.convert_to_numpy(variable).astype("float32")


def _linear(spec, *denses):
    """Dense layers side by side: kernels are `(outputs, inputs)` there."""
    kernels = [_array(dense.kernel) for dense in denses]
    outputs = [dense.bias.shape for dense in denses]
    sizes = [int(np.prod(shape)) for shape in outputs]
    kernels = [kernel.reshape(-1, size).T for kernel, size in zip(kernels, sizes, strict=True)]
    spec.weight = np.ascontiguousarray(np.concatenate(kernels))
    spec.bias = np.concatenate([_array(dense.bias).reshape(-1) for dense in denses])


def _norm(spec, layer):
    spec.gamma, spec.beta = _array(layer.gamma), _array(layer.beta)


def _attention(spec, layer, norm, cross=False):
    _norm(spec.layer_norm, norm)
    parts = [layer.query_dense, layer.key_dense, layer.value_dense]
    groups = [parts[:1], parts[1:]] if cross else [parts]
    for linear, group in zip(spec.linear, [*groups, [layer.output_dense]], strict=True):
        _linear(linear, *group)


def _network(spec, layer):
    _norm(spec.layer_norm, layer.norms["ffn"])
    _linear(spec.linear_0, layer.ffn_hidden)
    _linear(spec.linear_1, layer.ffn_output)


def convert(preset, folder):
    """Write a folder that `ctranslate2.Translator` opens, and beside it the model of subwords."""
    translator = Translator.from_preset(preset)
    body = translator.backbone
    settings = body.get_config()
    layers = settings["encoder_layers"], settings["decoder_layers"]
    spec = ctranslate2.specs.TransformerSpec.from_config(
        layers, settings["num_heads"], pre_norm=settings["normalization"] == "pre"
    )
    table = _array(body.get_layer("target_embedding").embeddings)
    places = np.zeros((1, LONGEST, table.shape[1]), "float32")
    positions = ops.convert_to_numpy(body.get_layer("encoder_positions")(places))[0]
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = table
    for side, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        side.position_encodings.encodings = positions.astype("float32")
        _norm(side.layer_norm, body.get_layer(f"{name}_norm"))
        for i, one in enumerate(side.layer):
            layer = body.get_layer(f"{name}_{i}")
            of_itself = "attention" if name == "encoder" else "self_attention"
            _attention(one.self_attention, getattr(layer, of_itself), layer.norms[of_itself])
            if name == "decoder":
                _attention(one.attention, layer.cross_attention, layer.norms["cross_attention"], cross=True)
            _network(one.ffn, layer)
    tokenizer = translator.preprocessor.tokenizer
    pieces = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.proto)
    tokens = [pieces.id_to_piece(i) for i in range(len(pieces))]
    for name, number in (("unk", 1), ("bos", tokenizer.start_token_id), ("eos", tokenizer.end_token_id)):
        setattr(spec.config, f"{name}_token", tokens[number])
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_eos = True
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.validate()
    Path(folder).mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    (Path(folder) / "subwords.model").write_bytes(tokenizer.proto)


if __name__ == "__main__":
    convert(*sys.argv[1:])

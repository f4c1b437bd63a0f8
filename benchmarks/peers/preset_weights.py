"""Write the weights of a Transformer preset as plain arrays, for peers whose Python has no Keras: `PRESET FOLDER`.

The Transformer has normalisation before its parts, and one table of embeddings.
"""

import sys
from pathlib import Path

import numpy as np
from keras import ops
from plain_weights import LONGEST, SUBWORDS

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import write_json
from keras_attn_zoo.translators import Translator
from keras_attn_zoo.translators.marian.marian_export import check_standard

# The attentions of a layer: their names in the arrays, and ours.
PARTS = {
    "encoder": {"self": "attention"},
    "decoder": {"self": "self_attention", "cross": "cross_attention"},
}


def _array(variable):
    return ops.convert_to_numpy(variable).astype("float32")


def _dense(name, dense):
    """Kernel `(inputs, outputs)` and bias of a dense layer, which may have several axes for heads."""
    kernel, bias = _array(dense.kernel), _array(dense.bias).reshape(-1)
    return {f"{name}.kernel": kernel.reshape(-1, bias.size), f"{name}.bias": bias}


def _norm(name, norm):
    return {f"{name}.gamma": _array(norm.gamma), f"{name}.beta": _array(norm.beta)}


def _layer(name, layer, parts):
    found = {}
    for part, attribute in parts.items():
        attention = getattr(layer, attribute)
        found |= _norm(f"{name}.{part}.norm", layer.norms[attribute])
        for one in ("query", "key", "value", "output"):
            found |= _dense(f"{name}.{part}.{one}", getattr(attention, f"{one}_dense"))
    found |= _norm(f"{name}.ffn.norm", layer.norms["ffn"])
    return found | _dense(f"{name}.ffn.hidden", layer.ffn_hidden) | _dense(f"{name}.ffn.output", layer.ffn_output)


def arrays(body):
    """Return all weights of a Transformer by name, and its positions."""
    found = {"embeddings": _array(body.target_embedding.embeddings)}
    places = np.zeros((1, LONGEST, body.width), "float32")
    found["positions"] = _array(body.get_layer("encoder_positions")(places)[0])
    for side, parts in PARTS.items():
        for i in range(getattr(body, f"{side}_layers")):
            found |= _layer(f"{side}.{i}", body.get_layer(f"{side}_{i}"), parts)
        found |= _norm(f"{side}.norm", body.get_layer(f"{side}_norm"))
    return found


def write(preset, folder):
    """Write the folder that `plain_weights.load` reads.

    Raises:
        UserError: another kind of model.
    """
    translator = Translator.from_preset(preset)
    check_standard(translator)
    body, tokenizer = translator.backbone, translator.preprocessor.tokenizer
    kind = {body.normalization, body.activation, body.encoder_positions, body.decoder_positions}
    if kind != {"pre", "relu", "sine"} or body.output_bias:
        raise UserError(f"{preset} is not a Transformer with pre-normalisation, ReLU, sines and no output bias.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "weights.npz", **arrays(body))
    names = ("width", "num_heads", "ffn_dim", "encoder_layers", "decoder_layers")
    settings = {name: getattr(body, name) for name in names}
    settings |= {"start": tokenizer.start_token_id, "end": tokenizer.end_token_id}
    write_json(folder / "settings.json", settings)
    (folder / SUBWORDS).write_bytes(tokenizer.proto)


if __name__ == "__main__":
    write(*sys.argv[1:])

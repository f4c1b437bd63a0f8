"""Write the weights of a preset as a model of Marian: `WEIGHTS FOLDER`.

WEIGHTS is a folder that `preset_weights.py` wrote. The model's type is "transformer-new": with normalisation before the
parts, the search of the older "transformer" does not normalise the keys and values of earlier steps, and all of its
steps are at the first position if positions are weights.
"""

import sys

import numpy as np
import pymarian
import yaml
from plain_weights import begin_model, load

LAYERS = {"encoder": "TransformerEncoderLayer", "decoder": "TransformerDecoderLayerWithCrossAttention"}
SELF_BLOCKS = {"encoder": "selfAttentionBlock", "decoder": "autoRegressiveBlock"}


def _linear(name, arrays, ours):
    return {f"{name}->weight": arrays[f"{ours}.kernel"], f"{name}->bias": arrays[f"{ours}.bias"]}


def _norm(name, arrays, ours):
    return {f"{name}->norm->weight": arrays[f"{ours}.gamma"], f"{name}->norm->bias": arrays[f"{ours}.beta"]}


def _attention(block, attention, arrays, ours):
    found = _norm(f"{block}->preprocessor", arrays, f"{ours}.norm")
    for part in ("query", "key", "value", "output"):
        found |= _linear(f"{block}->{attention}->{part[0]}Proj", arrays, f"{ours}.{part}")
    return found


def _network(block, arrays, ours):
    found = _norm(f"{block}->preprocessor", arrays, f"{ours}.norm")
    for i, (kind, part) in enumerate((("LinearReluDropout", "hidden"), ("Linear", "output"))):
        found |= _linear(f"{block}->layers->at({i})->as<marian::nn::{kind}>()", arrays, f"{ours}.{part}")
    return found


def _weights(arrays, settings):
    # With positions that are weights, Marian does not scale embeddings: the factor moves to the table,
    # and its inverse to what is multiplied by the table in the end.
    scale = settings["width"] ** 0.5
    table = arrays["embeddings"] * scale
    found = {"Wemb": table, "decoder_ff_logit_out_b": np.zeros((1, len(table)), "float32")}
    arrays = {**arrays, **{f"decoder.norm.{x}": arrays[f"decoder.norm.{x}"] / scale for x in ("gamma", "beta")}}
    for side, kind in LAYERS.items():
        stack = f"TransformerBatch{side.title()}->{side}"
        positions = arrays["positions"].copy()
        if side == "decoder":
            # Marian begins a translation with an embedding of zeros.
            positions[0] += table[settings["start"]]
        found[f"{stack}->positionEmbedding->embeddings"] = positions
        found |= _norm(f"{stack}->postprocessor", arrays, f"{side}.norm")
        for i in range(settings[f"{side}_layers"]):
            layer, ours = f"{stack}->layers->at({i})->as<marian::nn::{kind}>()", f"{side}.{i}"
            found |= _attention(f"{layer}->{SELF_BLOCKS[side]}", "selfAttention", arrays, f"{ours}.self")
            if side == "decoder":
                found |= _attention(f"{layer}->crossAttentionBlock", "crossAttention", arrays, f"{ours}.cross")
            found |= _network(f"{layer}->filterBlock", arrays, f"{ours}.ffn")
    return found


def convert(weights, folder):
    """Write a folder with `model.npz`, which Marian opens."""
    arrays, settings, tokens = load(weights)
    config = {
        "version": pymarian.__version__,
        "type": "transformer-new",
        "dim-vocabs": [len(tokens)] * 2,
        "dim-emb": settings["width"],
        "enc-depth": settings["encoder_layers"],
        "dec-depth": settings["decoder_layers"],
        "transformer-heads": settings["num_heads"],
        "transformer-dim-ffn": settings["ffn_dim"],
        "transformer-ffn-activation": "relu",
        "transformer-preprocess": "n",
        "transformer-postprocess": "da",
        "transformer-postprocess-top": "n",
        "transformer-train-position-embeddings": True,
        "tied-embeddings-all": True,
    }
    found = {name: np.ascontiguousarray(value, "float32") for name, value in _weights(arrays, settings).items()}
    # Marian reads a string that ends in a zero.
    found["special:model.yml"] = np.frombuffer(yaml.safe_dump(config).encode() + b"\0", "int8")
    np.savez(begin_model(folder, weights) / "model.npz", **found)


if __name__ == "__main__":
    convert(*sys.argv[1:])

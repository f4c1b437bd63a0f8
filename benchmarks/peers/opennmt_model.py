"""Write the weights of a preset as a model of OpenNMT-py: `WEIGHTS FOLDER`.

WEIGHTS is a folder that `preset_weights.py` wrote.
"""

import sys
from argparse import Namespace

import torch
from onmt.constants import DefaultTokens, ModelTask
from onmt.modules.embeddings import PositionalEncoding
from plain_weights import begin_model, load

POSITIONS = "SinusoidalInterleaved"
ATTENTIONS = {"query": "linear_query", "key": "linear_keys", "value": "linear_values", "output": "final_linear"}


def _linear(name, arrays, ours):
    return {f"{name}.weight": arrays[f"{ours}.kernel"].T, f"{name}.bias": arrays[f"{ours}.bias"]}


def _norm(name, arrays, ours):
    return {f"{name}.weight": arrays[f"{ours}.gamma"], f"{name}.bias": arrays[f"{ours}.beta"]}


def _layer(name, arrays, ours, parts):
    found = _norm(f"{name}.feed_forward.layer_norm", arrays, f"{ours}.ffn.norm")
    found |= _linear(f"{name}.feed_forward.w_1", arrays, f"{ours}.ffn.hidden")
    found |= _linear(f"{name}.feed_forward.w_2", arrays, f"{ours}.ffn.output")
    for part, (attention, norm) in parts.items():
        found |= _norm(f"{name}.{norm}", arrays, f"{ours}.{part}.norm")
        for one, theirs in ATTENTIONS.items():
            found |= _linear(f"{name}.{attention}.{theirs}", arrays, f"{ours}.{part}.{one}")
    return found


def _weights(arrays, settings):
    parts = {
        "encoder": {"self": ("self_attn", "layer_norm")},
        "decoder": {"self": ("self_attn", "layer_norm_1"), "cross": ("context_attn", "layer_norm_2")},
    }
    found = {}
    for side in parts:
        found[f"{side}.embeddings.make_embedding.emb_luts.0.weight"] = arrays["embeddings"]
        # Our sines, but a checkpoint has to have as many as it would compute itself.
        found[f"{side}.embeddings.make_embedding.pe.pe"] = PositionalEncoding(settings["width"], POSITIONS).pe
        found |= _norm(f"{side}.layer_norm", arrays, f"{side}.norm")
        for i in range(settings[f"{side}_layers"]):
            layers = "transformer" if side == "encoder" else "transformer_layers"
            found |= _layer(f"{side}.{layers}.{i}", arrays, f"{side}.{i}", parts[side])
    return found


def convert(weights, folder):
    """Write a folder with `model.pt`, which OpenNMT-py opens."""
    arrays, settings, tokens = load(weights)
    options = Namespace(
        model_task=ModelTask.SEQ2SEQ,
        encoder_type="transformer",
        decoder_type="transformer",
        enc_layers=settings["encoder_layers"],
        dec_layers=settings["decoder_layers"],
        hidden_size=settings["width"],
        word_vec_size=settings["width"],
        heads=settings["num_heads"],
        transformer_ff=settings["ffn_dim"],
        add_qkvbias=True,
        add_ffnbias=True,
        norm_eps=1e-5,
        position_encoding=True,
        position_encoding_type=POSITIONS,
        share_embeddings=True,
        share_decoder_embeddings=True,
        freeze_word_vecs_enc=False,
        freeze_word_vecs_dec=False,
        dropout=0.0,
        optim="adam",
    )
    tokens = [DefaultTokens.PAD if token == "<pad>" else token for token in tokens]
    checkpoint = {
        "model": {name: torch.as_tensor(value) for name, value in _weights(arrays, settings).items()},
        "generator": {"weight": torch.tensor(arrays["embeddings"]), "bias": torch.zeros(len(tokens))},
        "vocab": {
            "src": tokens,
            "tgt": tokens,
            "data_task": ModelTask.SEQ2SEQ,
            "decoder_start_token": tokens[settings["start"]],
        },
        "opt": options,
    }
    torch.save(checkpoint, begin_model(folder, weights) / "model.pt")


if __name__ == "__main__":
    convert(*sys.argv[1:])

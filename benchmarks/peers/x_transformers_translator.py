"""The encoder-decoder of x-transformers as a contender for training; attention is `scaled_dot_product_attention`."""

import importlib.metadata

from protocol import optional, serve

x_transformers = optional("x_transformers")
from torch_training import batch, torch, training  # noqa: E402


def _prepare(task):
    if "beams" in task or task["system"] != "transformer":
        raise NotImplementedError("only its Transformer's training is compared")
    settings, vocabulary, width = task["settings"], task["vocabulary"], task["settings"]["width"]
    side = {
        "num_tokens": vocabulary,
        "max_seq_len": task["length"],
        "scaled_sinu_pos_emb": True,
        "heads": settings["num_heads"],
        "attn_dim_head": width // settings["num_heads"],
        "attn_flash": True,
        "ff_mult": settings["ffn_dim"] / width,
        "ff_custom_activation": torch.nn.ReLU(),
        "emb_dropout": settings["dropout"],
        "attn_dropout": settings["attention_dropout"],
        "attn_sublayer_dropout": settings["dropout"],
        "ff_dropout": settings["activation_dropout"],
        "ff_sublayer_dropout": settings["dropout"],
    }
    sides = {f"{name}_{key}": value for name in ("enc", "dec") for key, value in side.items()}
    depths = {"enc_depth": settings["encoder_layers"], "dec_depth": settings["decoder_layers"]}
    model = x_transformers.XTransformer(dim=width, tie_token_emb=True, **depths, **sides)
    model.decoder.net.to_logits.weight = model.encoder.token_emb.emb.weight
    source, given, labels = batch(task)
    # The model takes labels from it.
    target = torch.cat([given, labels[:, -1:]], dim=1)
    return training(model, lambda: model(source, target))


if __name__ == "__main__":
    serve(_prepare, f"x-transformers {importlib.metadata.version('x-transformers')}, torch {torch.__version__}")

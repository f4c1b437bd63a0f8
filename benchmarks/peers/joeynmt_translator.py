"""JoeyNMT's Transformer and RNN as a contender."""

import importlib.metadata
from types import SimpleNamespace

from protocol import optional, serve

optional("joeynmt")
from joeynmt.model import build_model  # noqa: E402
from joeynmt.vocabulary import Vocabulary  # noqa: E402
from torch_training import batch, torch, training  # noqa: E402

_SPECIAL = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
_SPECIAL |= {"unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3, "sep_token": None, "lang_tags": []}


def _configuration(task):
    # One rate a side, for embeddings, weights of attention, hidden layers and outputs.
    settings, dropout = task["settings"], task["settings"]["dropout"]
    if task["system"] == "transformer":
        side = {
            "type": "transformer",
            "num_heads": settings["num_heads"],
            "embeddings": {"embedding_dim": settings["width"], "scale": True, "dropout": dropout},
            "hidden_size": settings["width"],
            "ff_size": settings["ffn_dim"],
            "dropout": dropout,
        }
        encoder = {**side, "num_layers": settings["encoder_layers"]}
        decoder = {**side, "num_layers": settings["decoder_layers"]}
        return {"encoder": encoder, "decoder": decoder, "tied_embeddings": True, "tied_softmax": True}
    side = {
        "type": "recurrent",
        "rnn_type": "gru",
        "embeddings": {"embedding_dim": settings["embedding_dim"], "scale": False, "dropout": dropout},
        "hidden_size": settings["hidden_dim"],
        "dropout": dropout,
        "num_layers": 1,
    }
    encoder = {**side, "hidden_size": settings["hidden_dim"], "bidirectional": True}
    attention = {"init_hidden": "bridge", "attention": "bahdanau", "input_feeding": True}
    return {"encoder": encoder, "decoder": {**side, **attention}}


def _prepare(task):
    if "beams" in task:
        raise NotImplementedError("JoeyNMT's search has no cache")
    vocabulary = Vocabulary([f"t{i}" for i in range(4, task["vocabulary"])], SimpleNamespace(**_SPECIAL))
    model = build_model(_configuration(task), vocabulary, vocabulary)
    model.loss_function = ("crossentropy", 0.0)
    source, given, labels = batch(task)
    inputs = {
        "src": source,
        "src_mask": torch.ones_like(source, dtype=torch.bool)[:, None],
        "src_length": torch.full_like(source[:, 0], source.shape[1]),
        "trg_input": given,
        "trg": labels,
        "trg_mask": torch.ones_like(given, dtype=torch.bool)[:, None],
    }

    return training(model, lambda: model(return_type="loss", **inputs)[0] / labels.numel())


if __name__ == "__main__":
    serve(_prepare, f"JoeyNMT {importlib.metadata.version('joeynmt')}, torch {torch.__version__}")

"""JoeyNMT's Transformer and RNN as a contender, in float32."""

import importlib.metadata
from types import SimpleNamespace

from protocol import optional, random_batch, serve

optional("joeynmt")
torch = optional("torch")
from joeynmt.model import build_model  # noqa: E402
from joeynmt.vocabulary import Vocabulary  # noqa: E402

torch.set_flush_denormal(True)
_SPECIAL = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
_SPECIAL |= {"unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3, "sep_token": None, "lang_tags": []}


def _configuration(task):
    settings = task["settings"]
    if task["system"] == "transformer":
        side = {
            "type": "transformer",
            "num_heads": settings["num_heads"],
            "embeddings": {"embedding_dim": settings["width"], "scale": True, "dropout": 0.1},
            "hidden_size": settings["width"],
            "ff_size": settings["ffn_dim"],
            "dropout": 0.1,
        }
        encoder = {**side, "num_layers": settings["encoder_layers"]}
        decoder = {**side, "num_layers": settings["decoder_layers"]}
        return {"encoder": encoder, "decoder": decoder, "tied_embeddings": True, "tied_softmax": True}
    side = {
        "type": "recurrent",
        "rnn_type": "gru",
        "embeddings": {"embedding_dim": settings["embedding_dim"], "scale": False, "dropout": 0.1},
        "hidden_size": settings["hidden_dim"],
        "dropout": 0.1,
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
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    source, given, labels = map(torch.from_numpy, random_batch(task))
    batch = {
        "src": source,
        "src_mask": torch.ones(source.shape, dtype=torch.bool)[:, None],
        "src_length": torch.full(source.shape[:1], source.shape[1]),
        "trg_input": given,
        "trg": labels,
        "trg_mask": torch.ones(given.shape, dtype=torch.bool)[:, None],
    }

    def run():
        loss = model(return_type="loss", **batch)[0] / labels.numel()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    model.train()
    return run, sum(x.numel() for x in model.parameters())


if __name__ == "__main__":
    serve(_prepare, f"JoeyNMT {importlib.metadata.version('joeynmt')}, torch {torch.__version__}")

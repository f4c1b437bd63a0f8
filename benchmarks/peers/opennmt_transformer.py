"""OpenNMT-py's Transformer as a contender for training."""

from protocol import optional, serve

onmt = optional("onmt")
from onmt.decoders import TransformerDecoder  # noqa: E402
from onmt.encoders import TransformerEncoder  # noqa: E402
from onmt.models import NMTModel  # noqa: E402
from onmt.modules import Embeddings  # noqa: E402
from torch_training import batch, cross_entropy, torch, training  # noqa: E402


def _transformer(settings, embeddings):
    common = {
        "d_model": settings["width"],
        "heads": settings["num_heads"],
        "d_ff": settings["ffn_dim"],
        # Of outputs and of hidden layers.
        "dropout": settings["dropout"],
        "attention_dropout": settings["attention_dropout"],
        "max_relative_positions": 0,
        "relative_positions_buckets": 0,
        "add_qkvbias": True,
    }
    of_decoder = {"copy_attn": False, "self_attn_type": "scaled-dot", "aan_useffn": False}
    of_decoder |= {"full_context_alignment": False, "alignment_layer": 0, "alignment_heads": 0}
    return (
        TransformerEncoder(num_layers=settings["encoder_layers"], embeddings=embeddings[0], **common),
        TransformerDecoder(num_layers=settings["decoder_layers"], embeddings=embeddings[1], **common, **of_decoder),
    )


def _prepare(task):
    if "beams" in task or task["system"] != "transformer":
        raise NotImplementedError("only its Transformer's training is compared")
    settings, vocabulary = task["settings"], task["vocabulary"]
    width = settings["width"]
    embeddings = [
        Embeddings(width, vocabulary, 1, position_encoding=True, dropout=settings["dropout"]) for _ in range(2)
    ]
    embeddings[1].word_lut.weight = embeddings[0].word_lut.weight
    model = NMTModel(*_transformer(settings, embeddings))
    generator = torch.nn.Linear(width, vocabulary)
    generator.weight = embeddings[0].word_lut.weight
    source, given, labels = batch(task)
    # The model leaves out the last target token itself.
    target = torch.cat([given, labels[:, -1:]], dim=1)
    lengths = torch.full_like(source[:, 0], source.shape[1])

    def loss():
        states, _ = model(source[..., None], target[..., None], lengths)
        return cross_entropy(generator(states), labels)

    return training(torch.nn.ModuleList([model, generator]), loss)


if __name__ == "__main__":
    serve(_prepare, f"OpenNMT-py {onmt.__version__}, torch {torch.__version__}")

"""OpenNMT-py's Transformer as a contender for training, in float32."""

from protocol import optional, random_batch, serve

onmt = optional("onmt")
torch = optional("torch")
from onmt.decoders import TransformerDecoder  # noqa: E402
from onmt.encoders import TransformerEncoder  # noqa: E402
from onmt.models import NMTModel  # noqa: E402
from onmt.modules import Embeddings  # noqa: E402

torch.set_flush_denormal(True)


def _transformer(settings, embeddings):
    common = {
        "d_model": settings["width"],
        "heads": settings["num_heads"],
        "d_ff": settings["ffn_dim"],
        "dropout": 0.1,
        "attention_dropout": 0.1,
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
    embeddings = [Embeddings(width, vocabulary, 1, position_encoding=True, dropout=0.1) for _ in range(2)]
    embeddings[1].word_lut.weight = embeddings[0].word_lut.weight
    model = NMTModel(*_transformer(settings, embeddings))
    generator = torch.nn.Linear(width, vocabulary)
    generator.weight = embeddings[0].word_lut.weight
    weights = {id(x): x for part in (model, generator) for x in part.parameters()}.values()
    optimizer = torch.optim.Adam(weights, 1e-3, fused=True)
    source, given, labels = map(torch.from_numpy, random_batch(task))
    # The model leaves out the last target token itself.
    target = torch.cat([given, labels[:, -1:]], dim=1)
    lengths = torch.full(source.shape[:1], source.shape[1])

    def run():
        states, _ = model(source[..., None], target[..., None], lengths)
        loss = torch.nn.functional.cross_entropy(generator(states).flatten(0, 1), labels.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    return run, sum(x.numel() for x in weights)


if __name__ == "__main__":
    serve(_prepare, f"OpenNMT-py {onmt.__version__}, torch {torch.__version__}")

"""PyTorch's own `nn.Transformer` and fused Adam as a contender; the precision (by autocast) is the argument."""

import sys

from protocol import optional, random_batch, serve

torch = optional("torch")
from torch import nn  # noqa: E402

PRECISION = sys.argv[1]
# As a compiler does by itself.
torch.set_flush_denormal(True)


class _Translator(nn.Module):
    """One embedding for source, target and output; sines for positions."""

    def __init__(self, task):
        super().__init__()
        settings, width = task["settings"], task["settings"]["width"]
        self.embedding = nn.Embedding(task["vocabulary"], width)
        angles = torch.arange(task["length"])[:, None] / 10000.0 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(task["length"]))
        self.dropout = nn.Dropout(0.1)
        self.body = nn.Transformer(
            width,
            settings["num_heads"],
            settings["encoder_layers"],
            settings["decoder_layers"],
            settings["ffn_dim"],
            dropout=0.1,
            batch_first=True,
        )
        self.bias = nn.Parameter(torch.zeros(task["vocabulary"]))

    def forward(self, source, given):
        def embed(ids):
            return self.dropout(self.embedding(ids) * self.embedding.embedding_dim**0.5 + self.positions)

        states = self.body(embed(source), embed(given), tgt_mask=self.causal, tgt_is_causal=True)
        return nn.functional.linear(states, self.embedding.weight, self.bias)


def _prepare(task):
    if "beams" in task or task["system"] != "transformer":
        raise NotImplementedError("PyTorch has the training of Transformers alone")
    model = _Translator(task)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    source, given, labels = map(torch.from_numpy, random_batch(task))

    def run():
        with torch.autocast("cpu", torch.bfloat16, enabled=PRECISION == "bfloat16"):
            logits = model(source, given)
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    return run, sum(x.numel() for x in model.parameters())


if __name__ == "__main__":
    serve(_prepare, f"torch {torch.__version__}, nn.Transformer")

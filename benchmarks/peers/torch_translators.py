"""PyTorch's own layers and fused Adam as a contender: `nn.Transformer`, and an RNN of `nn.GRU`, `nn.GRUCell` and
Bahdanau's attention. Attention of the former is `scaled_dot_product_attention`, with all rates of dropout the same.
"""

from protocol import serve
from torch_training import batch, cross_entropy, torch, training

nn = torch.nn


class _Transformer(nn.Module):
    """One embedding for source, target and output; sines for positions."""

    def __init__(self, task):
        super().__init__()
        settings, width = task["settings"], task["settings"]["width"]
        self.embedding = nn.Embedding(task["vocabulary"], width)
        angles = torch.arange(task["length"])[:, None] / 10000.0 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(task["length"]))
        self.dropout = nn.Dropout(settings["dropout"])
        self.body = nn.Transformer(
            width,
            settings["num_heads"],
            settings["encoder_layers"],
            settings["decoder_layers"],
            settings["ffn_dim"],
            dropout=settings["dropout"],
            batch_first=True,
        )
        self.bias = nn.Parameter(torch.zeros(task["vocabulary"]))

    def forward(self, source, given):
        def embed(ids):
            return self.dropout(self.embedding(ids) * self.embedding.embedding_dim**0.5 + self.positions)

        states = self.body(embed(source), embed(given), tgt_mask=self.causal, tgt_is_causal=True)
        return nn.functional.linear(states, self.embedding.weight, self.bias)


class _RNN(nn.Module):
    """As JoeyNMT has it: the current state asks, and a readout of state and context is fed to the next cell."""

    def __init__(self, task):
        super().__init__()
        settings = task["settings"]
        width, hidden, readout = (settings[name] for name in ("embedding_dim", "hidden_dim", "readout_dim"))
        self.source = nn.Embedding(task["vocabulary"], width)
        self.target = nn.Embedding(task["vocabulary"], width)
        self.encoder = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hidden, hidden)
        self.cell = nn.GRUCell(width + readout, hidden)
        self.key = nn.Linear(2 * hidden, hidden, bias=False)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.energy = nn.Linear(hidden, 1, bias=False)
        self.readout = nn.Linear(3 * hidden, readout)
        self.output = nn.Linear(readout, task["vocabulary"], bias=False)
        self.dropout = nn.Dropout(settings["dropout"])

    def forward(self, source, given):
        embedded_source = self.dropout(self.source(source))
        states, last = self.encoder(embedded_source)
        keys = self.key(states)
        hidden = torch.tanh(self.bridge(torch.cat([*last], -1)))
        fed, found = embedded_source.new_zeros(len(source), self.readout.out_features), []
        for embedded in self.dropout(self.target(given)).unbind(1):
            hidden = self.cell(torch.cat([embedded, fed], -1), hidden)
            energies = self.energy(torch.tanh(self.query(hidden)[:, None] + keys))
            context = (energies.softmax(1) * states).sum(1)
            fed = self.dropout(torch.tanh(self.readout(torch.cat([hidden, context], -1))))
            found.append(fed)
        return self.output(torch.stack(found, 1))


_SYSTEMS = {"transformer": _Transformer, "bahdanau": _RNN}


def prepare(task, compiled=False):
    """What `serve` asks for; `compiled` by `torch.compile`."""
    if "beams" in task:
        raise NotImplementedError("PyTorch has no search of its own")
    model = _SYSTEMS[task["system"]](task)
    if compiled:
        model.compile()
    source, given, labels = batch(task)
    return training(model, lambda: cross_entropy(model(source, given), labels))


if __name__ == "__main__":
    serve(prepare, f"torch {torch.__version__}, its own layers")

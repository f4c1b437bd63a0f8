"""The RNN translator in NumPy float64: one sentence, one position, one equation at a time."""

import numpy as np

from tests.bodies.reference_mixture import first_order, log_lexicon, log_mixture, posterior
from tests.layers.equations import normalizing_by
from tests.layers.references import REFERENCES

DEFAULTS = {
    "cell": "gru",
    "encoder_layers": 1,
    "decoder_layers": 1,
    "bidirectional": True,
    "cross_attention": "bahdanau",
    "attention_query": "previous_state",
    "input_feeding": False,
    "readout": "linear",
    "readout_dim": None,
    "readout_embedding": True,
    "initial_state": "linear",
    "tie_embeddings": "none",
    "dropout": 0.0,
    "output": "softmax",
    "marginalization": "exact",
    "top_k": None,
    "max_jump": None,
    "posterior_feeding": False,
}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def log_softmax(x):
    return x - x.max(-1, keepdims=True) - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True))


class ReferenceTranslator:
    """A translator of the weights and arguments of an `RNNBackbone`, for one sentence without padding."""

    def __init__(self, weights, embedding_dim, hidden_dim, **arguments):
        # With posterior feeding, the decoder builds the head.
        paths = {path: path.removeprefix("decoder/") if "/latent" in path else path for path in weights}
        self.weights = {path: np.asarray(weights[full], "float64") for full, path in paths.items()}
        self.hidden_dim = hidden_dim
        self.embedding_dim = embedding_dim
        for name, value in {**DEFAULTS, **arguments}.items():
            setattr(self, name, value)
        if self.tie_embeddings == "all":
            self.weights["source_embedding/embeddings"] = self.target_table

    @property
    def target_table(self):
        [table] = [value for path, value in self.weights.items() if "target_embedding/" in path]
        return table

    def run_cell(self, path, x, states):
        kernel, recurrent, bias = (self.weights[f"{path}/{name}"] for name in ("kernel", "recurrent_kernel", "bias"))
        h = states[0]
        if self.cell == "gru":
            xz, xr, xh = np.split(x @ kernel + bias[0], 3)
            hz, hr, hh = np.split(h @ recurrent + bias[1], 3)
            update, reset = sigmoid(xz + hz), sigmoid(xr + hr)
            return [update * h + (1 - update) * np.tanh(xh + reset * hh)]
        i, f, c, o = np.split(x @ kernel + h @ recurrent + bias, 4)
        cell = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(c)
        return [sigmoid(o) * np.tanh(cell), cell]

    def zero_states(self):
        return [np.zeros(self.hidden_dim)] * (1 if self.cell == "gru" else 2)

    def read(self, path, xs):
        outputs, states = [], self.zero_states()
        for x in xs:
            states = self.run_cell(path, x, states)
            outputs.append(states[0])
        return outputs, states

    def encode(self, ids):
        """Encoder outputs `(source, width)`, and the states that the decoder starts from."""
        xs = list(self.weights["source_embedding/embeddings"][ids])
        last = []
        for i in range(self.encoder_layers):
            name, cell = f"encoder_{i}", f"{self.cell}_cell"
            if self.bidirectional:
                forward, forward_states = self.read(f"{name}/forward_{name}/{cell}", xs)
                backward, backward_states = self.read(f"{name}/backward_{name}/{cell}", xs[::-1])
                xs = [np.concatenate(pair) for pair in zip(forward, backward[::-1], strict=True)]
                last.append([np.concatenate(p) for p in zip(forward_states, backward_states, strict=True)])
            else:
                xs, states = self.read(f"{name}/{cell}", xs)
                last.append(states)
        initial, number = [], 0
        for i in range(self.decoder_layers):
            states = last[i] if self.encoder_layers == self.decoder_layers else last[-1]
            initial.append([])
            for state in states:
                mapped = state @ self.weights[f"initial_state_{number}/kernel"]
                mapped = mapped + self.weights[f"initial_state_{number}/bias"]
                initial[-1].append(np.tanh(mapped) if self.initial_state == "tanh" else mapped)
                number += 1
        return np.array(xs), initial

    def attend(self, queries, h):
        """Context and weights of the last of the queries so far, over encoder states h."""
        name = self.cross_attention
        arguments = name if isinstance(name, dict) else {}
        name = name["attention"] if isinstance(name, dict) else name
        path = "decoder/cross_attention/"
        weights = {p.removeprefix(path): value for p, value in self.weights.items() if p.startswith(path)}
        mask = np.ones((1, len(queries), len(h)), dtype=bool)
        with normalizing_by(arguments.get("normalizer", "softmax")):
            context, alpha = REFERENCES[name].attend(weights, np.array(queries), h, h, mask, mask[0, 0])
        return context[-1], alpha[0, -1]

    def combine(self, s, context, embedded):
        """The readout t_i."""
        if self.readout == "state":
            return s
        joined = np.concatenate([s, context, embedded] if self.readout_embedding else [s, context])
        if "decoder/readout/dense/kernel" not in self.weights:
            return joined
        joined = joined @ self.weights["decoder/readout/dense/kernel"]
        if self.readout == "linear":
            return joined
        joined = joined + self.weights["decoder/readout/dense/bias"]
        if self.readout == "tanh":
            return np.tanh(joined)
        return np.array([max(joined[2 * k], joined[2 * k + 1]) for k in range(len(joined) // 2)])

    def project(self, readout, embedded, encoded, prior):
        if self.output == "latent":
            matrix = self.weights.get("latent_alignment_head/kernel", self.target_table)
            self.lexicons.append(log_lexicon(self.weights, matrix, embedded, readout, encoded))
            return log_mixture(prior, self.lexicons[-1], self.top_k)
        if self.tie_embeddings != "none":
            return self.target_table @ readout
        kernel, bias = (self.weights[f"decoder/output_projection/{name}"] for name in ("kernel", "bias"))
        return kernel @ readout + bias

    @property
    def readout_width(self):
        if self.tie_embeddings != "none":
            return self.embedding_dim
        return self.readout_dim or self.hidden_dim

    def decode(self, source, target, forced=None):
        """Readouts, logits, weights, and the tokens read, along a target; where not `forced`, along guesses."""
        h, states = self.encode(source)
        fed = np.zeros(self.readout_width)
        readouts, logits, weights, read, queries = [], [], [], [], []
        self.lexicons = []
        for i, token in enumerate(target):
            if forced is not None and i > 0 and not forced[i]:
                token = int(np.argmax(logits[-1]))
            read.append(token)
            embedded = self.target_table[token]
            inputs = [embedded]
            if self.attention_query == "previous_state":
                queries.append(states[-1][0])
                context, alpha = self.attend(queries, h)
                inputs.append(context)
            if self.input_feeding:
                inputs.append(fed)
            last = None
            if i > 0 and (self.posterior_feeding or self.max_jump):
                last = posterior(weights[-1], self.lexicons[-1], token)
            if self.posterior_feeding:
                inputs.append(np.zeros(h.shape[1]) if last is None else last @ h)
            x = np.concatenate(inputs)
            for layer in range(self.decoder_layers):
                states[layer] = self.run_cell(f"decoder/cell_{layer}", x, states[layer])
                x = states[layer][0]
            if self.attention_query == "current_state":
                queries.append(x)
                context, alpha = self.attend(queries, h)
            if self.max_jump and last is not None:
                alpha = first_order(self.weights["first_order_alignment/jumps"], alpha, last)
            fed = self.combine(x, context, embedded)
            readouts.append(fed)
            logits.append(self.project(fed, embedded, h, alpha))
            weights.append(alpha)
        return np.array(readouts), np.array(logits), np.array(weights), read

    def nll(self, source, target, labels, label_smoothing=0.0):
        """Loss of every label."""
        _, log_p, weights, _ = self.decode(source, target)
        if self.output == "latent":
            uniform = np.array([p @ q.mean(-1) for p, q in zip(weights, self.lexicons, strict=True)])
        else:
            log_p = log_softmax(log_p)
            uniform = log_p.mean(-1)
        gold = -log_p[np.arange(len(labels)), labels]
        return (1 - label_smoothing) * gold - label_smoothing * uniform

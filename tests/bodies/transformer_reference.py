"""The Transformer translator in NumPy float64: one sentence, one layer, one equation at a time."""

import functools

import numpy as np
from scipy.stats import norm

from tests.bodies.reference_mixture import first_order, log_lexicon, log_mixture, posterior
from tests.layers.equations import by_position, normalizing_by
from tests.layers.references import REFERENCES
from tests.layers.references.recurrent_attention import refined

DEFAULTS = {
    "num_heads": 2,
    "encoder_attention": "multi_head",
    "decoder_attention": "multi_head",
    "cross_attention": "multi_head",
    "normalization": "post",
    "norm": "layer",
    "activation": "relu",
    "encoder_positions": "sine",
    "decoder_positions": "sine",
    "tie_embeddings": "none",
    "attention_layer": -1,
    "output": "softmax",
    "marginalization": "exact",
    "top_k": None,
    "max_jump": None,
}


def sine(length, width):
    positions = np.zeros((length, width))
    for i in range(length):
        for k in range(width):
            angle = i / 10000 ** (2 * (k // 2) / width)
            positions[i, k] = np.cos(angle) if k % 2 else np.sin(angle)
    return positions


class ReferenceTransformer:
    """A translator of the weights and arguments of a `TransformerBackbone`, for one sentence without padding."""

    def __init__(self, weights, width, encoder_layers, decoder_layers, **arguments):
        self.weights = {path: np.asarray(value, "float64") for path, value in weights.items()}
        self.width = width
        self.layers = {"encoder": encoder_layers, "decoder": decoder_layers}
        for name, value in {**DEFAULTS, **arguments}.items():
            setattr(self, "norm_kind" if name == "norm" else name, value)

    def under(self, path):
        """Weights below a path, by the rest of their names."""
        return {p.removeprefix(f"{path}/"): w for p, w in self.weights.items() if p.startswith(f"{path}/")}

    def norm(self, path, x):
        if self.norm_kind == "rms":
            return self.weights[f"{path}/scale"] * x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-5)
        gamma, beta = self.weights[f"{path}/gamma"], self.weights[f"{path}/beta"]
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return gamma * (x - mean) / np.sqrt(variance + 1e-5) + beta

    def part(self, layer, name, x, function):
        norm = f"{layer}/{name}_norm"
        if self.normalization == "pre":
            return x + function(self.norm(norm, x))
        return self.norm(norm, x + function(x))

    def feed_forward(self, layer, x):
        w = self.under(layer)

        def network(x):
            hidden = x @ w["ffn_hidden/kernel"] + w["ffn_hidden/bias"]
            if self.activation == "relu":
                hidden = np.maximum(hidden, 0)
            else:
                gate = {"swiglu": 1 / (1 + np.exp(-hidden)), "geglu": norm.cdf(hidden)}[self.activation]
                hidden = hidden * gate * (x @ w["ffn_gated/kernel"] + w["ffn_gated/bias"])
            return hidden @ w["ffn_output/kernel"] + w["ffn_output/bias"]

        return self.part(layer, "ffn", x, network)

    def embed(self, side, ids):
        table = self.weights[f"{'target' if self.tie_embeddings == 'all' else side}_embedding/embeddings"]
        x = np.sqrt(self.width) * table[ids]
        stack = {"source": "encoder", "target": "decoder"}[side]
        kind = getattr(self, f"{stack}_positions")
        if kind == "sine":
            x = x + sine(len(ids), self.width)
        if kind == "learned":
            x = x + self.weights[f"{stack}_positions/embeddings"][: len(ids)]
        return x

    def attend(self, place, number, path, query, value, mask):
        """Context and scores of one layer's attention."""
        name = getattr(self, f"{place}_attention")
        name = name[number] if isinstance(name, list) else name
        arguments = name if isinstance(name, dict) else {}
        name = name["attention"] if isinstance(name, dict) else name
        if name == "recurrent":
            attend = by_position(self.shared_matrices(place, number, arguments))
        elif name == "gaussian":
            offsets = (-1, 1) if place == "encoder" else (-1, 0)
            attend = by_position(lambda w, i, j, n: -0.5 * (j - i - offsets[n % 2]) ** 2)
        else:
            attend = REFERENCES[name].attend
        positions = arguments.get("positions", getattr(self, f"{place}_positions", None))
        if positions in ("rotary", "alibi"):
            attend = functools.partial(attend, positions=positions)
        own = REFERENCES[name]
        heads = 1 if own.num_heads == 1 else self.num_heads * own.maps
        mask = np.repeat(mask[None], heads, axis=0)
        with normalizing_by(arguments.get("normalizer", "softmax")):
            return attend(self.under(path), query, value, value, mask, np.ones(len(value), dtype=bool))

    def shared_matrices(self, place, number, arguments):
        matrices = self.weights[f"{place}_initial_attention/matrices"]
        if place == "decoder":
            matrices = np.tril(matrices)
        names = getattr(self, f"{place}_attention")
        names = names[: number + 1] if isinstance(names, list) else [names] * (number + 1)
        given = {key: arguments[key] for key in ("normalize", "residual", "cell") if key in arguments}
        memory = None
        for name in names:
            if name == "recurrent" or (isinstance(name, dict) and name["attention"] == "recurrent"):
                matrices = refined(matrices, self.under(f"{place}_transition"), **given, memory=memory)
                matrices, memory = matrices if given.get("cell") == "lstm" else (matrices, None)
        return lambda weights, i, j, n: matrices[n, i, j]

    def encode(self, ids):
        """Encoder outputs, and the scores of every layer."""
        x, scores = self.embed("source", ids), []
        everything = np.ones((len(ids), len(ids)), dtype=bool)
        for number in range(self.layers["encoder"]):
            layer = f"encoder_{number}"

            def attention(x, number=number, layer=layer):
                context, one = self.attend("encoder", number, f"{layer}/attention", x, x, everything)
                scores.append(one)
                return context

            x = self.feed_forward(layer, self.part(layer, "attention", x, attention))
        return (self.norm("encoder_norm", x) if self.normalization == "pre" else x), scores

    def decode(self, source, target):
        """Outputs, logits, and the scores of every layer's self- and cross-attention, along a target."""
        h, _ = self.encode(source)
        x, self_scores, cross_scores = self.embed("target", target), [], []
        triangle = np.tril(np.ones((len(target), len(target)), dtype=bool))
        everything = np.ones((len(target), len(source)), dtype=bool)
        for number in range(self.layers["decoder"]):
            layer = f"decoder_{number}"

            def self_attention(x, number=number, layer=layer):
                context, one = self.attend("decoder", number, f"{layer}/self_attention", x, x, triangle)
                self_scores.append(one)
                return context

            def cross_attention(x, number=number, layer=layer):
                context, one = self.attend("cross", number, f"{layer}/cross_attention", x, h, everything)
                cross_scores.append(one)
                return context

            x = self.part(layer, "self_attention", x, self_attention)
            x = self.part(layer, "cross_attention", x, cross_attention)
            x = self.feed_forward(layer, x)
        if self.normalization == "pre":
            x = self.norm("decoder_norm", x)
        if self.output == "latent":
            logits = self.mixture(target, h, x, cross_scores)
        elif self.tie_embeddings == "none":
            logits = x @ self.weights["output_projection/kernel"].T + self.weights["output_projection/bias"]
        else:
            logits = x @ self.weights["target_embedding/embeddings"].T
        return x, logits, self_scores, cross_scores

    def of_layer(self, cross_scores):
        """The scores of the alignment; of one of first order, its own, of the target that was decoded last."""
        return self.moved[None] if self.max_jump else self.of_attention(cross_scores)

    def of_attention(self, cross_scores):
        if self.attention_layer == "all":
            return np.concatenate(cross_scores)
        layer, *head = map(int, str(self.attention_layer).split(":"))
        return cross_scores[layer][head] if head else cross_scores[layer]

    def mixture(self, target, encoded, states, cross_scores):
        tied = self.tie_embeddings != "none"
        matrix = self.weights["target_embedding/embeddings" if tied else "latent_alignment_head/kernel"]
        priors = self.of_attention(cross_scores).mean(0)
        embedded = self.weights["target_embedding/embeddings"][target] * np.sqrt(self.width)
        lexicons = [log_lexicon(self.weights, matrix, *parts, encoded) for parts in zip(embedded, states, strict=True)]
        if self.max_jump:
            for i in range(1, len(target)):
                last = posterior(priors[i - 1], lexicons[i - 1], target[i])
                priors[i] = first_order(self.weights["first_order_alignment/jumps"], priors[i], last)
            self.moved = priors
        return np.array([log_mixture(*parts, self.top_k) for parts in zip(priors, lexicons, strict=True)])

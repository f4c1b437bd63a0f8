"""Every mechanism of the registry once more, in NumPy and float64: the paper's equation, position by position.

A reference sees one sentence: query `(target, query_dim)`, key `(source, key_dim)`, value `(source, value_dim)`,
a mask `(heads, target, source)`, true where a position may be attended, and `real` `(source,)`, false at padding. In
self-attention the query is key and value. It returns the context and the scores `(heads, target, source)`.
"""

import dataclasses
import functools

import numpy as np


@dataclasses.dataclass(frozen=True)
class Reference:
    """A mechanism's equation, and sizes that suit it: prime and, where it allows that, all different.

    Attributes:
        attend: function of weights by name, query, key, value, mask and `real` to context and scores.
        query_dim, key_dim, value_dim: widths of the inputs.
        width, num_heads, max_length: what the registry entry is sized with.
        context_dim: width of the context; None for that of the value.
        share: whether the scores leave a share to what is no source position.
        without_gradient: weights that shift all energies of a row alike, which softmax does not see.
    """

    attend: callable
    query_dim: int = 7
    key_dim: int = 11
    value_dim: int = 13
    width: int = 5
    num_heads: int = 1
    max_length: int = 7
    context_dim: int | None = None
    share: bool = False
    without_gradient: tuple = ()


def softmax(energies, mask):
    """Softmax over the positions where the mask is true; 0 at the others."""
    real = [j for j in range(len(energies)) if mask[j]]
    weights = np.zeros(len(energies))
    for j in real:
        weights[j] = 1 / sum(np.exp(energies[k] - energies[j]) for k in real)
    return weights


def single_head(energy, value, mask):
    """Context and scores of `energy(i, j, past)`, where `past` holds the scores of the positions before i."""
    _, target, source = mask.shape
    context, scores = np.zeros((target, value.shape[1])), np.zeros((1, target, source))
    for i in range(target):
        energies = [energy(i, j, scores[0, :i]) for j in range(source)]
        scores[0, i] = softmax(energies, mask[0, i])
        for j in range(source):
            context[i] += scores[0, i, j] * value[j]
    return context, scores


def bahdanau(weights, query, key, value, mask, real):
    W, U, b = weights["query_kernel"], weights["key_kernel"], weights["bias"]
    v = weights["energy_kernel"][:, 0]

    def energy(i, j, past):
        return v @ np.tanh(query[i] @ W + key[j] @ U + b)

    return single_head(energy, value, mask)


def bahdanau_feedback(weights, query, key, value, mask, real):
    W, U, b = weights["query_kernel"], weights["key_kernel"], weights["bias"]
    v, u = weights["energy_kernel"][:, 0], weights["feedback_kernel"][0]

    def energy(i, j, past):
        return v @ np.tanh(query[i] @ W + key[j] @ U + b + u * sum(past[:, j]))

    return single_head(energy, value, mask)


def luong(weights, query, key, value, mask, real, score):
    def energy(i, j, past):
        if score == "dot":
            return query[i] @ key[j]
        if score == "general":
            return query[i] @ weights["kernel"] @ key[j]
        W = np.concatenate([weights["query_kernel"], weights["key_kernel"]])
        return weights["energy_kernel"][:, 0] @ np.tanh(np.concatenate([query[i], key[j]]) @ W)

    return single_head(energy, value, mask)


def uniform(weights, query, key, value, mask, real):
    _, target, source = mask.shape
    context, scores = np.zeros((target, value.shape[1])), np.zeros((1, target, source))
    for i in range(target):
        for j in range(source):
            if mask[0, i, j]:
                scores[0, i, j] = 1 / sum(mask[0, i])
                context[i] += value[j] / sum(mask[0, i])
    return context, scores


# Attention in heads.


def project(weights, part, x, n):
    """W^n x + b^n."""
    return x @ weights[f"{part}/kernel"][:, n] + weights[f"{part}/bias"][n]


def merge(weights, heads, mask):
    """Σ_n O^n c^n + b of every position; 0 where it has nothing to attend."""
    W, b = weights["attention_output/kernel"], weights["attention_output/bias"]
    merged = np.zeros((len(heads), len(b)))
    for i, contexts in enumerate(heads):
        if mask[:, i].any():
            merged[i] = sum(c @ W[n] for n, c in enumerate(contexts)) + b
    return merged


@dataclasses.dataclass
class Past:
    """What the positions before have left: scores and energies by head and position, contexts by position and head."""

    scores: np.ndarray
    energies: np.ndarray
    contexts: np.ndarray


def headed(energies, weights, value, mask):
    """Context and scores of `energies(i, n, past)`, a list over the source, for the head n at position i."""
    heads, target, source = mask.shape
    value_dim = weights["value/kernel"].shape[2]
    past = Past(np.zeros(mask.shape), np.zeros(mask.shape), np.zeros((target, heads, value_dim)))
    for i in range(target):
        for n in range(heads):
            past.energies[n, i] = energies(i, n, past)
            past.scores[n, i] = softmax(past.energies[n, i], mask[n, i])
            for j in range(source):
                past.contexts[i, n] += past.scores[n, i, j] * project(weights, "value", value[j], n)
    return merge(weights, past.contexts, mask), past.scores


def dot_product(weights, query, key, value, mask, real, change=None, after=None):
    """Scaled dot products; `change(i, n, j, past)` is added to the query, `after(i, n, energies, past)` has the end."""
    d_k = weights["query/kernel"].shape[2]

    def energies(i, n, past):
        found = []
        for j in range(len(key)):
            q = project(weights, "query", query[i], n)
            if change is not None:
                q = q + change(i, n, j, past)
            found.append(q @ project(weights, "key", key[j], n) / np.sqrt(d_k))
        return found if after is None else after(i, n, found, past)

    return headed(energies, weights, value, mask)


def previous_context(weights, *inputs):
    def change(i, n, j, past):
        return past.contexts[i - 1, n] @ weights["context_kernel"][n] if i else 0

    return dot_product(weights, *inputs, change=change)


def previous_weight(weights, *inputs):
    def change(i, n, j, past):
        return past.scores[n, i - 1, j] * weights["weight_kernel"][n] if i else 0

    return dot_product(weights, *inputs, change=change)


def accumulated_weight(weights, *inputs):
    def change(i, n, j, past):
        return sum(past.scores[n, :i, j]) * weights["weight_kernel"][n]

    return dot_product(weights, *inputs, change=change)


def weight_subtraction(weights, *inputs):
    d_k = weights["query/kernel"].shape[2]

    def after(i, n, energies, past):
        return [e - 0.5 / np.sqrt(d_k) * sum(past.scores[n, :i, j]) for j, e in enumerate(energies)]

    return dot_product(weights, *inputs, after=after)


def energy_accumulation(weights, query, key, value, mask, real, mixing=0.5, window=5):
    def after(i, n, energies, past):
        found = []
        for j, energy in enumerate(energies):
            near = [k for k in range(len(energies)) if abs(k - j) <= window and real[k]]
            before = sum(past.energies[n, i - 1, k] for k in near) if i else 0
            found.append(mixing * energy + (1 - mixing) / (2 * window + 1) * before)
        return found

    return dot_product(weights, query, key, value, mask, real, after=after)


def expanded_key_value(weights, query, key, value, mask, real, variant):
    heads, target, _ = mask.shape
    d_k, d_v = weights["key/kernel"].shape[2], weights["value/kernel"].shape[2]
    contexts, scores = np.zeros((target, heads, d_v)), np.zeros(mask.shape)
    for i in range(target):
        before = contexts[i - 1] if i else np.zeros((heads, d_v))
        # c_0 = 0: no bias of the output either.
        full = merge(weights, contexts, mask)[i - 1] if i else np.zeros(query.shape[1])
        for n in range(heads):
            if variant == 1:
                g_k, g_v = project(weights, "key", full, n), project(weights, "value", full, n)
            elif variant == 2:
                g_k, g_v = (full @ weights[f"context_{part}_kernel"][:, n] for part in ("key", "value"))
            else:
                g_k = before[n] @ weights["context_key_kernel"][n]
                g_v = before[n] @ weights["context_value_kernel"][n] if variant == 3 else before[n]
            q = project(weights, "query", query[i], n)
            keys = [project(weights, "key", h, n) for h in key] + [g_k]
            values = [project(weights, "value", h, n) for h in value] + [g_v]
            alpha = softmax([q @ k / np.sqrt(d_k) for k in keys], [*mask[n, i], mask[n, i].any()])
            scores[n, i] = alpha[:-1]
            contexts[i, n] = sum(a * v for a, v in zip(alpha, values, strict=True))
    return merge(weights, contexts, mask), scores


def by_position(energy):
    """The reference of `energy(weights, i, j, n)`, which no token has a say in."""

    def attend(weights, query, key, value, mask, real):
        def energies(i, n, past):
            return [energy(weights, i, j, n) for j in range(mask.shape[2])]

        return headed(energies, weights, value, mask)

    return attend


def random_synthesizer(weights, i, j, n):
    return weights["energies"][n, i, j]


def gaussian(weights, i, j, n):
    centre = i + (-1, 0)[n % 2]
    return np.log(np.exp(-((j - centre) ** 2) / 2) / np.sqrt(2 * np.pi))


def refined(matrices, weights, normalize=True, residual=True):
    """Equations 3 and 4 of recurrent attention."""
    hidden = np.tanh(matrices @ weights["dense/kernel"] + weights["dense/bias"])
    if normalize:
        hidden = (hidden - hidden.mean(-1, keepdims=True)) / np.sqrt(hidden.var(-1, keepdims=True) + 1e-3)
        hidden = weights["normalization/gamma"] * hidden + weights["normalization/beta"]
    return hidden + matrices if residual else hidden


def recurrent(weights, i, j, n):
    transition = {name.removeprefix("transition/"): w for name, w in weights.items()}
    return refined(np.tril(weights["initial_attention/matrices"][n]), transition)[i, j]


def average(weights, query, key, value, mask, real, ffn=True, gate=True):
    _, target, _ = mask.shape
    scores, context = np.zeros(mask.shape), np.zeros(query.shape)
    for i in range(target):
        so_far = [j for j in range(i + 1) if mask[0, i, j]]
        if not so_far:
            continue
        scores[0, i, so_far] = 1 / len(so_far)
        g = sum(query[j] for j in so_far) / len(so_far)
        if ffn:
            hidden = np.maximum(g @ weights["ffn_hidden/kernel"] + weights["ffn_hidden/bias"], 0)
            g = hidden @ weights["ffn_output/kernel"] + weights["ffn_output/bias"]
        if gate:
            gates = np.concatenate([query[i], g]) @ weights["gate/kernel"] + weights["gate/bias"]
            keep, forget = np.split(1 / (1 + np.exp(-gates)), 2)
            g = keep * query[i] + forget * g
        context[i] = g
    return context, scores


HEADED = functools.partial(Reference, width=6, num_heads=2, context_dim=7)
EXPANDED = functools.partial(HEADED, share=True)

REFERENCES = {
    "bahdanau": Reference(bahdanau),
    "bahdanau_feedback": Reference(bahdanau_feedback),
    "luong_dot": Reference(functools.partial(luong, score="dot"), query_dim=11),
    "luong_general": Reference(functools.partial(luong, score="general")),
    "luong_concat": Reference(functools.partial(luong, score="concat")),
    "uniform": Reference(uniform),
    "multi_head": HEADED(dot_product, without_gradient=("key/bias",)),
    "average": Reference(average, context_dim=7),
    "average_without_ffn": Reference(functools.partial(average, ffn=False), context_dim=7),
    "average_without_gate": Reference(functools.partial(average, gate=False), context_dim=7),
    "random_synthesizer": HEADED(by_position(random_synthesizer)),
    "gaussian": HEADED(by_position(gaussian)),
    "recurrent": HEADED(by_position(recurrent)),
    "previous_context": HEADED(previous_context, without_gradient=("key/bias",)),
    "previous_weight": HEADED(previous_weight),
    "accumulated_weight": HEADED(accumulated_weight),
    # The context goes where keys and values come from.
    "expanded_key_value_1": EXPANDED(
        functools.partial(expanded_key_value, variant=1), key_dim=7, value_dim=7, without_gradient=("key/bias",)
    ),
    "expanded_key_value_2": EXPANDED(functools.partial(expanded_key_value, variant=2)),
    "expanded_key_value_3": EXPANDED(functools.partial(expanded_key_value, variant=3)),
    "expanded_key_value_4": EXPANDED(functools.partial(expanded_key_value, variant=4)),
    "energy_accumulation": HEADED(energy_accumulation),
    "weight_subtraction": HEADED(weight_subtraction, without_gradient=("key/bias",)),
}

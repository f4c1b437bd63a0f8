"""Every mechanism of the registry once more, in NumPy and float64: the paper's equation, position by position.

A reference sees one sentence: query `(target, query_dim)`, key `(source, key_dim)`, value `(source, value_dim)`
and a mask `(heads, target, source)`, true where a position may be attended. It returns the context
`(target, value_dim)` and the scores `(heads, target, source)`.
"""

import dataclasses
import functools

import numpy as np


@dataclasses.dataclass(frozen=True)
class Reference:
    """A mechanism's equation, and sizes that suit it: prime and, where it allows that, all different.

    Attributes:
        attend: function of weights by name, query, key, value and mask to context and scores.
        query_dim, key_dim, value_dim: widths of the inputs.
        width: what the registry entry is sized with.
    """

    attend: callable
    query_dim: int = 7
    key_dim: int = 11
    value_dim: int = 13
    width: int = 5


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


def bahdanau(weights, query, key, value, mask):
    W, U, b = weights["query_kernel"], weights["key_kernel"], weights["bias"]
    v = weights["energy_kernel"][:, 0]

    def energy(i, j, past):
        return v @ np.tanh(query[i] @ W + key[j] @ U + b)

    return single_head(energy, value, mask)


def bahdanau_feedback(weights, query, key, value, mask):
    W, U, b = weights["query_kernel"], weights["key_kernel"], weights["bias"]
    v, u = weights["energy_kernel"][:, 0], weights["feedback_kernel"][0]

    def energy(i, j, past):
        return v @ np.tanh(query[i] @ W + key[j] @ U + b + u * sum(past[:, j]))

    return single_head(energy, value, mask)


def luong(weights, query, key, value, mask, score):
    def energy(i, j, past):
        if score == "dot":
            return query[i] @ key[j]
        if score == "general":
            return query[i] @ weights["kernel"] @ key[j]
        W = np.concatenate([weights["query_kernel"], weights["key_kernel"]])
        return weights["energy_kernel"][:, 0] @ np.tanh(np.concatenate([query[i], key[j]]) @ W)

    return single_head(energy, value, mask)


def uniform(weights, query, key, value, mask):
    _, target, source = mask.shape
    context, scores = np.zeros((target, value.shape[1])), np.zeros((1, target, source))
    for i in range(target):
        for j in range(source):
            if mask[0, i, j]:
                scores[0, i, j] = 1 / sum(mask[0, i])
                context[i] += value[j] / sum(mask[0, i])
    return context, scores


REFERENCES = {
    "bahdanau": Reference(bahdanau),
    "bahdanau_feedback": Reference(bahdanau_feedback),
    "luong_dot": Reference(functools.partial(luong, score="dot"), query_dim=11),
    "luong_general": Reference(functools.partial(luong, score="general")),
    "luong_concat": Reference(functools.partial(luong, score="concat")),
    "uniform": Reference(uniform),
}

import numpy as np

from tests.layers.equations import Reference, single_head


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


REFERENCES = {
    "bahdanau": Reference(bahdanau),
    "bahdanau_feedback": Reference(bahdanau_feedback, picture=({}, {"feedback_kernel": 0.1})),
}

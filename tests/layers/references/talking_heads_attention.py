import numpy as np

from tests.layers.equations import HEADED, headed, merge, project


def talking_heads(weights, query, key, value, mask, real):
    _, heads, d_k = weights["query/kernel"].shape
    found = np.zeros((heads, len(query), len(key)))
    for m, i, j in np.ndindex(found.shape):
        found[m, i, j] = project(weights, "query", query[i], m) @ project(weights, "key", key[j], m) / np.sqrt(d_k)

    def energies(i, n, past):
        return [sum(weights["energy_mixture"][m, n] * found[m, i, j] for m in range(heads)) for j in range(len(key))]

    _, scores = headed(energies, weights, value, mask)
    contexts = np.zeros((len(query), heads, weights["value/kernel"].shape[2]))
    for i, n, m, j in np.ndindex(len(query), heads, heads, len(key)):
        contexts[i, n] += weights["weight_mixture"][m, n] * scores[m, i, j] * project(weights, "value", value[j], n)
    return merge(weights, contexts, mask), scores


PICTURE = ({}, {"energy_mixture": 1.0, "weight_mixture": 1.0})
REFERENCES = {"talking_heads": HEADED(talking_heads, without_gradient=("key/bias",), picture=PICTURE)}

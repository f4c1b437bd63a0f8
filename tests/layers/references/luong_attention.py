import functools

import numpy as np

from tests.layers.equations import Reference, single_head


def energy_of(score, weights, query, key):
    if score == "dot":
        return query @ key
    if score == "general":
        return query @ weights["kernel"] @ key
    W = np.concatenate([weights["query_kernel"], weights["key_kernel"]])
    return weights["energy_kernel"][:, 0] @ np.tanh(np.concatenate([query, key]) @ W)


def luong(weights, query, key, value, mask, real, score):
    return single_head(lambda i, j, past: energy_of(score, weights, query[i], key[j]), value, mask)


REFERENCES = {
    "luong_dot": Reference(functools.partial(luong, score="dot"), query_dim=11),
    "luong_general": Reference(functools.partial(luong, score="general")),
    "luong_concat": Reference(functools.partial(luong, score="concat")),
}

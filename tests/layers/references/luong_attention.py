import functools

import numpy as np

from tests.layers.equations import Reference, single_head


def luong(weights, query, key, value, mask, real, score):
    def energy(i, j, past):
        if score == "dot":
            return query[i] @ key[j]
        if score == "general":
            return query[i] @ weights["kernel"] @ key[j]
        W = np.concatenate([weights["query_kernel"], weights["key_kernel"]])
        return weights["energy_kernel"][:, 0] @ np.tanh(np.concatenate([query[i], key[j]]) @ W)

    return single_head(energy, value, mask)


REFERENCES = {
    "luong_dot": Reference(functools.partial(luong, score="dot"), query_dim=11),
    "luong_general": Reference(functools.partial(luong, score="general")),
    "luong_concat": Reference(functools.partial(luong, score="concat")),
}

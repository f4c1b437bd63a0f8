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


def luong(weights, query, key, value, mask, real, score, divisor=1.0):
    return single_head(lambda i, j, past: energy_of(score, weights, query[i], key[j]) / divisor, value, mask)


def scaled(score, query_dim):
    attend = functools.partial(luong, score=score, divisor=np.sqrt(query_dim))
    return {"scaled": {"attend": attend, "arguments": {"scaled": True}, "places": ("cross",)}}


REFERENCES = {
    "luong_dot": Reference(functools.partial(luong, score="dot"), query_dim=11, variants=scaled("dot", 11)),
    "luong_general": Reference(functools.partial(luong, score="general"), variants=scaled("general", 7)),
    "luong_concat": Reference(functools.partial(luong, score="concat")),
}

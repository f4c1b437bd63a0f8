import functools

import numpy as np

from tests.layers.equations import Reference


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


REFERENCES = {
    "average": Reference(average, context_dim=7),
    "average_without_ffn": Reference(functools.partial(average, ffn=False), context_dim=7),
    "average_without_gate": Reference(functools.partial(average, gate=False), context_dim=7),
}

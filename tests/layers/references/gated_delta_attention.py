import numpy as np

from tests.layers.equations import HEADED, merge, project, shares


def silu(x):
    return x / (1 + np.exp(-x))


def gated_delta(weights, query, key, value, mask, real):
    """The recurrence of factors: a position writes to a column of its own, and reads columns under its mask."""
    heads, target, source = mask.shape
    d_k = weights["query/kernel"].shape[2]
    factors, contexts = np.zeros(mask.shape), []
    for n in range(heads):
        q, k = (silu(project(weights, part, query, n)) for part in ("query", "key"))
        q, k = (x / np.sqrt((x**2).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
        steps = np.log1p(np.exp((query @ weights["decay/kernel"][:, n])[:, 0] + weights["step_bias"][n]))
        alpha = np.exp(-np.exp(weights["log_speed"][n]) * steps)
        beta = 1 / (1 + np.exp(-project(weights, "rate", query, n)[:, 0]))
        matrix = np.zeros((d_k, source))
        for i in range(target):
            if real[i]:
                matrix = alpha[i] * (matrix - beta[i] * np.outer(k[i], k[i] @ matrix))
                matrix[:, i] += beta[i] * k[i]
            factors[n, i] = mask[n, i] * (q[i] @ matrix) / np.sqrt(d_k)
        y = factors[n] @ silu(project(weights, "value", value, n))
        y = weights["scale"] * y / np.sqrt((y**2).mean(-1, keepdims=True) + 1e-6)
        contexts.append(y * silu(project(weights, "gate", query, n)))
    # Whatever the mask says of later positions, they have written nothing.
    return merge(weights, np.stack(contexts, axis=1), mask & np.tri(target, source, dtype=bool)), shares(factors)


REFERENCES = {"gated_delta": HEADED(gated_delta, width=8)}

import numpy as np

from tests.layers.equations import Reference


def energies_of(weights, query, key, part=""):
    """e without g and r; with the weights of the chunks, u."""
    W, U, b = (weights[f"{part}{name}"] for name in ("query_kernel", "key_kernel", "bias"))
    return np.tanh((query @ W)[:, None] + key @ U + b) @ weights[f"{part}energy_kernel"][:, 0]


def monotonic(weights, query, key, value, mask, real, chunk_size=1):
    """The recurrence q_ij = (1 - p_{i,j-1}) q_{i,j-1} + α_{i-1,j}, and the chunks position by position."""
    _, target, source = mask.shape
    factor = weights["gain"] / np.linalg.norm(weights["energy_kernel"])
    energies = factor * energies_of(weights, query, key) + weights["offset"]
    chosen = mask[0] / (1 + np.exp(-energies))
    before, scores = np.eye(source)[0], np.zeros(mask.shape)
    for i in range(target):
        waiting, alpha = 0.0, np.zeros(source)
        for j in range(source):
            waiting = waiting * (1 - chosen[i, j - 1] if j else 0.0) + before[j]
            alpha[j] = chosen[i, j] * waiting
        if mask[0, i].any():
            before = alpha
        scores[0, i] = alpha
        if chunk_size > 1:
            u = np.exp(energies_of(weights, query[i : i + 1], key, "chunk_")[0]) * mask[0, i]
            scores[0, i] = 0
            for k in np.flatnonzero(alpha):
                chunk = slice(max(0, k - chunk_size + 1), k + 1)
                scores[0, i, chunk] += alpha[k] * u[chunk] / u[chunk].sum()
    return scores[0] @ value, scores


# Expectations, which are what is trained, without noise; `test_monotonic_attention.py` has decisions.
EXPECTED = {"hard": False, "noise": 0.0}
# In the picture, it stops at the words that are asked for.
PICTURE = {"gain": 12.0, "offset": 9.0}
REFERENCES = {"monotonic": Reference(monotonic, share=True, arguments=EXPECTED, picture=({}, PICTURE))}

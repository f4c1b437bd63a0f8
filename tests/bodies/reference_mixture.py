"""A latent alignment's output in NumPy float64: a softmax for each source position, added up."""

import numpy as np


def log_lexicon(weights, matrix, embedded, state, encoded):
    """log softmax(W (P_e e + P_s s + P_h h_j)) of one target position, `(source, vocabulary)`."""

    def projected(name, x):
        return x @ weights[f"latent_alignment_head/{name}_map/kernel"]

    rows = []
    for h in encoded:
        z = matrix @ (projected("embedded", embedded) + projected("state", state) + projected("encoder", h))
        rows.append(z - z.max() - np.log(np.exp(z - z.max()).sum()))
    return np.array(rows)


def posterior(prior, lexicon, token):
    """p(j|token), `(source,)`."""
    joint = prior * np.exp(lexicon[:, token])
    return joint / joint.sum()


def first_order(jumps, prior, last):
    """Σ_k q(k) p(j|k), where p(j|k) is proportional to p(j) and the weight of the jump from k to j, `(source,)`."""
    largest, moved = len(jumps) // 2, np.zeros_like(prior)
    for k, q in enumerate(last):
        steps = [max(-largest, min(j - k, largest)) for j in range(len(prior))]
        weighted = np.array([p * np.exp(jumps[largest + step]) for p, step in zip(prior, steps, strict=True)])
        moved += q * weighted / weighted.sum()
    return moved


def log_mixture(prior, lexicon, top_k=None):
    """log Σ_j p(j) p(v|j) over the `top_k` largest p(j), `(vocabulary,)`."""
    total = np.zeros(lexicon.shape[1])
    for j in np.argsort(-prior, kind="stable")[:top_k]:
        total += prior[j] * np.exp(lexicon[j])
    return np.log(total)

import numpy as np

from tests.layers.equations import HEADED, merge, project, shares


def swish(x):
    return x / (1 + np.exp(-x))


def turned(x, position):
    """A vector of complex numbers, real parts first, turned by its position."""
    half = len(x) // 2
    numbers = (x[:half] + 1j * x[half:]) * np.exp(1j * position * 10000.0 ** (-np.arange(half) / half))
    return np.concatenate([numbers.real, numbers.imag])


def retention(weights, query, key, value, mask, real):
    heads = len(mask)
    d_k = weights["query/kernel"].shape[2]
    factors, contexts = np.zeros(mask.shape), []
    for n in range(heads):
        q = [turned(x, i) for i, x in enumerate(project(weights, "query", query, n))]
        k = [turned(x, j) for j, x in enumerate(project(weights, "key", key, n))]
        for i, j in np.argwhere(mask[n]):
            factors[n, i, j] = q[i] @ k[j] / np.sqrt(d_k) * (1 - 2.0 ** (-5 - n)) ** abs(i - j)
        y = factors[n] @ project(weights, "value", value, n)
        y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-6)
        contexts.append(y * swish(project(weights, "gate", query, n)))
    return merge(weights, np.stack(contexts, axis=1), mask), shares(factors)


REFERENCES = {"retention": HEADED(retention, width=8)}

import functools

import numpy as np

from tests.layers.equations import HEADED, headed, project


def dense_synthesizer(weights, query, key, value, mask, real, factors=None):
    def energies(i, n, past):
        hidden = np.maximum(project(weights, "hidden", query[i], n), 0)
        found = hidden @ weights["position_kernel"][n] + weights["position_bias"][n, 0]
        if factors is None:
            return found[: len(key)]
        u, w = np.split(found, [factors[0]])
        return [u[j // factors[1]] * w[j % factors[1]] for j in range(len(key))]

    return headed(energies, weights, value, mask)


def looking(width):
    """Where the words of the pictures look."""
    kernel = np.random.default_rng(1).normal(size=(1, 16, width))
    return {}, {"hidden/kernel": np.eye(16)[:, None], "position_kernel": kernel}


REFERENCES = {
    "dense_synthesizer": HEADED(dense_synthesizer, picture=looking(5)),
    # Of seven positions three times three.
    "factorized_dense_synthesizer": HEADED(functools.partial(dense_synthesizer, factors=(3, 3)), picture=looking(5)),
}

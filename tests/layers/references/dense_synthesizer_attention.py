import functools

import numpy as np

from tests.layers.equations import HEADED, headed, project


def dense_synthesizer(weights, query, key, value, mask, real, factorized=False):
    def energies(i, n, past):
        hidden = np.maximum(project(weights, "hidden", query[i], n), 0)
        found = hidden @ weights["position_kernel"][n] + weights["position_bias"][n, 0]
        if not factorized:
            return found[: len(key)]
        # Both factors are as long, or the first one longer by one.
        u, w = np.split(found, [-(-len(found) // 2)])
        return [u[j // len(w)] * w[j % len(w)] for j in range(len(key))]

    return headed(energies, weights, value, mask)


def looking(width):
    """Where the words of the pictures look."""
    kernel = np.random.default_rng(1).normal(size=(1, 16, width))
    return {}, {"hidden/kernel": np.eye(16)[:, None], "position_kernel": kernel}


REFERENCES = {
    "dense_synthesizer": HEADED(dense_synthesizer, picture=looking(5)),
    "factorized_dense_synthesizer": HEADED(functools.partial(dense_synthesizer, factorized=True), picture=looking(5)),
}

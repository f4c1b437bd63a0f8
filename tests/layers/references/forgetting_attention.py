import numpy as np

from tests.layers.equations import HEADED, dot_product, project


def forgetting(weights, query, key, value, mask, real):
    def after(i, n, energies, past):
        gates = np.log(1 / (1 + np.exp(-project(weights, "gate", query, n)[:, 0])))
        gates = np.where(real, gates, 0)
        return [energy + gates[min(i, j) + 1 : max(i, j) + 1].sum() for j, energy in enumerate(energies)]

    return dot_product(weights, query, key, value, mask, real, after=after)


REFERENCES = {"forgetting": HEADED(forgetting, without_gradient=("key/bias",), picture=({}, {"query/kernel": 0.0}))}

import numpy as np

from tests.layers.equations import HEADED, by_position


def random_synthesizer(weights, i, j, n):
    return weights["energies"][n, i, j]


def factorized(weights, i, j, n):
    return weights["row_factors"][n, i] @ weights["column_factors"][n, j]


FACTORS = {
    f"{name}_factors": np.random.default_rng(i).normal(size=(1, 5, 8)) for i, name in enumerate(("row", "column"))
}
REFERENCES = {
    "random_synthesizer": HEADED(by_position(random_synthesizer)),
    "factorized_random_synthesizer": HEADED(by_position(factorized), picture=({}, FACTORS)),
}

import numpy as np

from tests.layers.equations import HEADED, dot_product


def weight_subtraction(weights, *inputs):
    d_k = weights["query/kernel"].shape[2]

    def after(i, n, energies, past):
        return [e - 0.5 / np.sqrt(d_k) * sum(past.scores[n, :i, j]) for j, e in enumerate(energies)]

    return dot_product(weights, *inputs, after=after)


REFERENCES = {
    "weight_subtraction": HEADED(
        weight_subtraction,
        without_gradient=("key/bias",),
        picture=({"subtraction": 10.0}, {}),
        playground={"subtraction": (0.5, 3.0, 30.0)},
    )
}

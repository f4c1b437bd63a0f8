import numpy as np

from tests.layers.equations import HEADED, dot_product


def previous_context(weights, *inputs):
    def change(i, n, j, past):
        return past.contexts[i - 1, n] @ weights["context_kernel"][n] if i else 0

    return dot_product(weights, *inputs, change=change)


REFERENCES = {
    "previous_context": HEADED(
        previous_context, without_gradient=("key/bias",), picture=({}, {"context_kernel": 4.0 * np.eye(16)})
    )
}

import numpy as np

from tests.layers.equations import HEADED, dot_product


def sliding_window(weights, query, key, value, mask, real, window=2, sinks=1):
    near = [[abs(i - j) < window or j < sinks for j in range(len(key))] for i in range(len(query))]
    return dot_product(weights, query, key, value, mask & np.array(near, dtype=bool), real)


NEARBY = {"window": 2, "sinks": 1}
REFERENCES = {
    "sliding_window": HEADED(
        sliding_window,
        without_gradient=("key/bias",),
        arguments=NEARBY,
        picture=(NEARBY, {"query/kernel": 0.0}),
        playground={"window": (1, 3), "sinks": (0, 2)},
    )
}

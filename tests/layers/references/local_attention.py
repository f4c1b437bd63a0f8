import functools

import numpy as np

from tests.layers.equations import Reference, normalize
from tests.layers.references.luong_attention import energy_of


def local(weights, query, key, value, mask, real, alignment, window, score="general"):
    _, target, source = mask.shape
    context, scores = np.zeros((target, value.shape[1])), np.zeros((1, target, source))
    for i in range(target):
        centre = i
        if alignment == "predictive":
            hidden = np.tanh(query[i] @ weights["position_kernel"])
            centre = sum(real) / (1 + np.exp(-hidden @ weights["position_vector"][:, 0]))
        inside = [bool(mask[0, i, j]) and centre - window <= j <= centre + window for j in range(source)]
        scores[0, i] = normalize([energy_of(score, weights, query[i], key[j]) for j in range(source)], inside)
        for j in range(source):
            if alignment == "predictive":
                sigma = window / 2
                scores[0, i, j] *= np.exp(-((j - centre) ** 2) / (2 * sigma**2))
            context[i] += scores[0, i, j] * value[j]
    return context, scores


# A window that leaves positions out at these lengths. In the picture the predicted positions move on by one word.
MOVING_ON = np.log((np.arange(5) + 0.5) / (4.5 - np.arange(5))) / np.tanh(1.8)
REFERENCES = {
    "local_m": Reference(
        functools.partial(local, alignment="monotonic", window=1),
        arguments={"window": 1},
        picture=({"window": 1}, {}),
        playground={"window": (2, 3)},
    ),
    "local_p": Reference(
        functools.partial(local, alignment="predictive", window=2),
        arguments={"window": 2},
        share=True,
        picture=(
            {"window": 2},
            {"position_kernel": np.eye(16), "position_vector": np.pad(MOVING_ON, (5, 6))[:, None]},
        ),
        playground={"window": (1, 4)},
    ),
}

import numpy as np

from tests.layers.equations import Reference


def gaussian_mixture(weights, query, key, value, mask, real, components=3):
    _, target, source = mask.shape
    alphas = np.zeros((1, target, source))
    position = np.zeros(components)
    for i in range(target):
        height, sharpness, step = np.split(np.exp(query[i] @ weights["kernel"] + weights["bias"]), 3)
        position = position + step
        for j in np.flatnonzero(mask[0, i]):
            alphas[0, i, j] = sum(height * np.exp(-sharpness * (position - (j + 1)) ** 2))
    return alphas[0] @ value, alphas / np.maximum(alphas.sum(axis=-1, keepdims=True), 1)


# In the picture, the window moves on by one word.
REFERENCES = {
    "gaussian_mixture": Reference(
        gaussian_mixture, share=True, arguments={"components": 3}, picture=({"components": 1}, {"kernel": 0.0})
    )
}

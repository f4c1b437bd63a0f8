import numpy as np

from tests.layers.equations import HEADED, by_position


def refined(matrices, weights, normalize=True, residual=True):
    """Equations 3 and 4 of recurrent attention."""
    hidden = np.tanh(matrices @ weights["dense/kernel"] + weights["dense/bias"])
    if normalize:
        hidden = (hidden - hidden.mean(-1, keepdims=True)) / np.sqrt(hidden.var(-1, keepdims=True) + 1e-3)
        hidden = weights["normalization/gamma"] * hidden + weights["normalization/beta"]
    return hidden + matrices if residual else hidden


def recurrent(weights, *inputs):
    transition = {name.removeprefix("transition/"): w for name, w in weights.items()}
    matrices = refined(np.tril(weights["initial_attention/matrices"]), transition)
    return by_position(lambda weights, i, j, n: matrices[n, i, j])(weights, *inputs)


REFERENCES = {"recurrent": HEADED(recurrent)}

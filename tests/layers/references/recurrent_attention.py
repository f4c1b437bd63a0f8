import numpy as np

from tests.layers.equations import HEADED, by_position


def refined(matrices, weights, normalize=True, residual=True, cell="dense", memory=None):
    """Equations 3 and 4 of recurrent attention; with "lstm", also the memory."""
    hidden, memory = _CELLS[cell](matrices, weights, memory)
    if normalize:
        hidden = (hidden - hidden.mean(-1, keepdims=True)) / np.sqrt(hidden.var(-1, keepdims=True) + 1e-3)
        hidden = weights["normalization/gamma"] * hidden + weights["normalization/beta"]
    hidden = hidden + matrices if residual else hidden
    return (hidden, memory) if cell == "lstm" else hidden


def _map(x, weights, name):
    return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]


def _gates(x, weights, count):
    return np.split(1 / (1 + np.exp(-_map(x, weights, "inner"))), count, axis=-1)


def _gru(x, weights, _):
    update, reset = _gates(x, weights, 2)
    return x + update * (np.tanh(_map(reset * x, weights, "dense")) - x), None


def _lstm(x, weights, memory):
    into, keep, out = _gates(x, weights, 3)
    memory = keep * (0 if memory is None else memory) + into * np.tanh(_map(x, weights, "dense"))
    return out * np.tanh(memory), memory


_CELLS = {
    "dense": lambda x, weights, _: (np.tanh(_map(x, weights, "dense")), None),
    "feed_forward": lambda x, weights, _: (_map(np.maximum(_map(x, weights, "inner"), 0), weights, "dense"), None),
    "gru": _gru,
    "lstm": _lstm,
}


def recurrent(weights, *inputs):
    transition = {name.removeprefix("transition/"): w for name, w in weights.items()}
    matrices = refined(np.tril(weights["initial_attention/matrices"]), transition)
    return by_position(lambda weights, i, j, n: matrices[n, i, j])(weights, *inputs)


REFERENCES = {"recurrent": HEADED(recurrent)}

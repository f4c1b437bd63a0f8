"""What the references share: attention in NumPy and float64, position by position, in one head and in several.

A reference sees one sentence: query `(target, query_dim)`, key `(source, key_dim)`, value `(source, value_dim)`,
a mask `(heads, target, source)`, true where a position may be attended, and `real` `(source,)`, false at padding. In
self-attention the query is key and value. It returns the context and the scores `(heads, target, source)`.
"""

import contextlib
import dataclasses
import functools

import numpy as np


@dataclasses.dataclass(frozen=True)
class Reference:
    """A mechanism's equation, and sizes that suit it: prime and, where it allows that, all different.

    Attributes:
        attend: function of weights by name, query, key, value, mask and `real` to context and scores.
        query_dim, key_dim, value_dim: widths of the inputs.
        width, num_heads, max_length: what the registry entry is sized with.
        context_dim: width of the context; None for that of the value.
        maps: the softmaxes of a head, each of which `num_heads` counts.
        share: whether the scores leave a share to what is no source position.
        without_gradient: weights that shift all energies of a row alike, which softmax does not see.
        arguments: of the layer under test, where its defaults would not show at these sizes.
        picture: what makes the mechanism visible in the pictures of all layers: arguments, and weights by name.
        playground: values of arguments that readers of the site's gallery choose from, besides those of `picture`.
        variants: the same with other arguments, by a name: what is theirs alone; and the normaliser, the places.
    """

    attend: callable
    query_dim: int = 7
    key_dim: int = 11
    value_dim: int = 13
    width: int = 5
    num_heads: int = 1
    max_length: int = 7
    context_dim: int | None = None
    maps: int = 1
    share: bool = False
    without_gradient: tuple = ()
    arguments: dict = dataclasses.field(default_factory=dict)
    picture: tuple = ({}, {})
    playground: dict = dataclasses.field(default_factory=dict)
    variants: dict = dataclasses.field(default_factory=dict)


def softmax(energies, mask):
    """Softmax over the positions where the mask is true; 0 at the others."""
    weights, real = np.zeros(len(energies)), np.flatnonzero(mask)
    e = np.array(energies)[real]
    weights[real] = 1 / np.sum(np.exp(e - e[:, None]), axis=1)
    return weights


def sparse(name):
    """Sparsemax or entmax of energies and a mask, its threshold found by bisection."""
    scale, power = {"sparsemax": (1.0, 1), "entmax15": (0.5, 2)}[name]

    def weights(energies, mask):
        # Of so few numbers, Python's own are quicker than arrays.
        x = {j: scale * float(e) for j, e in enumerate(energies) if mask[j]}
        high = max(x.values(), default=0.0)
        low = high - 1
        for _ in range(60):
            middle = (low + high) / 2
            if sum([(e - middle) ** power for e in x.values() if e > middle]) > 1:
                low = middle
            else:
                high = middle
        return np.array([max(x[j] - low, 0) ** power if j in x else 0.0 for j in range(len(energies))])

    return weights


def softmax1(energies, mask):
    """Softmax beside an energy of 0, whose weight is dropped."""
    return softmax([*energies, 0.0], [*mask, True])[:-1]


def sigmoid(energies, mask):
    """Each for itself, over as many as the mask is true at."""
    return np.array([1 / (1 + sum(mask) * np.exp(-e)) if m else 0.0 for e, m in zip(energies, mask, strict=True)])


NORMALIZERS = {
    "softmax": softmax,
    "sparsemax": sparse("sparsemax"),
    "entmax15": sparse("entmax15"),
    "softmax1": softmax1,
    "sigmoid": sigmoid,
}
_normalizer = softmax


def normalize(energies, mask):
    """Weights by softmax, or by what the references are told to take."""
    return _normalizer(energies, mask)


@contextlib.contextmanager
def normalizing_by(name):
    """Have the references normalise otherwise."""
    global _normalizer
    _normalizer = NORMALIZERS[name]
    try:
        yield
    finally:
        _normalizer = softmax


def single_head(energy, value, mask):
    """Context and scores of `energy(i, j, past)`, where `past` holds the scores of the positions before i."""
    _, target, source = mask.shape
    context, scores = np.zeros((target, value.shape[1])), np.zeros((1, target, source))
    for i in range(target):
        energies = [energy(i, j, scores[0, :i]) for j in range(source)]
        scores[0, i] = normalize(energies, mask[0, i])
        context[i] = scores[0, i] @ value
    return context, scores


# Attention in heads.


def project(weights, part, x, n):
    """W^n x + b^n."""
    return x @ weights[f"{part}/kernel"][:, n] + weights[f"{part}/bias"][n]


def merge(weights, heads, mask):
    """Σ_n O^n c^n + b of every position; 0 where it has nothing to attend."""
    W, b = weights["attention_output/kernel"], weights["attention_output/bias"]
    merged = np.zeros((len(heads), len(b)))
    for i, contexts in enumerate(heads):
        if mask[:, i].any():
            merged[i] = sum(c @ W[n] for n, c in enumerate(contexts)) + b
    return merged


def shares(factors):
    """Scores of factors that may be negative: without their signs, divided by their sum."""
    total = np.abs(factors).sum(-1, keepdims=True)
    return np.divide(np.abs(factors), total, out=np.zeros_like(factors), where=total > 0)


@dataclasses.dataclass
class Past:
    """What the positions before have left: scores and energies by head and position, contexts by position and head."""

    scores: np.ndarray
    energies: np.ndarray
    contexts: np.ndarray


def headed(energies, weights, value, mask):
    """Context and scores of `energies(i, n, past)`, a list over the source, for the head n at position i."""
    heads, target, _ = mask.shape
    shared = weights["value/kernel"].shape[1]
    values = [project(weights, "value", value, n * shared // heads) for n in range(heads)]
    past = Past(np.zeros(mask.shape), np.zeros(mask.shape), np.zeros((target, heads, values[0].shape[1])))
    for i in range(target):
        for n in range(heads):
            past.energies[n, i] = energies(i, n, past)
            past.scores[n, i] = normalize(past.energies[n, i], mask[n, i])
            past.contexts[i, n] = past.scores[n, i] @ values[n]
    return merge(weights, past.contexts, mask), past.scores


def dot_product(weights, query, key, value, mask, real, change=None, after=None, positions=None):
    """Scaled dot products; `change(i, n, j, past)` is added to the query, `after(i, n, energies, past)` has the end.

    Groups of heads, norms, vectors and biases of distances are known by the weights; `positions`: rotary or alibi.
    """
    _, heads, d_k = weights["query/kernel"].shape
    shared = weights["key/kernel"].shape[1]

    def placed(part, x, position, n):
        x = project(weights, part, x, n)
        if f"{part}_norm/scale" in weights:
            x = weights[f"{part}_norm/scale"] * x / np.sqrt(np.mean(x**2) + 1e-6)
        return rotated(x, position) if positions == "rotary" else x

    keys = [[placed("key", x, j, n * shared // heads) for j, x in enumerate(key)] for n in range(heads)]

    def of_distance(q, distance, n):
        if "positions/vectors" in weights:
            return q @ weights["positions/vectors"][np.clip(distance, -16, 16) + 16] / np.sqrt(d_k)
        if "positions/biases" in weights:
            return weights["positions/biases"][bucket(distance), n]
        # Of two heads or four.
        return -abs(distance) * 2.0 ** (-8 * (n + 1) / heads) if positions == "alibi" else 0.0

    def energies(i, n, past):
        q = placed("query", query[i], i, n)
        changed = (q if change is None else q + change(i, n, j, past) for j in range(len(key)))
        found = [x @ k / np.sqrt(d_k) for x, k in zip(changed, keys[n], strict=True)]
        found = [energy + of_distance(q, j - i, n) for j, energy in enumerate(found)]
        return found if after is None else after(i, n, found, past)

    return headed(energies, weights, value, mask)


def rotated(x, position):
    """Each pair, as a complex number, times exp(i · position · θ)."""
    half = len(x) // 2
    turned = (x[:half] + 1j * x[half:]) * np.exp(1j * position * 10000.0 ** (-np.arange(half) / half))
    return np.concatenate([turned.real, turned.imag])


def bucket(distance):
    """The number of the range of distances in which T5 has this one."""
    far = abs(distance)
    own_side = far if far < 8 else min(15, 8 + int(np.log(far / 8) / np.log(16) * 8))
    return own_side + 16 * (distance > 0)


def by_position(energy):
    """The reference of `energy(weights, i, j, n)`, which no token has a say in."""

    def attend(weights, query, key, value, mask, real):
        def energies(i, n, past):
            return [energy(weights, i, j, n) for j in range(mask.shape[2])]

        return headed(energies, weights, value, mask)

    return attend


HEADED = functools.partial(Reference, width=6, num_heads=2, context_dim=7)

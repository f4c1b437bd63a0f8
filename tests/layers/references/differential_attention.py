import numpy as np

from tests.layers.equations import HEADED, headed, merge, project, shares


def differential(weights, query, key, value, mask, real):
    _, maps, d_k = weights["query/kernel"].shape

    def energies(i, m, past):
        q = project(weights, "query", query[i], m)
        return [q @ project(weights, "key", k, m) / np.sqrt(d_k) for k in key]

    _, scores = headed(energies, weights, value, mask)
    first, second = (np.exp(weights["lambdas"][i, 0] @ weights["lambdas"][i, 1]) for i in (0, 1))
    factor = first - second + 0.8
    contexts = np.zeros((len(query), maps, weights["value/kernel"].shape[2]))
    for i, n in np.ndindex(len(query), maps // 2):
        both = np.concatenate([project(weights, "value", value, 2 * n + half) for half in (0, 1)], axis=1)
        context = (scores[2 * n, i] - factor * scores[2 * n + 1, i]) @ both
        context = 0.2 * weights["context_norm/scale"] * context / np.sqrt(np.mean(context**2) + 1e-5)
        contexts[i, 2 * n : 2 * n + 2] = np.split(context, 2)
    return merge(weights, contexts, mask), np.repeat(shares(scores[::2] - factor * scores[1::2]), 2, axis=0)


# The maps of the picture are 16 wide.
PICTURE = ({"key_dim": 16}, {"context_norm/scale": 1.0})
REFERENCES = {
    "differential": HEADED(
        differential,
        width=12,
        num_heads=4,
        maps=2,
        arguments={"value_dim": 2},
        without_gradient=("key/bias",),
        picture=PICTURE,
    )
}

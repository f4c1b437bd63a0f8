import numpy as np

from tests.layers.equations import Reference, single_head


def structural_biases(weights, query, key, value, mask, real, reach=2, markov_condition=True, local_fertility=True):
    P, R = weights.get("position_kernel"), weights.get("record_kernel")

    def nearby(past, j):
        return [past[place] if 0 <= place < len(past) else 0.0 for place in range(j - reach, j + reach + 1)]

    def energy(i, j, past):
        hidden = query[i] @ weights["query_kernel"] + key[j] @ weights["key_kernel"] + weights["bias"]
        if P is not None:
            hidden = hidden + np.log([1 + i, 1 + j, 1 + sum(real)]) @ P
        features = nearby(past[-1] if i else np.zeros(len(key)), j) if markov_condition else []
        features += nearby(past.sum(axis=0), j) if local_fertility else []
        if features:
            hidden = hidden + features @ R
        return weights["energy_kernel"][:, 0] @ np.tanh(hidden)

    return single_head(energy, value, mask)


def with_(**chosen):
    """The place of a variant with some biases only."""
    off = dict.fromkeys(("position_bias", "markov_condition", "local_fertility"), False) | chosen
    own = {name: is_on for name, is_on in off.items() if name != "position_bias"}

    def attend(*args):
        return structural_biases(*args, **own)

    return {"attend": attend, "arguments": {"reach": 2, **off}, "places": ("cross",)}


# In the picture, the first unit counts the weights so far, which lowers the energy, as in that of the feedback.
COUNTED = np.zeros((6, 16))
COUNTED[4] = 0.1
REFERENCES = {
    "structural_biases": Reference(
        structural_biases,
        arguments={"reach": 2},
        picture=({}, {"record_kernel": COUNTED}),
        variants={"position": with_(position_bias=True), "fertility": with_(local_fertility=True)},
    )
}

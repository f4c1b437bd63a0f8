import numpy as np

from tests.layers.equations import Reference, single_head


def coverage(weights, query, key, value, mask, real):
    W, U, V, b = (weights[name] for name in ("query_kernel", "key_kernel", "coverage_kernel", "bias"))
    of_past, of_weight, of_key, of_query = (
        weights[f"update_{name}kernel"] for name in ("", "weight_", "key_", "query_")
    )
    v = weights["energy_kernel"][:, 0]

    def covered(i, j, past):
        """C_ij, from the first position on."""
        record = np.zeros(V.shape[0])
        for k in range(i):
            record = np.tanh(record @ of_past + past[k, j] * of_weight[0] + key[j] @ of_key + query[k] @ of_query)
        return record

    def energy(i, j, past):
        return v @ np.tanh(query[i] @ W + key[j] @ U + covered(i, j, past) @ V + b)

    return single_head(energy, value, mask)


# In the picture the first of ten numbers counts the weights, which lowers the energy.
COUNTED = np.zeros((10, 16))
COUNTED[0] = 0.5
REFERENCES = {
    "coverage": Reference(
        coverage,
        arguments={"coverage_dim": 3},
        picture=(
            {},
            {"coverage_kernel": COUNTED, "update_kernel": np.eye(10), "update_weight_kernel": np.eye(10)[:1]},
        ),
    )
}

import numpy as np

from tests.layers.equations import HEADED, headed, project, rotated


def multi_head_latent(weights, query, key, value, mask, real):
    """Keys and values made of latents, position by position, as the paper's equations have them."""
    d_k, width = weights["query/kernel"].shape[-1], len(weights["latent_norm/scale"])

    def compressed(x):
        latents, keys = np.split(x @ weights["latent/kernel"] + weights["latent/bias"], [width], axis=1)
        scale = weights["latent_norm/scale"] / np.sqrt(np.mean(latents**2, axis=1, keepdims=True) + 1e-6)
        return scale * latents, np.array([rotated(x, j) for j, x in enumerate(keys)])

    (latents, keys), (of_values, _) = compressed(key), compressed(value)

    def energies(i, n, past):
        found = project(weights, "key", latents, n) @ project(weights, "query", query[i], n)
        if "rotary/kernel" in weights:
            found = found + keys @ rotated(project(weights, "rotary", query[i], n), i)
        return found / np.sqrt(d_k + len(keys[0]))

    return headed(energies, weights, of_values, mask)


REFERENCES = {
    "multi_head_latent": HEADED(
        multi_head_latent,
        key_dim=13,
        arguments={"latent_dim": 5, "value_dim": 2, "rotary_dim": 4},
        without_gradient=("key/bias",),
        picture=({"latent_dim": 16, "rotary_dim": 0}, {"latent/kernel": np.eye(16), "latent_norm/scale": 0.3}),
        variants={
            "sigmoid": {"normalizer": "sigmoid", "without_gradient": (), "places": ("decoder",)},
            "without_rotary": {"arguments": {"latent_dim": 5, "rotary_dim": 0}, "places": ("cross",)},
        },
    )
}

import functools

import numpy as np

from tests.layers.equations import HEADED, merge, normalize, project


def expanded_key_value(weights, query, key, value, mask, real, variant):
    heads, target, _ = mask.shape
    keys, values = (
        [project(weights, part, x, n) for n in range(heads)] for part, x in (("key", key), ("value", value))
    )
    d_k, d_v = keys[0].shape[1], values[0].shape[1]
    contexts, scores = np.zeros((target, heads, d_v)), np.zeros(mask.shape)
    for i in range(target):
        before = contexts[i - 1] if i else np.zeros((heads, d_v))
        # c_0 = 0: no bias of the output either.
        full = merge(weights, contexts[i - 1 : i], mask[:, i - 1 : i])[0] if i else np.zeros(query.shape[1])
        for n in range(heads):
            if variant == 1:
                g_k, g_v = project(weights, "key", full, n), project(weights, "value", full, n)
            elif variant == 2:
                g_k, g_v = (full @ weights[f"context_{part}_kernel"][:, n] for part in ("key", "value"))
            else:
                g_k = before[n] @ weights["context_key_kernel"][n]
                g_v = before[n] @ weights["context_value_kernel"][n] if variant == 3 else before[n]
            q = project(weights, "query", query[i], n)
            alpha = normalize([q @ k / np.sqrt(d_k) for k in (*keys[n], g_k)], [*mask[n, i], mask[n, i].any()])
            scores[n, i] = alpha[:-1]
            contexts[i, n] = alpha[:-1] @ values[n] + alpha[-1] * g_v
    return merge(weights, contexts, mask), scores


EXPANDED = functools.partial(HEADED, share=True)
LINGERING = ({}, {"context_key_kernel": 0.4})
REFERENCES = {
    # The context goes where keys and values come from.
    "expanded_key_value_1": EXPANDED(
        functools.partial(expanded_key_value, variant=1), key_dim=7, value_dim=7, without_gradient=("key/bias",)
    ),
    "expanded_key_value_2": EXPANDED(functools.partial(expanded_key_value, variant=2), picture=LINGERING),
    "expanded_key_value_3": EXPANDED(functools.partial(expanded_key_value, variant=3), picture=LINGERING),
    "expanded_key_value_4": EXPANDED(functools.partial(expanded_key_value, variant=4), picture=LINGERING),
}

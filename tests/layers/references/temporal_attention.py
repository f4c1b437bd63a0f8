import numpy as np

from tests.layers.equations import HEADED, Reference, dot_product, single_head
from tests.layers.references.luong_attention import energy_of


def over_past(energy, before, may_be_attended):
    """log of exp(energy) over the sum of those before, as it stands in the paper."""
    total = sum(np.exp(e) for e, m in zip(before, may_be_attended, strict=True) if m)
    return np.log(np.exp(energy) / total) if total else energy


def temporal(weights, query, key, value, mask, real):
    def energy(i, j, past):
        *before, now = (energy_of("concat", weights, q, key[j]) for q in query[: i + 1])
        return over_past(now, before, mask[0, :i, j])

    return single_head(energy, value, mask)


def multi_head_temporal(weights, query, key, value, mask, real):
    plain = np.zeros(mask.shape)

    def after(i, n, energies, past):
        plain[n, i] = energies
        return [over_past(energy, plain[n, :i, j], mask[n, :i, j]) for j, energy in enumerate(energies)]

    return dot_product(weights, query, key, value, mask, real, after=after)


REFERENCES = {
    "temporal": Reference(temporal),
    "multi_head_temporal": HEADED(multi_head_temporal),
}

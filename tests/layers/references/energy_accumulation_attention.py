from tests.layers.equations import HEADED, dot_product


def energy_accumulation(weights, query, key, value, mask, real, mixing=0.5, window=5):
    def after(i, n, energies, past):
        found = []
        for j, energy in enumerate(energies):
            near = [k for k in range(len(energies)) if abs(k - j) <= window and real[k]]
            before = sum(past.energies[n, i - 1, k] for k in near) if i else 0
            found.append(mixing * energy + (1 - mixing) / (2 * window + 1) * before)
        return found

    return dot_product(weights, query, key, value, mask, real, after=after)


REFERENCES = {
    "energy_accumulation": HEADED(
        energy_accumulation, picture=({"window": 1}, {}), playground={"mixing": (0.25, 0.75), "window": (0, 2)}
    )
}

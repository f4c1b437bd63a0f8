from tests.layers.equations import HEADED, by_position


def random_synthesizer(weights, i, j, n):
    return weights["energies"][n, i, j]


REFERENCES = {"random_synthesizer": HEADED(by_position(random_synthesizer))}

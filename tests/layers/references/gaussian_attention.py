import numpy as np

from tests.layers.equations import HEADED, by_position


def gaussian(weights, i, j, n):
    centre = i + (-1, 0)[n % 2]
    return np.log(np.exp(-((j - centre) ** 2) / 2) / np.sqrt(2 * np.pi))


REFERENCES = {"gaussian": HEADED(by_position(gaussian), playground={"sigma": (0.5, 2.0), "offsets": ((0,), (-2,))})}

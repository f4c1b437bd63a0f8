import keras
import numpy as np


def same(first, second):
    first, second = keras.tree.flatten(first), keras.tree.flatten(second)
    return len(first) == len(second) and all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))

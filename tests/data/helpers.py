"""What the tests of data share."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.support.errors import UserError


class Numbers:
    """Subwords whose pieces are the numbers of the text; a dash encodes to nothing."""

    end = 3

    def __init__(self, vocabulary_size=1000, checksum="00"):
        self.vocabulary_size, self.checksum, self.encoded = vocabulary_size, checksum, []

    def encode(self, sentences):
        self.encoded += sentences
        return [[int(word) for word in sentence.split() if word != "-"] for sentence in sentences]


def same(first, second):
    first, second = keras.tree.flatten(first), keras.tree.flatten(second)
    return len(first) == len(second) and all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def one_line_error(match, action):
    with pytest.raises(UserError, match=match) as caught:
        action()
    assert "\n" not in str(caught.value)

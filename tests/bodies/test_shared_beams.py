"""The table of ancestors against histories that are copied literally."""

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.bodies.shared_beams import descend

BATCH, BEAMS, LENGTH = 2, 3, 5


@pytest.mark.one_backend
def test_a_hypothesis_sees_the_places_of_its_own_history():
    rng = np.random.default_rng(0)
    table = ops.zeros((BATCH * BEAMS, LENGTH), dtype="int32")
    # Each history is a list of places, (position, beam).
    histories = [[[] for _ in range(BEAMS)] for _ in range(BATCH)]
    for position in range(LENGTH):
        for of_sentence in histories:
            for beam, history in enumerate(of_sentence):
                history.append((position, beam))
        table, visible = descend(table, ops.convert_to_tensor(position, "int32"), BEAMS)
        expected = np.zeros((BATCH, 1, BEAMS, LENGTH, BEAMS), "bool")
        for sentence, of_sentence in enumerate(histories):
            for beam, history in enumerate(of_sentence):
                for place in history:
                    expected[(sentence, 0, beam, *place)] = True
        found = ops.convert_to_numpy(visible)
        np.testing.assert_array_equal(found, expected.reshape(BATCH, 1, BEAMS, LENGTH * BEAMS))
        parents = rng.integers(0, BEAMS, (BATCH, BEAMS))
        histories = [[list(of[i]) for i in row] for of, row in zip(histories, parents, strict=True)]
        rows = np.arange(BATCH)[:, None] * BEAMS + parents
        table = ops.take(table, rows.reshape(-1), axis=0)

"""The beams of a sentence share what they have seen: the same numbers as with a copy for each."""

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import ATTENTIONS, get_attention
from tests.layers.calls import to_numpy
from tests.layers.cases import numbers
from tests.weights import fill_weights

SHARING = sorted(name for name, entry in ATTENTIONS.items() if vars(entry.layer).get("beams_share"))
SENTENCES, BEAMS, LENGTH, WIDTH = 2, 3, 5, 6


def test_the_mechanisms_with_shared_beams_are_known():
    assert {"multi_head", "random_synthesizer", "recurrent"} <= set(SHARING)


@pytest.mark.parametrize("name", SHARING)
def test_steps_of_beams_that_share_equal_those_of_copies(name):
    """Hypotheses stay in their beam here, so that each sees its own past."""
    layer = get_attention(name, WIDTH, num_heads=2, max_length=LENGTH, place="decoder")
    layer.build((None, None, WIDTH))
    fill_weights(layer)
    x, memory = numbers("beams", SENTENCES, BEAMS, LENGTH, WIDTH), layer.prepare(max_length=LENGTH)
    alone, shared = layer.initial_state(memory, SENTENCES * BEAMS), layer.shared_state(memory, SENTENCES, BEAMS)
    own = np.eye(BEAMS, dtype="bool")[:, None]
    for i in range(LENGTH):
        rows = ops.convert_to_tensor(x[:, :, i].reshape(-1, WIDTH))
        context, scores, alone = layer.step(rows, memory, alone)
        reached = (np.arange(LENGTH) <= i)[None, :, None]
        visible = np.broadcast_to((own & reached).reshape(1, 1, BEAMS, -1), (SENTENCES, 1, BEAMS, LENGTH * BEAMS))
        found, found_scores, shared = layer.step(rows, {**memory, "visible": ops.convert_to_tensor(visible)}, shared)
        np.testing.assert_allclose(to_numpy(found), to_numpy(context), atol=2e-6)
        np.testing.assert_allclose(to_numpy(found_scores), to_numpy(scores), atol=2e-6)

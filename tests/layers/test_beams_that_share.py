"""The beams of a sentence share what they have seen: the same numbers as with a copy for each."""

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import ATTENTIONS, get_attention
from tests.layers.calls import compiled
from tests.layers.cases import numbers
from tests.weights import fill_weights

SHARING = sorted(name for name, entry in ATTENTIONS.items() if vars(entry.layer).get("beams_share"))
SENTENCES, BEAMS, LENGTH, WIDTH = 2, 3, 5, 6


def assert_beams_share(layer, x):
    """Hypotheses stay in their beam here, so that each sees its own past; of `(sentences, beams, length, width)`."""
    sentences, beams, length, width = x.shape
    own = np.eye(beams, dtype="bool")[:, None]

    def run(x):
        memory = layer.prepare(max_length=length)
        alone = layer.initial_state(memory, sentences * beams)
        shared = layer.shared_state(memory, sentences, beams)
        steps = []
        for i in range(length):
            rows = ops.reshape(x[:, :, i], (-1, width))
            context, scores, alone = layer.step(rows, memory, alone)
            reached = (np.arange(length) <= i)[None, :, None]
            visible = np.broadcast_to((own & reached).reshape(1, 1, beams, -1), (sentences, 1, beams, length * beams))
            *found, shared = layer.step(rows, {**memory, "visible": ops.convert_to_tensor(visible)}, shared)
            steps.append((found, [context, scores]))
        return steps

    for found, wanted in compiled(run)(x):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-6)


def test_the_mechanisms_with_shared_beams_are_known():
    assert {"multi_head", "random_synthesizer", "recurrent"} <= set(SHARING)


@pytest.mark.parametrize("name", SHARING)
def test_steps_of_beams_that_share_equal_those_of_copies(name):
    layer = get_attention(name, WIDTH, num_heads=2, max_length=LENGTH, place="decoder")
    layer.build((None, None, WIDTH))
    fill_weights(layer)
    assert_beams_share(layer, numbers("beams", SENTENCES, BEAMS, LENGTH, WIDTH))

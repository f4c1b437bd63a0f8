"""What a small Transformer learns, and what it cannot; `python -m tests.toy_tasks` runs every mechanism."""

import keras
import pytest

from tests.toy_tasks import BOUND, learn

pytestmark = pytest.mark.skipif(keras.config.backend() != "jax", reason="alike on all; compiled, it is quickest")


def test_reverse_is_learned():
    arguments = {"encoder_attention": "recurrent", "decoder_attention": "average_without_ffn"}
    assert learn("reverse", steps=500, cross_attention="previous_weight", **arguments)[0] > BOUND


@pytest.mark.slow
def test_reverse_is_not_learned_without_attention_that_looks():
    assert learn("reverse", steps=500, cross_attention="uniform")[0] < 0.85

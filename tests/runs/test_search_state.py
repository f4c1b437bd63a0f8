"""The numbers that a search carries, worked out by hand."""

import pytest

from keras_attn_zoo.runs.search_state import state_numbers
from keras_attn_zoo.runs.system import System

SIZES = {"width": 8, "num_heads": 2, "ffn_dim": 8, "encoder_layers": 1, "decoder_layers": 2}
# Of both layers and of the whole, a counter of positions.
COUNTERS = 3


@pytest.mark.parametrize(
    ("settings", "length", "wanted"),
    [
        # Keys and values of two layers; with one head of both, half as wide.
        ({}, 5, 2 * 2 * 5 * 8),
        ({"decoder_attention": {"attention": "multi_head", "num_key_value_heads": 1}}, 5, 2 * 2 * 5 * 4),
        # A matrix for each head, and the sum of the keys, at any length.
        ({"decoder_attention": "linear"}, 5, 2 * 2 * (4 * 4 + 4)),
        ({"decoder_attention": "linear"}, 50, 2 * 2 * (4 * 4 + 4)),
        # The weights of both heads beside the keys and values.
        ({"cross_attention": "previous_weight"}, 5, 2 * 2 * 5 * 8 + 2 * 2 * 5),
        # Of more tokens than the system's own weights are for.
        ({"decoder_attention": "random_synthesizer", "max_length": None}, 200, 2 * 200 * 8),
    ],
)
def test_the_state_of_a_transformer(settings, length, wanted):
    assert state_numbers(System("a", {**SIZES, **settings}, body="transformer"), length) == wanted + COUNTERS


def test_the_state_of_an_rnn():
    """That of its cell and a counter; coverage has as many numbers for each source position."""
    sizes = {"embedding_dim": 4, "hidden_dim": 6}
    plain, covering = (
        state_numbers(System("a", {**sizes, "cross_attention": name}), 5) for name in ("bahdanau", "coverage")
    )
    assert plain == 6 + 1 and (covering - plain) % 5 == 0 < covering - plain

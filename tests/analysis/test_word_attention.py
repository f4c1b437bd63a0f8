"""Attention between words, computed by hand."""

import numpy as np

from keras_attn_zoo.analysis.word_attention import mean_of_heads, word_links

SOURCE, TARGET = ["▁ro", "t", ".", "</s>"], ["▁red", "</s>"]
# The target's full stop has no piece of its own.
WORDS = (["rot", "."], ["red", "."])
ATTENTION = np.array([[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.0, 1.0]])


def test_links_and_what_attends_to_the_end():
    wanted = [[0.15, 0.3], [0.0, 0.0]]
    for to_end, ignored, links in ((False, (), {(1, 0)}), (True, (), set()), (False, [1], {(0, 0)})):
        found, matrix = word_links(ATTENTION, SOURCE, TARGET, *WORDS, to_end, ignore_source=ignored)
        assert found == links
        np.testing.assert_allclose(matrix, wanted)
    found, _ = word_links(ATTENTION - [[0, 0, 0, 0.2], [0] * 4], SOURCE, TARGET, *WORDS, to_end=True)
    assert found == {(1, 0)}, "0.3 on the full stop, 0.2 on the end"


def test_heads():
    heads = np.stack([ATTENTION, 3 * ATTENTION, 8 * ATTENTION])
    np.testing.assert_allclose(mean_of_heads(heads), 4 * ATTENTION)
    np.testing.assert_allclose(mean_of_heads(heads, [0, 1]), 2 * ATTENTION)

"""Sentences joined to longer ones, worked out by hand."""

import pytest

from keras_attn_zoo.corpora.joined_text import joined_text
from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.support.errors import UserError


def text_of(*lengths, more=()):
    """Pairs of so many words on either side, named by their number."""
    pairs = [(" ".join([f"s{i}"] * m), " ".join([f"t{i}"] * n)) for i, (m, n) in enumerate(lengths)]
    return ParallelText(pairs, more_references=more)


def test_lengths_are_aimed_at_in_turn_and_what_is_too_long_is_left_out():
    """From 4 to 12 words: 4, 6, 8 and 10 of the longer side, then 4 again."""
    lengths = [(1, 2), (1, 2), (6, 1), (7, 7), (2, 9), (11, 1), (1, 1), (2, 3), (4, 1)]
    found = joined_text(text_of(*lengths), 4, 12)
    numbers = [list(dict.fromkeys(word[1:] for word in source.split())) for source in found.sources]
    # The two words of the seventh wait for those of the eighth; the last makes 4 of 6, too few.
    assert numbers == [["0", "1"], ["2"], ["5"], ["6", "7"]]
    assert [len(one.split()) for one in found.sources] == [2, 6, 11, 3]
    assert found.targets[0] == "t0 t0 t1 t1" and found.gold is None


def test_a_list_of_references_that_lacks_one_lacks_the_whole():
    text = text_of((2, 2), (2, 2), (5, 5), (6, 6), more=[["a", "b", "c", ""]])
    first = ["t0 t0 t1 t1", " ".join(["t2"] * 5), " ".join(["t3"] * 6)]
    assert joined_text(text, 4, 8).references == [first, ["a b", "c", ""]]


def test_a_text_that_is_too_short_is_refused():
    with pytest.raises(UserError, match="too short to be joined to sentences of 20 to 60 words"):
        joined_text(text_of((3, 3), (4, 4)), 20, 60)

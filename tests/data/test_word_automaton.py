"""The automaton of forbidden words, against a search for whole words in the text that pieces spell."""

import itertools
import re

import numpy as np
import pytest

from keras_attn_zoo.data.word_automaton import FORBIDDEN, begins_word, word_automaton, word_starts

PIECES = [
    "<pad>",
    "<unk>",
    "<s>",
    "</s>",
    "▁",
    "▁a",
    "a",
    "ab",
    "▁ab",
    "b",
    "▁b",
    ".",
    "a.b",
    "猫",
    "犬",
    "▁猫",
    "<0x61>",
]
CJK = "猫犬"


def spelled(ids):
    marks = {"<unk>": "⁇", "<pad>": "▁", "<s>": "▁", "</s>": "▁", "<0x61>": "a"}
    return "▁" + "".join(marks.get(PIECES[i], PIECES[i]) for i in ids)


def has_word(text, words):
    """Whether a text has a whole word; between Chinese characters, every place is a border of words."""
    for word in words:
        for match in re.finditer(f"(?={re.escape(word)})", text):
            begin, end = match.start(), match.start() + len(word)
            # A space in front is assumed: the automaton knows nothing of what was before.
            before, after = text[begin - 1], text[end : end + 1]
            opens = not before.isalnum() or before in CJK or word[0] in CJK
            closes = (after != "" and (not after.isalnum() or after in CJK)) or word[-1] in CJK
            if opens and closes:
                return True
    return False


@pytest.mark.parametrize("words", [["ab"], ["a", "abb"], ["猫"], ["犬猫", "b"], ["ba", "aba"]])
def test_it_forbids_what_completes_a_word_in_any_pieces(words):
    table, reach = word_automaton(PIECES, words)
    forbidden = 0
    for length in (1, 2, 3, 4):
        # The first is a space: before it, the automaton is inside a word.
        for ids in itertools.product(range(len(PIECES)), repeat=length - 1):
            state = table[0, 4]
            for i in ids:
                state = table[state, i] if state != FORBIDDEN else state
            known = state == FORBIDDEN
            assert known == has_word(f"▁{spelled(ids)}", words), (ids, words)
            forbidden += known
    assert forbidden > 10
    assert reach == max(map(len, words)) + 2


def test_a_state_is_known_after_as_many_pieces():
    """From any state on, the last pieces alone decide."""
    table, reach = word_automaton(PIECES, ["ab", "ba"])
    rng = np.random.default_rng(1)
    for _ in range(500):
        ids, states = rng.integers(4, len(PIECES), reach), set()
        for state in range(len(table)):
            for i in ids:
                state = table[state, i] if state != FORBIDDEN else state
            states.add(state)
        assert len(states - {FORBIDDEN}) <= 1


def test_pieces_that_begin_a_word():
    assert word_starts(PIECES) == [i for i in range(len(PIECES)) if i not in (6, 7, 9, 12, 16)]
    assert begins_word("'t") and not begins_word("é") and not begins_word("5")

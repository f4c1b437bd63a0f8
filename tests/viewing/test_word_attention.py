"""Attention between words, computed by hand."""

import io
import random

import numpy as np
import pytest
import sentencepiece

from keras_attn_zoo.data import END, PAD, START, UNKNOWN
from keras_attn_zoo.data.words import as_sentence, normalise
from keras_attn_zoo.viewing.word_attention import group_pieces, mean_of_heads, word_links

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


@pytest.mark.parametrize(
    ("pieces", "words", "groups"),
    [
        # A run of unknown characters is one piece, wherever it stands.
        ("▁Ich ▁ <unk> ▁lernte . </s>", "Ich 日本語 lernte .", [0, 1, 1, 2, 3, -1]),
        ("▁ <unk> en ▁ <unk> ▁en <unk>", "日本en 語 en日本", [0, 0, 0, 1, 1, 2, 2]),
        # A word model has one for each word; the search may find several without any text.
        ("▁a <unk> <unk> ▁b", "a 日本 語 b", [0, 1, 2, 3]),
        ("▁a <unk> <unk> ▁b </s>", "a b", [0, 1, 1, 1, -1]),
        # Characters that normalisation changes, and case that a truecaser changes.
        ("▁kalo ... ▁mitu ▁re .", "kalo… mitu re .", [0, 0, 1, 2, 3]),
        ("▁fi ka ▁o ▁lo", "ﬁka o lo", [0, 0, 1, 2]),
        ("▁das ▁ist", "Das ist", [0, 1]),
        ("▁la ▁mitu", "la\u200b\u00ad mitu", [0, 1]),
        # Characters that are known and yet in an unknown piece, as in a Marian model.
        ("<unk> s ▁is", "miss is", [0, 0, 1]),
        # A character of several bytes; bytes that are none.
        ("▁ <0xE6> <0x97> <0xA5> ▁a", "日 a", [0, 0, 0, 0, 1]),
        ("▁ <0xE6> ▁a <0xFF>", "\ufffd a\ufffd", [0, 0, 1, 1]),
        # Combining characters, a space mark behind words, spaces before punctuation, a word without text.
        ("▁e\u0301 x ▁a", "éx a", [0, 0, 1]),
        ("Guten▁ Tag .▁", "Guten Tag .", [0, 1, 2]),
        ("▁Tag ▁. ▁a", "Tag . a", [0, 1, 2]),
        ("▁ab </s> <pad>", "", [-1, -1, -1]),
        # A byte order mark in front of a sentence is left out; elsewhere it is a letter.
        ("▁a ▁\ufeff b ▁c", "a \ufeffb c", [0, 1, 1, 2]),
        ("▁a ▁\ufeff ▁b", "a \ufeff b", [0, 1, 2]),
        ("▁a ▁b", "\ufeff \ufeffa b", [1, 2]),
        ("▁a <unk> b ▁\u200d", "a\ufeffb \u200d", [0, 0, 0, 1]),
        # Words that begin with what would compose, or are taken apart: jamo, marks, vowel signs of two parts.
        ("▁e ▁\u0301 ▁a", "e \u0301 a", [0, 1, 2]),
        ("▁\u1100\u1161 ▁\u1161 ▁\u1100", "\u1100\u1161 \u1161 \u1100", [0, 1, 2]),
        ("▁\u3131\u314f \u3131 ▁\u314f", "\u3131\u314f\u3131 \u314f", [0, 0, 1]),
        ("▁\u0b95 \u0bca ▁b", "\u0b95\u0bc6\u0bbe b", [0, 0, 1]),
        # The mark for spaces as a word, and in one; punctuation that is one after normalisation.
        ("▁a ▁ ▁ ▁b ▁c", "a \u2581 b\u2581c", [0, 1, 1, 2, 2]),
        ("▁a ; ▁b", "a \u037e b", [0, 1, 2]),
        # Pieces that the vocabulary of a Marian model has not, with their spaces.
        ("<unk> ▁ <unk> b ▁c", "a \U0001f600b c", [0, 1, 1, 1, 2]),
        # More pieces than the words have letters.
        ("▁a ▁b ▁ ▁c", "a b", [0, 1, 1, 1]),
    ],
)
def test_the_word_of_each_piece(pieces, words, groups):
    assert group_pieces(pieces.split(" "), words.split(" ") if words else []) == groups


# Of these, a tokenizer that was trained on the first knows all characters or hardly any.
KNOWN = "der alte Mann geht in das Haus . kalo mitu re ... la lala abab ab"
UNUSUAL = "日本語 日 日der der日本 a日b ﬁka kalo… １２ é́x ab\u200bla ½ ẞ (日)"


@pytest.mark.parametrize("kind", ["bpe", "char"])
@pytest.mark.parametrize("rule", ["identity", "nmt_nfkc"])
def test_words_of_pieces_are_those_of_their_spans(kind, rule):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([KNOWN] * 3),
        model_writer=model,
        model_type=kind,
        normalization_rule_name=rule,
        vocab_size=50,
        hard_vocab_limit=False,
        minloglevel=2,
        pad_id=PAD,
        unk_id=UNKNOWN,
        bos_id=START,
        eos_id=END,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    rng = random.Random(0)
    for _ in range(100):
        words = [rng.choice(rng.choice((KNOWN, UNUSUAL)).split()) for _ in range(rng.randint(1, 9))]
        spans = processor.encode_as_proto(as_sentence(words)).pieces
        letters = [i for i, word in enumerate(words) for _ in normalise(word)]
        before = [as_sentence(words).encode()[: span.begin].decode().replace(" ", "") for span in spans]
        expected = [letters[min(len(text), len(letters) - 1)] for text in before]
        assert group_pieces(processor.id_to_piece([span.id for span in spans]), words) == expected


@pytest.mark.parametrize("word", ["\x85", "b\u2028c", "\x1f", "\u3000", "b\u00a0c", ""])
def test_words_that_hold_whitespace_or_nothing(word):
    """Whitespace inside of a word is a space of the sentence; the word is still one."""
    words = ["a", word, "d"]
    letters = word.split()
    sentence = " ".join(["a", *letters, "d"])
    assert as_sentence(words) == normalise(" ".join(words)) == sentence
    assert group_pieces(f"▁{sentence}".replace(" ", " ▁").split(" "), words) == [0, *[1] * len(letters), 2]


def test_pieces_of_a_beginning_stay_there_even_if_the_rest_is_like_it():
    """A model may have read only the beginning of a long text."""
    words = ["日本", "a", "b", ".", "x", "y", "a", "b", "."]
    assert group_pieces(["▁", "<unk>", "▁a", "▁b", "▁."], words) == [0, 0, 1, 2, 3]

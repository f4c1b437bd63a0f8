"""Corpora from files, whose empty lines are named, and generated ones, whose test text is drawn alone."""

import pytest

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments.corpora import (
    corpus_from_description,
    corpus_from_files,
    embedded_corpus,
    read_pairs,
)


def test_pairs_with_two_sides_are_read(tmp_path):
    (tmp_path / "t.tsv").write_text("rot\tred\n\nhaus\thouse\n")
    assert read_pairs(tmp_path / "t.tsv") == [("rot", "red"), ("", ""), ("haus", "house")]
    assert read_pairs(tmp_path / "t.tsv", reverse=True)[0] == ("red", "rot")


@pytest.mark.parametrize("text", ["\n\n", "\t\n", "rot\t\n", "\tred\n"])
def test_text_without_a_pair_is_named(tmp_path, text):
    (tmp_path / "good.tsv").write_text("rot\tred\n")
    (tmp_path / "bad.tsv").write_text(text)
    with pytest.raises(UserError, match=r"no sentence pairs in .*bad\.tsv"):
        corpus_from_files(tmp_path / "good.tsv", tmp_path / "bad.tsv", tmp_path / "good.tsv")
    with pytest.raises(UserError, match=r"no sentence pairs in .*bad\.tsv"):
        corpus_from_files(tmp_path / "bad.tsv")
    splits = corpus_from_files(tmp_path / "good.tsv", *[tmp_path / "good.tsv"] * 2).splits
    assert splits.valid == splits.test == [("rot", "red")]


def test_the_test_text_alone_is_that_of_the_whole_generated_corpus():
    whole = embedded_corpus(train=20, valid=5, test=6)
    alone = corpus_from_description(whole.description, test_only=True)
    assert alone.test.pairs == whole.test.pairs and alone.gold == whole.gold
    assert list(alone.splits.train) == list(alone.splits.valid) == []

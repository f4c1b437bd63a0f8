"""Corpora from files, whose empty lines are named, and generated ones, whose test text is drawn alone."""

import shutil

import pytest

from keras_attn_zoo.corpora.corpus import corpus_from_files, embedded_corpus, read_pairs
from keras_attn_zoo.runs.described_corpora import corpus_from_description
from keras_attn_zoo.runs.preparation import described
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.support.errors import UserError
from tests.tiny_run import TINY


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


def lines_of(folder, count):
    path = folder / f"{count}.tsv"
    path.write_text("".join(f"haus x{i}\thouse x{i}\n" for i in range(count)))
    return path


def test_a_split_is_described_so_that_it_is_read_again(tmp_path):
    """Where the maximum changes nothing, as in earlier versions, which had none."""
    small = corpus_from_files(lines_of(tmp_path, 20_000))
    large = corpus_from_files(lines_of(tmp_path, 20_010))
    assert "max_held_out" not in small.description and large.description["max_held_out"] == 2000
    assert [len(list(part)) for part in large.splits] == [16_010, 2000, 2000]
    before = corpus_from_files(tmp_path / "20010.tsv", max_held_out=None)
    assert [len(list(part)) for part in before.splits] == [16_008, 2001, 2001]
    for one in (small, large, before):
        again = corpus_from_description(one.description)
        assert again.description == one.description
        assert [list(part) for part in again.splits] == [list(part) for part in one.splits]


def test_a_run_of_another_split_is_refused_with_the_option_that_resumes_it(tmp_path):
    text = lines_of(tmp_path, 60)
    run = RunFolder(tmp_path / "run")
    before, now = corpus_from_files(text, max_held_out=None), corpus_from_files(text, max_held_out=2)
    for one, other, option in ((before, now, "none"), (now, before, "2")):
        shutil.rmtree(run.path, ignore_errors=True)
        run.create(TINY, described(one, TINY.data), one.test.rows())
        with pytest.raises(UserError, match=f"another random split of its text: resume with --max-held-out {option}"):
            run.check_settings(TINY, described(other, TINY.data))
        run.check_settings(TINY, described(one, TINY.data))


@pytest.mark.parametrize("name", ["split_seed", "max_held_out"])
@pytest.mark.parametrize("value", ["x", -1, 1.5, None, [], True])
def test_a_split_that_a_folder_describes_is_one(tmp_path, name, value):
    description = {**corpus_from_files(lines_of(tmp_path, 20)).description, name: value}
    with pytest.raises(UserError, match="does not describe a corpus"):
        corpus_from_description(description)

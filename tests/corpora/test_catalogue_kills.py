"""Corpora by name, and the index of mtdata, after a process that was killed while it wrote them."""

import pickle

import pytest

from keras_attn_zoo.corpora import corpus_folder, mtdata_source, named_corpora
from keras_attn_zoo.corpora.corpus import corpus_from_name
from keras_attn_zoo.corpora.named_corpora import NamedCorpus
from keras_attn_zoo.support.errors import UserError
from tests.corpora.catalogue_server import unused_mtdata

WHOLE = NamedCorpus("whole-de-en", "text", ("de", "en"), "home", "terms", mtdata={"all": ["Tiny-all-1-deu-eng"]})


@pytest.fixture
def whole(tmp_path, monkeypatch):
    """The folder of a text that is not split yet."""
    monkeypatch.setenv("ATTN_ZOO_CORPORA", str(tmp_path))
    monkeypatch.setattr(named_corpora, "catalogue", lambda: {WHOLE.name: WHOLE})
    (tmp_path / WHOLE.name).mkdir()
    (tmp_path / WHOLE.name / "all.tsv").write_text("".join(f"satz {i}\tsentence {i}\n" for i in range(200)))
    return tmp_path / WHOLE.name


@pytest.mark.parametrize("name", ["train.de", "test.en.gz", "valid.tsv"])
def test_a_part_of_ones_own_is_not_replaced(whole, name):
    (whole / name).write_bytes(b"my own\n")
    with pytest.raises(UserError, match=rf"not its split \({name}\): remove one or the other"):
        corpus_from_name(WHOLE.name)
    assert {path.name: path.read_bytes()[:7] for path in whole.iterdir()} == {"all.tsv": b"satz 0\t", name: b"my own\n"}


def test_a_split_of_which_a_killed_process_left_a_part_is_completed(whole):
    corpus_from_name(WHOLE.name)
    done = {path: path.read_bytes() for path in sorted(whole.iterdir())}
    parts = [path for path in done if path.suffix in (".de", ".en")]
    for count in range(len(parts) + 1):
        # The list comes last.
        for path in [whole / "corpus.json", *parts[count:]]:
            path.unlink()
        corpus_from_name(WHOLE.name)
        assert {path: path.read_bytes() for path in whole.iterdir()} == done


def test_downloads_that_stayed_behind_are_removed(whole):
    corpus_from_name(WHOLE.name)
    left = corpus_folder.cache_folder() / "unfinished" / WHOLE.name
    left.mkdir(parents=True)
    (left / "all.zip").write_bytes(b"downloaded")
    corpus_from_name(WHOLE.name)
    assert not left.exists()


def test_an_index_that_was_broken_off_is_written_again(tmp_path, monkeypatch):
    def half(value, file):
        file.write(pickle.dumps(value)[:20])
        raise KeyboardInterrupt

    for _ in range(2):
        # Whatever stands there now is what the next process finds.
        with unused_mtdata(tmp_path), monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(pickle, "dump", half)
            mtdata_source._index()
    assert not [*tmp_path.iterdir()]
    with unused_mtdata(tmp_path):
        assert not mtdata_source._index().entries
    assert {path.suffix for path in tmp_path.iterdir()} >= {".pkl", ".jsonl"}


def test_a_damaged_index(tmp_path):
    for content in (b"", b"\x80\x04", b"nonsense"):
        with unused_mtdata(tmp_path):
            import mtdata

            mtdata.cached_index_file.write_bytes(content)
            with pytest.raises(UserError, match=r"mtdata cannot read its index .*\.pkl \(.+\): remove it\."):
                mtdata_source._index()

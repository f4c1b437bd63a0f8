"""Corpora by name from a server on loopback, through mtdata and the library of the Hugging Face Hub."""

import csv
import dataclasses
import errno
import gzip
import io
import json
import logging
import os
import pickle
import socket
import subprocess
import sys
import tarfile
import threading
import zipfile

import pytest

from keras_attn_zoo.cli import main
from keras_attn_zoo.corpora import corpus_folder, hub_source, mtdata_source, named_corpora
from keras_attn_zoo.corpora.corpus import corpus_from_name
from keras_attn_zoo.corpora.named_corpora import PARTS, NamedCorpus
from keras_attn_zoo.support import fetching
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.extras import is_installed
from tests.corpora.catalogue_server import COMMIT, serving, unused_mtdata
from tests.tiny_run import make_pairs

TEXT = {"train": make_pairs(96), "valid": make_pairs(16, 200), "test": make_pairs(6, 400)}
NAME = "tiny-de-en"


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTN_ZOO_CORPORA", str(tmp_path / "corpora"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching, "PATIENCE", 0.5)
    monkeypatch.setattr(fetching, "PAUSE", 0.01)
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    with unused_mtdata(tmp_path_factory.mktemp("mtdata")):
        handlers = logging.getLogger().handlers[:]
        with mtdata_source._silenced():
            found = mtdata_source._index()
        assert logging.getLogger().handlers == handlers and not logging.getLogger().filters
        yield found


@pytest.fixture
def of_mtdata(server, index, monkeypatch):
    """A corpus of an index's zip, of two files that the index lacks, and of a TSV with the target first."""
    from mtdata.entry import Entry

    def lines(pairs, side):
        return "".join(f"{pair[side]}\n" for pair in pairs).encode()

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for side, language in enumerate(("de", "en")):
            archive.writestr(f"all.{language}", lines(TEXT["train"], side))
    server.files["/train.zip"] = packed.getvalue()
    for side, language in enumerate(("de", "en")):
        server.files[f"/valid.{language}.gz"] = gzip.compress(lines(TEXT["valid"], side))
    server.files["/test.tsv"] = "".join(f"{target}\t{source}\n" for source, target in TEXT["test"]).encode()
    monkeypatch.setattr(index, "entries", {})
    files = {"in_paths": ["*.de", "*.en"], "in_ext": "txt"}
    index.add_entry(Entry(did="Tiny-train-1-deu-eng", url=f"{server.address}/train.zip", **files))
    index.add_entry(Entry(did="Tiny-test-1-eng-deu", url=f"{server.address}/test.tsv"))
    own = {"name": "Tiny-valid-1-deu-eng", "url": [f"{server.address}/valid.{one}.gz" for one in ("de", "en")]}
    parts = {"train": ["Tiny-train-1-deu-eng"], "valid": [own], "test": ["Tiny-test-1-eng-deu"]}
    return listed(monkeypatch, NamedCorpus(NAME, "text", ("de", "en"), "home", "terms", mtdata=parts))


@pytest.fixture
def of_hub(server, monkeypatch, tmp_path):
    """A corpus in two repositories: lines of JSON, one small and one large."""
    constants = pytest.importorskip("huggingface_hub.constants")
    at_hub(constants, server.address, monkeypatch, tmp_path)
    data = {
        part: b"".join(json.dumps({"translation": {"de": s, "en": t}}).encode() + b"\n" for s, t in pairs)
        for part, pairs in TEXT.items()
    }
    server.add_data_set("a/one", {"x/train-0.jsonl": data["train"], "x/test-0.jsonl": data["test"], "y/train": b"?"})
    server.add_data_set("a/two", {"valid.jsonl": data["valid"]})
    parts = {part: {"files": f"x/{part}-*.jsonl"} for part in ("train", "test")}
    hub = {"repository": "a/one", **parts, "valid": {"repository": "a/two", "files": "valid.jsonl"}}
    return listed(monkeypatch, NamedCorpus(NAME, "text", ("de", "en"), "home", "terms", hub=hub))


def at_hub(constants, endpoint, monkeypatch, tmp_path):
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub_source, "PATIENCE", 0.5)


def listed(monkeypatch, corpus):
    monkeypatch.setattr(named_corpora, "catalogue", lambda: {corpus.name: corpus})
    return corpus


@pytest.fixture(params=["mtdata", "huggingface_hub"])
def corpus(request):
    """The corpus of each library."""
    return request.getfixturevalue("of_mtdata" if request.param == "mtdata" else "of_hub")


def texts(name=NAME):
    return {part: list(text) for part, text in zip(PARTS, corpus_from_name(name).splits, strict=True)}


def test_a_corpus_is_downloaded_once(corpus, server, capsys):
    assert main(["corpora", "--download", NAME]) == 0
    place = corpus_folder.corpus_folder(corpus)
    assert capsys.readouterr().out == f"{NAME}: {place} (96 train, 16 valid, 6 test)\n"
    count = len(server.requests)
    assert texts() == TEXT
    assert texts("tiny-en-de") == {part: [pair[::-1] for pair in pairs] for part, pairs in TEXT.items()}
    assert len(server.requests) == count
    assert sorted(os.listdir(place)) == ["corpus.json", *sorted(f"{p}.{s}" for p in PARTS for s in ("de", "en"))]
    assert not list((place.parent / "unfinished").iterdir())
    manifest = json.loads((place / "corpus.json").read_text())
    assert manifest["origin"] == corpus.library
    assert manifest["commits"] == (dict.fromkeys(["a/one", "a/two"], COMMIT) if corpus.hub else {})


def test_a_further_test_text_is_downloaded_with_the_rest(corpus, monkeypatch):
    """Here, that of the validation text."""
    source = "mtdata" if corpus.mtdata else "hub"
    parts = getattr(corpus, source)
    further = {"more_tests": ("news2018",), source: {**parts, "news2018": parts["valid"]}}
    listed(monkeypatch, dataclasses.replace(corpus, **further))
    for name, order in ((NAME, 1), ("tiny-en-de", -1)):
        found = corpus_from_name(name)
        expected = [pair[::order] for pair in TEXT["valid"]]
        assert {name: list(text.pairs) for name, text in found.more_tests.items()} == {"news2018": expected}
        assert list(found.splits.valid) == expected
    assert sorted(path.name for path in corpus_folder.corpus_folder(corpus).glob("news*")) == [
        "news2018.de",
        "news2018.en",
    ]


def test_two_at_once_download_it_once(corpus, server):
    found = []
    threads = [threading.Thread(target=lambda: found.append(texts())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [TEXT, TEXT]
    paths = [path for method, path, _ in server.requests if method == "GET" and not path.startswith("/api/")]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("fault", [404, 403, "another file"])
def test_what_cannot_be_downloaded_is_one_line_and_nothing_is_used(corpus, server, fault):
    server.faults = [fault]
    with pytest.raises(UserError) as caught:
        texts()
    said = str(caught.value)
    if fault == "another file" and corpus.mtdata:
        # Nobody lists checksums of these, but an archive of zeros is none.
        assert "cannot read Tiny-train-1-deu-eng" in said and "to download it again" in said
        return
    expected = "is not the file that is listed there" if fault == "another file" else f"the server says {fault}"
    assert expected in said and "\n" not in said
    assert "Or put train, valid and test, each as a file .de and one .en" in said
    assert not corpus_folder.corpus_folder(corpus).exists()
    assert texts() == TEXT


def test_a_download_goes_on_where_it_broke_off(of_mtdata, server):
    server.faults = ["cut", 500, "cut"]
    assert texts() == TEXT
    starts = [start for method, path, start in server.requests if (method, path) == ("GET", "/train.zip")]
    assert starts[0] == 0 and starts == sorted(starts) and starts[-1] > 0


def test_a_download_goes_on_in_the_next_process(of_mtdata, server):
    server.faults = ["cut"] + [500] * 4
    with pytest.raises(UserError, match="check the network and run the command again to resume"):
        texts()
    count = len(server.requests)
    assert texts() == TEXT
    assert next(start for method, _, start in server.requests[count:] if method == "GET") > 0


def test_a_download_of_an_earlier_version_is_not_completed_with_a_later_one(of_mtdata, server):
    """Its size is the same, so that nothing else would tell."""
    before = server.files["/test.tsv"]
    server.files["/test.tsv"] = before.swapcase()
    server.faults = ["", "", "", "cut"] + [500] * 4
    with pytest.raises(UserError, match="check the network and run the command again to resume"):
        texts()
    server.files["/test.tsv"] = before
    assert texts() == TEXT


def test_an_archive_writes_nothing_outside_its_folder(server, index, tmp_path):
    """Through a link that it brings along."""
    from mtdata.entry import Entry

    (tmp_path / "elsewhere").mkdir()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        link = tarfile.TarInfo("a")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "elsewhere")
        archive.addfile(link)
        for name in ("a/escaped.sh", "x.de", "x.en"):
            file = tarfile.TarInfo(name)
            file.size = 4
            archive.addfile(file, io.BytesIO(b"haus"))
    server.files["/all.tgz"] = packed.getvalue()
    files = {"in_paths": ["x.de", "x.en"], "in_ext": "txt"}
    entry = Entry(did="Tiny-train-1-deu-eng", url=f"{server.address}/all.tgz", ext="tgz", **files)
    with pytest.raises(UserError, match=r"cannot read .*Tiny-train-1-deu-eng"):
        list(mtdata_source._read(entry, False, tmp_path / "here"))
    assert not [*(tmp_path / "elsewhere").iterdir()]


def test_a_text_other_than_the_published_one(of_mtdata, server, monkeypatch):
    texts()
    sums = json.loads((corpus_folder.corpus_folder(of_mtdata) / "corpus.json").read_text())["sha256"]
    published = {part: (sums[f"{part}.de"], sums[f"{part}.en"]) for part in PARTS}
    known = NamedCorpus("other-de-en", "", ("de", "en"), "", "", mtdata=of_mtdata.mtdata, sha256=published)
    listed(monkeypatch, known)
    assert texts("other-de-en") == TEXT
    server.files["/test.tsv"] = server.files["/test.tsv"].replace(b"red", b"rad")
    listed(monkeypatch, NamedCorpus("third-de-en", "", ("de", "en"), "", "", mtdata=known.mtdata, sha256=published))
    with pytest.raises(UserError, match=r"the text of test\.en is not that of third-de-en: its SHA-256 is "):
        texts("third-de-en")
    # What was downloaded is not kept: the next attempt may find another server.
    server.files["/test.tsv"] = server.files["/test.tsv"].replace(b"rad", b"red")
    assert texts("third-de-en") == TEXT


def test_no_network(corpus, server, monkeypatch, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"http://127.0.0.1:{gone.getsockname()[1]}"
    if corpus.hub:
        at_hub(sys.modules["huggingface_hub.constants"], address, monkeypatch, tmp_path)
    else:
        own = {"name": "Tiny-all-1-deu-eng", "url": [f"{address}/a.gz", f"{address}/b.gz"]}
        listed(monkeypatch, NamedCorpus(NAME, "", ("de", "en"), "", "", mtdata={"all": [own]}))
    with pytest.raises(
        UserError, match=r"cannot download .*check the network and run the command again.* Or put "
    ) as caught:
        texts()
    assert "\n" not in str(caught.value)


def test_a_full_disk(corpus, monkeypatch):
    def write(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(corpus_folder, "_write_pairs", write)
    with pytest.raises(
        UserError, match=r"cannot write .*tiny-de-en: No space left on device\. Free some space"
    ) as caught:
        texts()
    assert "by hand" not in str(caught.value)
    monkeypatch.undo()
    assert not corpus_folder.corpus_folder(corpus).exists()


def test_an_interruption_leaves_no_corpus(corpus, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(corpus_folder, "_write_manifest", stop)
        with pytest.raises(KeyboardInterrupt):
            texts()
    assert not corpus_folder.corpus_folder(corpus).exists()
    assert texts() == TEXT


def test_a_size_that_the_server_keeps_to_itself(of_mtdata, server):
    server.unsized.add("/train.zip")
    with pytest.raises(UserError, match=r"train\.zip: the server does not say its size\. .* Or put "):
        texts()


def test_an_index_without_the_entry(of_mtdata, index):
    index.entries.clear()
    with pytest.raises(UserError, match="mtdata's index has no Tiny-train-1-deu-eng: pip install --upgrade mtdata"):
        texts()


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


def rows_of(kind, rows):
    """The rows as a file of a kind."""
    if kind == "csv":
        file = io.StringIO(newline="")
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
        return file.getvalue().encode()
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        file = pyarrow.BufferOutputStream()
        parquet.write_table(pyarrow.Table.from_pylist(rows), file)
        return file.getvalue().to_pybytes()
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


@pytest.mark.parametrize(
    "kind, row, given, expected",
    [
        ("csv", {"id": "1", "a": "two\nlines, and", "b": "one"}, {"fields": ["a", "b"]}, [("two\nlines, and", "one")]),
        (
            "parquet",
            {"who": ["I am.", "You?"], "said": ["Hi."], "may": ["no", "yes"]},
            {"fields": [["who", "said"], "may.-1"]},
            [("I am. You? Hi.", "yes")],
        ),
        ("parquet", {"turns": ["a", "b", "c"], "x": 1}, {"turns": "turns"}, [("a", "b"), ("b", "c")]),
        ("parquet", {"translation": {"a": "eins", "b": "one"}}, {}, [("eins", "one")]),
        ("jsonl", {"a": "eins", "b": None}, {"fields": ["a", "b"]}, [("eins", "")]),
    ],
    ids=["csv", "several-columns", "turns", "translation", "nothing"],
)
def test_rows_of_the_hub(of_hub, server, tmp_path, kind, row, given, expected):
    server.add_data_set("a/rows", {f"train.{kind}": rows_of(kind, [row])})
    hub = {"repository": "a/rows", "train": {"files": f"train.{kind}"}, **given}
    assert list(hub_source.read_part(hub, "train", ("a", "b"), tmp_path, {})) == expected


@pytest.mark.parametrize(
    "given, expected",
    [({}, "abcde"), ({"most": 2}, "ab"), ({"skip": 3}, "de"), ({"skip": 1, "most": 2}, "bc"), ({"skip": 9}, "")],
)
def test_some_rows_of_the_hub(of_hub, server, tmp_path, given, expected):
    files = {
        f"{name}.jsonl": rows_of("jsonl", [{"translation": {"a": letter, "b": letter}} for letter in letters])
        for name, letters in (("1", "abc"), ("2", "de"))
    }
    server.add_data_set("a/rows", files)
    hub = {"repository": "a/rows", "valid": {"files": "*.jsonl", **given}}
    found = list(hub_source.read_part(hub, "valid", ("a", "b"), tmp_path, {}))
    assert found == [(letter, letter) for letter in expected]


@pytest.mark.parametrize(
    "kind, content, given, message",
    [
        ("jsonl", b'{"a": 1}', {}, "train.jsonl has no translation.a or translation.b: its data set has changed"),
        ("jsonl", b"<html>", {}, "cannot read .*train.jsonl: .* Remove it to download it again"),
        ("txt", b"", {}, "it has no train.jsonl"),
        ("parquet", b"PAR1", {"files": "train.parquet"}, "cannot read .*train.parquet: .* Remove it"),
    ],
)
def test_a_data_set_that_has_changed(of_hub, server, tmp_path, kind, content, given, message):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    server.add_data_set("a/rows", {f"train.{kind}": content})
    hub = {"repository": "a/rows", "train": {"files": "train.jsonl", **given}}
    with pytest.raises(UserError, match=message) as caught:
        list(hub_source.read_part(hub, "train", ("a", "b"), tmp_path, {}))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.skipif(not is_installed("mtdata"), reason="mtdata is not installed")
def test_the_index_of_mtdata_has_what_the_catalogue_names(tmp_path):
    """Its whole index is written; in another process, where it is not replaced."""
    code = """
from keras_attn_zoo.corpora.named_corpora import catalogue
from keras_attn_zoo.corpora.mtdata_source import _find, _silenced

with _silenced():
    parts = [(part, one.sides) for one in catalogue().values() for part in one.mtdata.values()]
    print(len([_find(entry, sides) for part, sides in parts for entry in part]))
"""
    environment = {**os.environ, "MTDATA": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "") and int(done.stdout) > 10

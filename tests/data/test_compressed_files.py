"""Text is read however it is compressed; what is not read is named with the command that unpacks it."""

import bz2
import gzip
import io
import lzma
import sys
import tarfile
import types
import zipfile

import pytest

from keras_attn_zoo.corpora.given_files import open_pairs, read_test
from keras_attn_zoo.data.text_files import ParallelFiles, TSVFile, read_lines, read_windows
from keras_attn_zoo.support.errors import UserError

PACKED = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}
TEXT = "ein Haus\nein Hund\n"


def zipped(text):
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w") as archive:
        archive.writestr("text.de", text)
    return found.getvalue()


def in_tar(text):
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w") as archive:
        info = tarfile.TarInfo("text.de")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text.encode()))
    return found.getvalue()


@pytest.mark.parametrize("kind", PACKED)
def test_text_is_read_whatever_the_name_and_from_standard_input(tmp_path, monkeypatch, kind):
    content = PACKED[kind](TEXT.encode())
    path = tmp_path / "text.de"
    # Of several files that were joined, all are read.
    path.write_bytes(content + content)
    assert list(read_lines(path)) == ["ein Haus", "ein Hund"] * 2
    assert list(read_windows(path, 3)) == [["ein Haus", "ein Hund", "ein Haus"], ["ein Hund"]]
    assert next(iter(ParallelFiles(path, path))) == ("ein Haus", "ein Haus")
    monkeypatch.setattr(
        sys, "stdin", types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(content)), closed=False)
    )
    assert list(read_lines("-")) == ["ein Haus", "ein Hund"]


@pytest.mark.parametrize("kind", PACKED)
def test_a_packed_file_named_tsv_holds_both_sides(tmp_path, kind):
    path, more = tmp_path / f"text.tsv.{kind}", tmp_path / "more"
    path.write_bytes(PACKED[kind](b"ein Haus\ta house\n"))
    more.write_text("one house\n")
    assert list(open_pairs(path)) == list(TSVFile(path)) == [("ein Haus", "a house")]
    assert read_test((path, more)) == ([("ein Haus", "a house")], [["one house"]])
    with pytest.raises(UserError, match=r"is a TSV file"):
        open_pairs((path, more))


@pytest.mark.parametrize("kind", PACKED)
@pytest.mark.parametrize("damage", ["cut", "spoiled"])
def test_a_damaged_file_is_named(tmp_path, kind, damage):
    content = PACKED[kind]("".join(f"{number * 7919 % 1009} words\n" for number in range(3000)).encode())
    half = len(content) // 2
    path = tmp_path / "text"
    path.write_bytes(content[:half] + (b"" if damage == "cut" else b"\0" * 40 + content[half + 40 :]))
    with pytest.raises(UserError, match=r"text is a damaged or truncated (gzip|xz|bzip2) file") as caught:
        list(read_lines(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", PACKED)
@pytest.mark.parametrize("size", [1, 100_000])
def test_bytes_after_the_end_are_no_part_of_it(tmp_path, kind, size):
    """Text that was joined to it would be lost."""
    content = PACKED[kind]("".join(f"{number}\n" for number in range(size)).encode())
    path = tmp_path / "text"
    for more in (b"one line\n", b"\1" * 200_000, bytes(200_000) + b"x"):
        path.write_bytes(content + more)
        with pytest.raises(UserError, match=r"text is a damaged or truncated (gzip|xz|bzip2) file"):
            list(read_lines(path))
    if kind != "bz2":
        path.write_bytes((content + bytes(8)) * 2 + bytes(200_000))
        assert list(read_lines(path)) == [str(number) for number in range(size)] * 2


# The first bytes that the formats' specifications give; zip and tar as the standard library writes them.
@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x28\xb5\x2f\xfd\x04\x00\x49", r"compressed with Zstandard, .* `zstd -d "),
        (b"\x04\x22\x4d\x18\x64\x40\xa7", r"compressed with LZ4, .* `lz4 -d "),
        (lzma.compress(TEXT.encode(), lzma.FORMAT_ALONE), r"compressed with LZMA, .* `xz --format=lzma -d "),
        (lzma.compress(TEXT.encode(), lzma.FORMAT_ALONE, preset=0), r"compressed with LZMA, "),
        (b"LZIP\x01\x0c\x00", r"compressed with lzip, .* `lzip -d "),
        (b"\x89LZO\x00\r\n\x1a\n\x10", r"compressed with lzop, .* `lzop -d "),
        (b"\x1f\x9d\x90abc", r"compressed with compress, .* `gzip -d "),
        (b"7z\xbc\xaf\x27\x1c\x00\x04", r"a 7-Zip archive, .* `7z x "),
        (b"Rar!\x1a\x07\x01\x00", r"a RAR archive, .* `unrar x "),
        (zipped(TEXT), r"a zip archive, .* `unzip "),
        (in_tar(TEXT), r"a tar archive, .* `tar -xf "),
        (gzip.compress(in_tar(TEXT)), r"a tar archive, .* `tar -xf "),
    ],
    # Archives hold the time of day, which no name of a test may have: workers would collect different ones.
    ids=["Zstandard", "LZ4", "LZMA", "LZMA-fast", "lzip", "lzop", "compress", "7-Zip", "RAR", "zip", "tar", "tar-gzip"],
)
def test_what_is_not_read_is_refused_with_the_command_that_unpacks_it(tmp_path, content, what):
    path = tmp_path / "my text.de"
    path.write_bytes(content)
    with pytest.raises(UserError, match=what) as caught:
        list(read_lines(path))
    assert f"'{path}'`." in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["BZh91 is a word", "PK is short", "7z and Rar!", "LZIP is a name", "]"])
def test_text_that_begins_like_a_packed_file_is_text(tmp_path, text):
    (tmp_path / "text").write_text(text + "\n")
    assert list(read_lines(tmp_path / "text")) == [text]

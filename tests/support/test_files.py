"""Files that are whole or absent, whatever stands at the path; what is read back."""

import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from keras_attn_zoo.corpora.corpus import corpus_from_files
from keras_attn_zoo.data.subwords import Subwords
from keras_attn_zoo.data.text_files import ParallelFiles, TSVFile, read_lines
from keras_attn_zoo.evaluation.alignments import read_alignments
from keras_attn_zoo.support.checksums import check_sum, read_checksums, write_checksums
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import (
    atomic_files,
    atomic_path,
    check_new_folder,
    kind_of,
    open_output,
    read_json,
    remove_left_of,
    remove_partials,
    shown,
    write_json,
    write_text,
)
from keras_attn_zoo.support.locks import locked


@pytest.fixture
def pipe(tmp_path):
    """A FIFO, and a function that gives what a reader that waits at it has read."""
    path, read = tmp_path / "pipe", []
    os.mkfifo(path)

    def reader():
        read.append(path.read_bytes())

    thread = threading.Thread(target=reader, daemon=True)
    thread.start()

    def content():
        thread.join(10)
        return read[0]

    return path, content


def test_a_pipe_is_written_to_and_stays_a_pipe(pipe):
    path, content = pipe
    write_text(path, "ein Haus\n")
    assert content() == b"ein Haus\n" and kind_of(path) == "stream"
    assert os.listdir(path.parent) == ["pipe"]


def test_what_needs_a_path_is_copied_into_a_pipe_at_the_end(pipe):
    path, content = pipe
    link = path.with_name("link")
    link.symlink_to("pipe")
    with atomic_path(link) as aside:
        aside.write_bytes(b"\x89PNG")
    assert content() == b"\x89PNG" and kind_of(path) == "stream" and link.is_symlink()
    assert sorted(os.listdir(path.parent)) == ["link", "pipe"]


def test_a_descriptor_is_written_on_where_it_stands(tmp_path):
    """As a shell's `>> log` wants it: nothing is cut, and what is written later follows."""
    with (tmp_path / "log").open("ab") as log:
        log.write(b"before\n")
        log.flush()
        for name in (f"/dev/fd/{log.fileno()}", f"/proc/self/fd/{log.fileno()}"):
            write_text(name, "here\n")
        log.write(b"after\n")
    assert (tmp_path / "log").read_text() == "before\nhere\nhere\nafter\n"
    with pytest.raises(UserError, match="cannot write /dev/fd/987: Bad file descriptor"):
        write_text("/dev/fd/987", "")


def test_a_full_device_is_one_line_and_a_reader_that_went_is_told_apart(monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        write_text(f"/dev/fd/{writing}", "x" * 100_000)
    os.close(writing)
    # The device is opened by its number, never by its name: nothing here could replace it.
    with open("/dev/full", "wb", buffering=0) as full:
        with pytest.raises(UserError, match=r"cannot write /dev/fd/.*: No space left on device"):
            write_text(f"/dev/fd/{full.fileno()}", "text")
        with (
            pytest.raises(UserError, match="No space left on device"),
            atomic_path(f"/dev/fd/{full.fileno()}") as aside,
        ):
            aside.write_text("text")


def test_a_folder_in_place_of_a_file_to_write_is_named(tmp_path):
    with pytest.raises(UserError, match=rf"^{re.escape(str(tmp_path))} is a folder: give the name of a file\.$"):
        write_text(tmp_path, "text")
    assert not list(tmp_path.iterdir())


def test_links_stay_links_and_their_targets_are_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "real").write_text("old")
    (tmp_path / "middle").symlink_to("far/real")
    (tmp_path / "link").symlink_to(tmp_path / "middle")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "far" / "real").read_text() == "new"
    assert (tmp_path / "link").is_symlink() and (tmp_path / "middle").is_symlink()
    (tmp_path / "dangling").symlink_to("far/made")
    write_text(tmp_path / "dangling", "made")
    assert (tmp_path / "far" / "made").read_text() == "made" and (tmp_path / "dangling").is_symlink()
    # A folder behind a link is replaced too.
    (tmp_path / "folder").symlink_to("far")
    with atomic_path(tmp_path / "folder") as aside:
        aside.mkdir()
        (aside / "only").write_text("")
    assert os.listdir(tmp_path / "far") == ["only"] and (tmp_path / "folder").is_symlink()


@pytest.mark.parametrize("beneath", ["file/x", "file/x/y"])
@pytest.mark.parametrize("write", [open_output, lambda path: atomic_files(path, last="last"), check_new_folder, locked])
def test_a_path_through_a_file_is_said_to_be_one(tmp_path, beneath, write):
    (tmp_path / "file").write_text("")
    message = rf"{beneath}\S*: a part of this path is a file, not a folder\. Choose another"
    with pytest.raises(UserError, match=message), write(tmp_path / beneath):
        pass
    assert os.listdir(tmp_path) == ["file"]


def test_permissions_are_kept_and_respected(tmp_path):
    path = tmp_path / "text"
    path.write_text("old")
    path.chmod(0o604)
    write_text(path, "new")
    assert path.stat().st_mode & 0o777 == 0o604
    before = os.umask(0o027)
    write_text(tmp_path / "fresh", "")
    os.umask(before)
    assert (tmp_path / "fresh").stat().st_mode & 0o777 == 0o640


def test_a_file_that_is_protected_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "text"
    path.write_text("old")
    # Whoever runs the tests may be allowed everything.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match="Permission denied"):
        write_text(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["text"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder in which none can be made")
def test_a_new_folder_is_refused_where_none_can_be_made(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    check_new_folder(folder / "new" / "one")
    with pytest.raises(UserError, match=r"folder already exists: choose another folder, or remove it"):
        check_new_folder(folder)
    with pytest.raises(UserError, match="cannot write /proc/new/one"):
        check_new_folder("/proc/new/one")
    assert not os.listdir(folder)


READERS = {
    "json": read_json,
    "lines": lambda path: list(read_lines(path)),
    "parallel": lambda path: list(ParallelFiles(path, path)),
    "tsv": lambda path: list(TSVFile(path)),
    "alignments": read_alignments,
    "write": lambda path: write_text(path, "text"),
}


@pytest.mark.parametrize("reader", READERS)
def test_paths_that_lead_nowhere_are_one_line(tmp_path, reader):
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for path in (
        tmp_path / "a",
        tmp_path / ("long" * 200),
        f"{tmp_path}/nul\0byte",
        tmp_path / "folder",
        tmp_path / "two\nlines\0",
    ):
        with pytest.raises(UserError) as error:
            READERS[reader](path)
        message = str(error.value)
        assert message.isprintable() and len(message) < 500
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "folder"]


def test_what_is_read_twice_must_not_be_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for reader in (read_json, Subwords, lambda path: corpus_from_files((path, path))):
        with pytest.raises(UserError, match="pipe is a pipe or a device, which can be read only once"):
            reader(path)
    writer = threading.Thread(target=path.write_text, args=("ein Haus\ta house\n",), daemon=True)
    writer.start()
    pairs = TSVFile(path)
    assert list(pairs) == [("ein Haus", "a house")]
    with pytest.raises(UserError, match="can be read only once"):
        list(pairs)
    writer.join(10)


def test_json_that_is_none_is_one_line(tmp_path):
    path = tmp_path / "file.json"
    for content in (
        b"",
        b"{",
        b"\xff\xfe\xfd",
        b"[" * 100_000,
        b"9" * 5000,
        b'{"a": 1e999}',
        b'{"a": -Infinity}',
        b'{"a": NaN}',
        b'{"sentences": 6, "sentences": -7}',
        b'[{"b": 1, "a": {"c": 1, "d": 2, "c": 1}}]',
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"file\.json is damaged: it is not JSON") as error:
            read_json(path)
        assert str(error.value).isprintable() and len(str(error.value)) < 500
    # A name that is not UTF-8 is written and read back.
    odd = os.fsdecode(b"caf\xe9")
    write_json(path, {"file": odd, "word": "Füße"})
    assert read_json(path) == {"file": odd, "word": "Füße"} and "Füße" in path.read_text(encoding="utf-8")


def test_checksums_name_the_file_that_was_changed(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a", "sub/b"):
        (tmp_path / name).write_text(name)
    write_checksums(tmp_path, ["a", "sub/b"])
    sums = read_checksums(tmp_path / "checksums.json")
    for name in sums:
        check_sum(tmp_path / name, sums[name])
    (tmp_path / "sub" / "b").write_text("c")
    with pytest.raises(UserError, match="sub/b is damaged or was changed"):
        check_sum(tmp_path / "sub/b", sums["sub/b"])
    for damaged in (
        [],
        {"sha256": 3},
        {"sha256": {"a": 1}},
        {"sha256": {"../a": "0"}},
        {"sha256": {"/etc/passwd": "0"}},
    ):
        write_json(tmp_path / "checksums.json", damaged)
        with pytest.raises(UserError, match=r"checksums\.json"):
            read_checksums(tmp_path / "checksums.json")


def trees(folder):
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_files_take_the_places_of_others_together_or_not_at_all(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    with atomic_files(folder, last="sums") as aside:
        (aside / "sub").mkdir()
        for name in ("a", "sub/b", "sums"):
            (aside / name).write_text("old")
        assert not folder.exists()
    (folder / "notes").write_text("mine")
    (folder / "a").chmod(0o640)
    before, place = trees(folder), os.stat(folder).st_ino

    def change():
        with atomic_files(folder, last="sums") as aside:
            (aside / "sub").mkdir()
            for name in ("a", "sub/b", "sub/c", "sums"):
                (aside / name).write_text("new")
            assert trees(folder).items() >= before.items()

    rename, moved, plan = Path.rename, [], {}

    def fails(path, target):
        moved.append(Path(target).name)
        if len(moved) in plan:
            raise plan[len(moved)]
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fails)
    for raised, error in ((KeyboardInterrupt, KeyboardInterrupt()), (UserError, OSError(28, "No space left"))):
        # Three old files and four new ones are moved.
        for number in range(1, 8):
            moved.clear()
            plan = {number: error}
            with pytest.raises(raised):
                change()
            assert trees(folder) == before and {one.name for one in folder.iterdir()} == {"a", "notes", "sub", "sums"}
    moved.clear()
    plan = {}
    change()
    assert moved[-1] == "sums" and os.stat(folder).st_ino == place
    assert trees(folder) == {**dict.fromkeys(["a", "sub/b", "sub/c", "sums"], "new"), "notes": "mine"}
    assert kind_of(folder / "a") == "file" and (folder / "a").stat().st_mode & 0o777 == 0o640


def test_a_folder_with_the_name_of_a_file_stays(tmp_path):
    (tmp_path / "b" / "precious").mkdir(parents=True)
    (tmp_path / "a").write_text("old")
    with (
        pytest.raises(UserError, match="b is a folder: give the name of a file"),
        atomic_files(tmp_path, last="b") as aside,
    ):
        (aside / "a").write_text("new")
        (aside / "b").write_text("new")
    assert trees(tmp_path) == {"a": "old"} and (tmp_path / "b" / "precious").is_dir()


def test_an_interrupt_while_a_replaced_folder_is_removed(tmp_path, monkeypatch):
    """The new folder is there, and nothing of the old one."""
    (tmp_path / "preset").mkdir()
    (tmp_path / "preset" / "old").write_text("")
    rmtree, interrupts = shutil.rmtree, [KeyboardInterrupt]

    def remove(*arguments, **how):
        if interrupts:
            raise interrupts.pop()
        rmtree(*arguments, **how)

    monkeypatch.setattr(shutil, "rmtree", remove)
    with pytest.raises(KeyboardInterrupt), atomic_path(tmp_path / "preset") as aside:
        aside.mkdir()
        (aside / "new").write_text("")
    assert trees(tmp_path) == {"preset/new": ""}


def test_what_killed_processes_left_is_removed_and_a_folder_put_back(tmp_path):
    for name in (".best.0123abcd.partial", ".state.npz.0123abcd.partial", ".log.partial", "kept"):
        (tmp_path / name).write_text("")
    (tmp_path / ".preset.89abcdef.old").mkdir()
    remove_partials(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".log.partial", "kept", "preset"]


def test_nothing_is_left_of_what_failed(tmp_path):
    (tmp_path / "kept").write_text("old")
    with pytest.raises(ZeroDivisionError), open_output(tmp_path / "kept") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["kept"] and (tmp_path / "kept").read_text() == "old"


@pytest.mark.parametrize(
    ("path", "text"),
    [("a b", "a b"), ("", "''"), (" ", "' '"), ("a\nb", r"'a\nb'"), ("x" * 300, f"{'x' * 100}...{'x' * 50}")],
)
def test_a_path_in_a_message_is_seen_on_one_line(path, text):
    assert shown(path) == text


KILLED = """
import os, signal, sys
from keras_attn_zoo.support.files import atomic_files, atomic_path, open_output
write = {"file": open_output, "folder": atomic_path, "files": lambda path: atomic_files(path, last="b")}[sys.argv[1]]
with write(sys.argv[2]) as aside:
    if sys.argv[1] == "folder":
        aside.mkdir()
    print("written", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.name == "nt", reason="a number is not enough to ask whether a process is there")
@pytest.mark.parametrize("kind", ["file", "folder", "files"])
def test_what_a_killed_process_left_goes_when_the_path_is_written_again(tmp_path, kind):
    """And not what one that is there has not finished."""
    path = tmp_path / "new"
    if kind == "files":
        path.mkdir()
    folder = path if kind == "files" else tmp_path
    command = [sys.executable, "-c", KILLED, kind, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "written\n"
        [left] = [name for name in os.listdir(folder) if name.endswith(".partial")]
        remove_left_of.cache_clear()
        if kind == "files":
            with atomic_files(path, last="b") as aside:
                (aside / "b").write_text("b")
        else:
            write_text(path, "b")
        assert sorted(os.listdir(folder)) == sorted([left, "b" if kind == "files" else "new"])
        process.kill()
    remove_left_of.cache_clear()
    if kind == "files":
        with atomic_files(path, last="b") as aside:
            (aside / "b").write_text("c")
    else:
        write_text(path, "c")
    assert os.listdir(folder) == ["b" if kind == "files" else "new"]

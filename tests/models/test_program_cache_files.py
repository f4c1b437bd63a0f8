"""Files of kept programs: damaged, removed, of others, or not to be written."""

import hashlib
import os
import shutil

import pytest

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.models import program_cache
from tests import tiny
from tests.models.kept_programs import TARGETS, TEXTS, files, kept, under_jax


def checked(body):
    return hashlib.sha256(body).digest() + body


DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:-1],
    "changed": lambda data: data[:500] + bytes([data[500] ^ 1]) + data[501:],
    "without its checksum": lambda data: data[32:],
    "of nothing": lambda data: checked(b""),
    "of zeros": lambda data: checked(bytes(1000)),
}


@under_jax
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_replaced(folder, traced, damage):
    wanted = tiny.hypotheses(kept(folder), TEXTS)
    written = files(folder)
    traced.clear()
    for name, data in written.items():
        (folder / name).write_bytes(DAMAGES[damage](data))
    assert tiny.hypotheses(kept(folder), TEXTS) == wanted
    assert traced
    traced.clear()
    assert tiny.hypotheses(kept(folder), TEXTS) == wanted
    assert traced == []
    assert files(folder).keys() == written.keys()


@under_jax
def test_a_folder_that_cannot_be_written_costs_nothing_but_time(folder, traced):
    wanted = tiny.hypotheses(tiny.translator(body=tiny.transformer), TEXTS)
    folder.write_text("a file")
    assert tiny.hypotheses(kept(folder), TEXTS) == wanted
    assert folder.read_text() == "a file"


@under_jax
def test_what_was_used_last_stays_and_files_of_others_too(folder, monkeypatch):
    monkeypatch.setattr(program_cache, "MOST_KEPT", 2)
    task = kept(folder)
    task.score(TEXTS, TARGETS)
    (score,) = files(folder)
    others = {"notes.txt", "thesis.traced", "tmp1.unfinished"}
    for name in others:
        (folder / name).write_text("mine")
    (folder / f"{'0' * 64}.traced").mkdir()
    (folder / f"{'1' * 64}.traced").symlink_to("nowhere")
    killed = folder / "tmp0.unfinished"
    killed.write_text("of a process that was killed")
    task.force(TEXTS, TARGETS)
    (force,) = {path.name for path in folder.iterdir() if path.is_file()} - {score, killed.name} - others
    for at, name in enumerate([killed.name, score, force]):
        os.utime(folder / name, (at, at))
    # Used again, though written first.
    kept(folder).score(TEXTS, TARGETS)
    task.translate(TEXTS)
    left = {path.name for path in folder.iterdir() if path.is_file()} - others
    assert len(left) == 2
    assert score in left and force not in left and killed.name not in left
    assert all((folder / name).read_text() == "mine" for name in others)


@under_jax
def test_a_link_is_not_followed(folder, tmp_path, traced):
    wanted = tiny.hypotheses(kept(folder), TEXTS)
    (name,) = files(folder)
    aside = tmp_path / "notes.txt"
    aside.write_text("mine")
    (folder / name).unlink()
    (folder / name).symlink_to(aside)
    assert tiny.hypotheses(kept(folder), TEXTS) == wanted
    assert aside.read_text() == "mine"
    # Nor to one that would serve.
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    traced.clear()
    assert tiny.hypotheses(kept(folder), TEXTS) == wanted
    assert traced


@under_jax
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_not_waited_for(folder):
    wanted = tiny.hypotheses(kept(folder), TEXTS)
    (name,) = files(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert tiny.hypotheses(kept(folder), TEXTS) == wanted


@under_jax
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners")
def test_a_folder_that_others_may_write_to_is_not_used(folder, traced):
    kept(folder).translate(TEXTS)
    assert folder.stat().st_mode & 0o077 == 0
    written = files(folder)

    def is_used():
        traced.clear()
        kept(folder).translate(TEXTS)
        assert files(folder) == written
        return not traced

    assert is_used()
    folder.chmod(0o777)
    assert not is_used()
    folder.chmod(0o755)
    assert is_used()


@under_jax
def test_a_folder_that_can_only_be_read_serves(folder, traced, monkeypatch):
    wanted = tiny.hypotheses(kept(folder), TEXTS)

    def refused(*args, **kwargs):
        raise PermissionError

    monkeypatch.setattr(os, "utime", refused)
    traced.clear()
    assert tiny.hypotheses(kept(folder), TEXTS) == wanted
    assert traced == []


@under_jax
def test_a_copy_of_the_folder_serves_as_well(folder, tmp_path, traced):
    wanted = tiny.hypotheses(kept(folder), TEXTS)
    shutil.copytree(folder, tmp_path / "copy")
    traced.clear()
    assert tiny.hypotheses(kept(tmp_path / "copy"), TEXTS) == wanted
    assert traced == []


def test_what_is_no_folder_is_refused_and_none_keeps_nothing(folder):
    task = tiny.translator(body=tiny.transformer)
    for wrong in ("", 3, True):
        with pytest.raises(UserError, match="keep_programs needs the path of a folder, or None; received"):
            task.keep_programs(wrong)
    task.keep_programs(folder)
    task.keep_programs(None)
    task.translate(TEXTS)
    assert files(folder) == {}


@under_jax
def test_what_was_searched_before_is_kept_from_the_call_on(folder, monkeypatch, tmp_path):
    task = tiny.translator(body=tiny.transformer)
    task.translate(TEXTS)
    monkeypatch.chdir(tmp_path)
    task.keep_programs("programs")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    task.translate(TEXTS)
    assert len(files(folder)) == 1
    task.keep_programs(tmp_path / "second")
    task.translate(TEXTS)
    assert files(tmp_path / "second").keys() == files(folder).keys()


@under_jax
def test_compiling_anew_goes_on_keeping(folder):
    task = kept(folder)
    task.compile(sampler="greedy")
    task.translate(TEXTS)
    assert files(folder)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A file that stands for those of the package; a process begins when it is called."""
    path = tmp_path / "search.py"
    path.write_text("beams = 1")
    monkeypatch.setattr(program_cache, "_files", lambda: [path])

    def begin():
        monkeypatch.setattr(program_cache, "_IMPORTED", program_cache._state_of_files())
        return path

    return begin


@under_jax
def test_the_contents_of_the_package_count(folder, traced, package):
    package()
    kept(folder).translate(TEXTS)
    traced.clear()
    path = package()
    # Not its time.
    os.utime(path, (1, 1))
    package()
    kept(folder).translate(TEXTS)
    assert traced == []
    path.write_text("beams = 2")
    os.utime(path, (1, 1))
    package()
    kept(folder).translate(TEXTS)
    assert traced
    assert len(files(folder)) == 2


@under_jax
def test_a_process_whose_package_has_changed_keeps_nothing(folder, traced, package):
    package()
    before = kept(folder)
    package().write_text("beams = 22")
    for task in (before, kept(folder)):
        task.translate(TEXTS)
    assert len(traced) == 2
    assert files(folder) == {}

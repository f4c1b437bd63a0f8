"""What is run from a cache is nobody else's; JAX's cache stays below its size."""

import logging
import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import pytest

from keras_attn_zoo.corpora import mtdata_source
from keras_attn_zoo.support import backends, caches
from keras_attn_zoo.support.caches import create, who_else_writes
from keras_attn_zoo.support.errors import UserError

OTHER = 54321
pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs owners and modes")
by_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives files away")


@pytest.fixture
def folder(tmp_path):
    """A cache with two files, in a folder of its own."""
    place = tmp_path / "parent" / "cache"
    create(place)
    for name in ("a", "b"):
        (place / name).write_text(name)
        (place / name).chmod(0o644)
    for path in (place.parent, place):
        path.chmod(0o755)
    return place


def test_ones_own(folder):
    assert who_else_writes(folder) is None
    assert who_else_writes(folder / "later" / "still later") is None
    assert who_else_writes(f"{folder}/../cache/./") is None


def test_what_is_created_is_ones_own_whatever_the_mask(tmp_path):
    before = os.umask(0)
    try:
        create(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    for path in ("a", "a/b", "a/b/c"):
        assert (tmp_path / path).stat().st_mode & 0o777 == 0o700
    assert who_else_writes(tmp_path / "a/b/c") is None


@pytest.fixture(params=["..", ".", "a"])
def path(folder, request):
    """The cache, the folder that it is in, or a file of it."""
    return folder.parent if request.param == ".." else folder / request.param


@pytest.mark.parametrize("mode", [0o777, 0o702])
def test_what_everybody_may_write_to(folder, path, mode):
    path.chmod(mode)
    assert who_else_writes(folder) == f"everybody may write to {path}"


@by_root
def test_what_a_group_may_write_to(folder, path):
    path.chmod(0o775)
    # The group of this user alone, in which new files are on many systems.
    os.chown(path, -1, 0)
    assert who_else_writes(folder) is None
    os.chown(path, -1, OTHER)
    assert who_else_writes(folder) == f"its group may write to {path}"
    path.chmod(0o755)
    assert who_else_writes(folder) is None


def test_a_group_is_ones_own_by_its_name_and_members(monkeypatch):
    import grp
    import pwd

    user = pwd.getpwuid(os.getuid()).pw_name
    for name, members, expected in (
        (user, [], True),
        (user, [user], True),
        (user, ["eve"], False),
        ("staff", [], False),
    ):
        monkeypatch.setattr(grp, "getgrgid", lambda number, name=name, m=members: grp.struct_group((name, "x", 1, m)))
        assert caches._is_own_group(1) == expected


@by_root
def test_what_belongs_to_somebody_else(folder, path):
    os.chown(path, OTHER, -1)
    assert who_else_writes(folder) == f"{path} belongs to user {OTHER}"
    # However little may be done with it now, it was written by another.
    path.chmod(0o555)
    assert who_else_writes(folder) is not None


@by_root
def test_what_belongs_to_root_is_safe_for_others(folder, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: OTHER)
    assert who_else_writes(folder) is None
    os.chown(folder, OTHER, -1)
    assert who_else_writes(folder) is None


def test_permissions_of_files_do_not_count_where_nobody_else_may_enter(folder):
    (folder / "a").chmod(0o666)
    assert who_else_writes(folder) is not None
    folder.chmod(0o700)
    assert who_else_writes(folder) is None


def test_a_folder_for_everybodys_files_may_lead_there_but_holds_no_cache(folder):
    folder.parent.chmod(0o1777)
    assert who_else_writes(folder) is None
    folder.chmod(0o1777)
    assert who_else_writes(folder) == f"everybody may write to {folder}"
    with tempfile.TemporaryDirectory(dir="/tmp") as own:
        assert who_else_writes(own) is None


def test_links_are_followed(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder.parent)
    assert who_else_writes(link / "cache") is None
    (tmp_path / "to link").symlink_to("link/../parent/cache")
    assert who_else_writes(tmp_path / "to link") is None
    # To where others may write, through whatever.
    folder.parent.chmod(0o777)
    for path in (link / "cache", tmp_path / "to link", tmp_path / "link" / ".." / "parent" / "cache"):
        assert who_else_writes(path) == f"everybody may write to {folder.parent}"
    folder.parent.chmod(0o755)
    # From where others may turn it elsewhere.
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "link").symlink_to(folder)
    assert who_else_writes(shared / "link") == f"everybody may write to {shared}"
    (tmp_path / "loop").symlink_to("loop")
    assert "is a loop of links" in who_else_writes(tmp_path / "loop")


@by_root
def test_a_link_of_somebody_else(folder, tmp_path):
    """In a folder such as /tmp, where others make links as well."""
    tmp_path.chmod(0o1777)
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert who_else_writes(link) is None
    os.chown(link, OTHER, -1, follow_symlinks=False)
    assert who_else_writes(link) == f"{link} belongs to user {OTHER}"


def test_what_cannot_be_looked_at_is_not_trusted(folder, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refused)
    assert who_else_writes(folder) == f"{folder} cannot be checked"
    assert "cannot be checked" in who_else_writes(folder / "a")


def test_an_index_of_mtdata_that_others_may_change_is_not_read(folder, monkeypatch):
    """It runs what it finds there."""
    monkeypatch.setitem(sys.modules, "mtdata", types.SimpleNamespace(cache_dir=folder))
    (folder / "a").chmod(0o666)
    with pytest.raises(UserError, match=rf"left alone, since everybody may write to {folder / 'a'}, .* set MTDATA to"):
        mtdata_source._index()


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """An environment without settings of JAX."""
    for name in [name for name in os.environ if name.startswith("JAX_")]:
        monkeypatch.delenv(name)
    for name in ("DIR", "MAX_SIZE"):
        # They are set here: both go afterwards.
        monkeypatch.setenv(f"JAX_COMPILATION_CACHE_{name}", "")
        monkeypatch.delenv(f"JAX_COMPILATION_CACHE_{name}")
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return monkeypatch


def test_compiled_programs_are_kept_in_ones_own_folder_up_to_a_size(environment, tmp_path):
    backends._keep_compiled()
    kept = tmp_path / "home" / "keras-attn-zoo" / "jax"
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(kept) and kept.stat().st_mode & 0o777 == 0o700
    assert os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"] == str(backends.MOST_COMPILED)


@pytest.mark.parametrize("given", [True, False])
def test_compiled_programs_that_others_may_change_are_left_alone(environment, tmp_path, caplog, given):
    kept = tmp_path / "home" / "keras-attn-zoo" / "jax"
    create(kept)
    kept.parent.chmod(0o777)
    if given:
        environment.setenv("JAX_COMPILATION_CACHE_DIR", str(kept))
    with caplog.at_level(logging.WARNING):
        backends._keep_compiled()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "" and not list(kept.iterdir())
    (message,) = [one.getMessage() for one in caplog.records]
    assert f"{kept} are left alone, since everybody may write to {kept.parent}," in message and "\n" not in message


def test_where_there_is_no_home_nothing_is_kept(environment, tmp_path):
    def homeless():
        raise RuntimeError

    environment.delenv("XDG_CACHE_HOME")
    environment.setattr(Path, "home", homeless)
    environment.chdir(tmp_path)
    backends._keep_compiled()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "" and not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="no home folder"):
        caches.cache_of("presets")


def test_what_is_turned_off_or_elsewhere_stays_so(environment):
    for given in ("", "gs://somewhere/cache"):
        environment.setenv("JAX_COMPILATION_CACHE_DIR", given)
        backends._keep_compiled()
        assert os.environ["JAX_COMPILATION_CACHE_DIR"] == given


COMPILE = """
from keras_attn_zoo.support.backends import choose_backend
choose_backend("jax")
import jax
for number in range(8):
    jax.jit(lambda x: x @ x + number)(jax.numpy.ones((8, 8))).block_until_ready()
"""


def compile_programs(**variables):
    environment = {**os.environ, **variables}
    found = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True, check=True)
    return found.stderr


@pytest.mark.long
def test_jax_removes_what_it_used_least_recently(environment, tmp_path):
    """Of a folder, too, that had no limit before, or in which a process was killed."""
    pytest.importorskip("jax")
    kept = tmp_path / "kept"
    assert compile_programs(JAX_COMPILATION_CACHE_DIR=str(kept), JAX_COMPILATION_CACHE_MAX_SIZE="-1") == ""
    programs = sorted(kept.glob("*-cache"))
    size = sum(path.stat().st_size for path in programs)
    assert len(programs) >= 8 and not list(kept.glob("*-atime"))
    # Nothing of these is asked for any more.
    for path in programs:
        path.rename(path.with_name(f"old-{path.name}"))
    assert (
        compile_programs(JAX_COMPILATION_CACHE_DIR=str(kept), JAX_COMPILATION_CACHE_MAX_SIZE=str(size * 3 // 2)) == ""
    )
    left = [path.name for path in kept.glob("*-cache")]
    assert sum((kept / name).stat().st_size for name in left) <= size * 3 // 2
    # All new ones, and as many of the old as there is room for.
    assert set(left) > {path.name for path in programs} and 0 < sum(name.startswith("old-") for name in left) < 8


@pytest.mark.long
def test_jax_neither_reads_nor_writes_what_others_may_change(environment, tmp_path):
    pytest.importorskip("jax")
    kept = tmp_path / "kept"
    kept.mkdir()
    kept.chmod(0o777)
    said = compile_programs(JAX_COMPILATION_CACHE_DIR=str(kept))
    assert f"everybody may write to {kept}" in said and said.count("\n") == 1 and not list(kept.iterdir())

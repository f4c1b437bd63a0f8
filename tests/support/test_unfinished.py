"""What killed processes leave under temporary names is removed, and nothing else."""

import os
import subprocess
import sys

import pytest

from keras_attn_zoo.support import files
from keras_attn_zoo.support.files import atomic_files, write_text

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
        files.remove_left_of.cache_clear()
        if kind == "files":
            with atomic_files(path, last="b") as aside:
                (aside / "b").write_text("b")
        else:
            write_text(path, "b")
        assert sorted(os.listdir(folder)) == sorted([left, "b" if kind == "files" else "new"])
        process.kill()
    files.remove_left_of.cache_clear()
    if kind == "files":
        with atomic_files(path, last="b") as aside:
            (aside / "b").write_text("c")
    else:
        write_text(path, "c")
    assert os.listdir(folder) == ["b" if kind == "files" else "new"]

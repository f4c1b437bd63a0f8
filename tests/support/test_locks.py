"""Locks of folders: one process at a time, whatever killed ones left."""

import json
import logging
import os
import subprocess
import sys
import threading

import pytest

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.locks import locked


def test_a_folder_in_use_is_refused_with_process_and_host(tmp_path, caplog):
    caplog.set_level(logging.INFO, "keras_attn_zoo")
    folder = tmp_path / "run"
    with locked(folder):
        with pytest.raises(UserError, match=rf"use by process {os.getpid()} on {os.uname().nodename}"), locked(folder):
            pass
        # One that waits is told once, and gets it in the end.
        entered = threading.Event()

        def wait():
            with locked(folder, wait=True):
                entered.set()

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        assert not entered.wait(0.5)
        (said,) = caplog.messages
        assert f"waiting for process {os.getpid()}" in said
    assert entered.wait(5)
    thread.join(5)
    # Nothing is left, not even the folder that was made for it.
    assert not folder.exists()


def test_the_lock_of_a_process_that_has_ended_is_taken_over(tmp_path):
    script = (
        "import os, sys; from keras_attn_zoo.support.locks import locked\n"
        "with locked(sys.argv[1]): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script, tmp_path / "run"], check=False).returncode == -9
    holder = json.loads((tmp_path / "run" / ".lock").read_text())
    assert holder["host"] == os.uname().nodename
    with locked(tmp_path / "run"):
        pass
    # That of a container that is no more names a host that is no more; what was cut or garbled names none.
    (tmp_path / "run").mkdir(exist_ok=True)
    elsewhere = json.dumps({**holder, "host": "elsewhere"})
    for left in (elsewhere, "{", "[" * 4000, '{"process": 1e999, "host": "elsewhere"}'):
        (tmp_path / "run" / ".lock").write_text(left)
        with locked(tmp_path / "run"):
            assert json.loads((tmp_path / "run" / ".lock").read_text())["host"] == os.uname().nodename


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder in which none can be made")
def test_a_folder_that_cannot_be_made_is_not_tried_for_ever():
    """The system answers as if another process had just removed it."""
    with pytest.raises(UserError, match="cannot write /proc/new"), locked("/proc/new", wait=True):
        pass


def test_a_lock_that_is_a_link_overwrites_nothing(tmp_path):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "run").mkdir()
    for target in ("precious", "absent"):
        (tmp_path / "run" / ".lock").symlink_to(tmp_path / target)
        with pytest.raises(UserError, match=r"\.lock is a link.* remove it"), locked(tmp_path / "run"):
            pass
        (tmp_path / "run" / ".lock").unlink()
    assert sorted(os.listdir(tmp_path)) == ["precious", "run"] and (tmp_path / "precious").read_text() == "kept"

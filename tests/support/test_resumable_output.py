"""Output that several calls write: whatever ends one of them, the file is that of a single call, or is not there."""

import json
import os
import signal
import sys

import pytest

from keras_attn_zoo.support import files, resumable_output
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.resumable_output import resumable_output as opened

LINES = [f"Zeile {i} ö" for i in range(10)]
MADE_BY = {"beams": 4, "subwords": ("a", "b")}


def upper(path, parts=3, stop=None, lines=LINES, made_by=MADE_BY):
    """Write the lines in capitals; raise before the part of a number. Return for how many lines that was done."""
    done = []
    with opened(path, made_by) as output:
        cut = [lines[i : i + parts] for i in range(0, len(lines), parts)]
        for number, part in enumerate(output.rest(cut)):
            if number == stop:
                raise KeyboardInterrupt
            output.append("".join(f"{one.upper()}\n" for one in part), part)
            done += part
    return len(done)


def whole(path):
    return path.read_text("utf-8") == "".join(f"{one.upper()}\n" for one in LINES) and os.listdir(path.parent) == [
        path.name
    ]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.txt"


def test_it_goes_on_after_what_was_written_last(out):
    for stop, written in ((1, 3), (2, 9)):
        with pytest.raises(KeyboardInterrupt):
            upper(out, stop=stop)
        assert not out.exists()
        record = json.loads((out.parent / "out.txt.unfinished" / "progress.json").read_text())
        assert record["lines"] == written
    # Stopped before anything is done, it leaves nothing.
    other = out.with_name("other.txt")
    with pytest.raises(KeyboardInterrupt):
        upper(other, stop=0)
    assert {one.name for one in out.parent.iterdir()} == {"out.txt.unfinished"}
    # In other parts too.
    assert upper(out, parts=4) == 1 and whole(out)
    # Begun anew, it takes the place of the other.
    assert upper(out) == 10 and whole(out)


def test_half_a_line_is_written_again(out):
    with pytest.raises(KeyboardInterrupt):
        upper(out, stop=2)
    with (out.parent / "out.txt.unfinished" / "output").open("ab") as file:
        file.write("ZEILE 6 Ö\nZEI".encode()[:-1])
    assert upper(out) == 4 and whole(out)


@pytest.mark.skipif(os.name == "nt", reason="processes are forked")
def test_a_kill_before_any_change_of_a_file_loses_nothing(out, monkeypatch):
    """A forked process is killed before its first change, another before its second, and so on until one ends."""
    kinds = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate")
    child_of = {}

    def watch(event, arguments):
        left = child_of.get(os.getpid())
        if left is None or event not in kinds:
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    statuses = []
    for changes in range(100):
        child = os.fork()
        if child == 0:
            child_of[os.getpid()] = [changes]
            files.remove_left_of.cache_clear()
            upper(out)
            os._exit(0)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        if out.exists():
            # Nothing that is there is less than all.
            assert out.read_text("utf-8").count("\n") == len(LINES)
        if statuses[-1] == 0:
            break
        files.remove_left_of.cache_clear()
        if changes % 3 == 2:
            upper(out)
            assert whole(out)
            out.unlink()
    assert len(statuses) > 15 and set(statuses[:-1]) == {-signal.SIGKILL} and whole(out)


def test_what_does_not_fit_is_refused(out):
    with pytest.raises(KeyboardInterrupt):
        upper(out, stop=2)
    before = sorted((one.name, one.read_bytes()) for one in (out.parent / "out.txt.unfinished").iterdir())
    other = [*LINES[:3], "anders", *LINES[4:]]
    for arguments, said in (
        ({"made_by": {**MADE_BY, "beams": 5}}, r"unfinished was begun with beams=4, not 5: give the same, or remove"),
        ({"made_by": {"beams": 4}}, r"begun with subwords=\['a', 'b'\], not None"),
        ({"lines": other}, "the text is another one, in its first 6 lines, than that of .*unfinished: give"),
        ({"lines": LINES[:5]}, "the text is another one"),
    ):
        with pytest.raises(UserError, match=said):
            upper(out, **arguments)
    assert before == sorted((one.name, one.read_bytes()) for one in (out.parent / "out.txt.unfinished").iterdir())
    # Lines after those that were done may change.
    assert upper(out, lines=[*LINES[:6], *"abcd"]) == 4


def test_what_is_damaged_or_no_file_is_refused(out, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        upper(out, stop=2)
    folder = out.parent / "out.txt.unfinished"
    record = json.loads((folder / "progress.json").read_text())
    for change in ({"lines": -1}, {"made_by": 3}, {"sha256": None}, {"bytes": 10**6}):
        (folder / "progress.json").write_text(json.dumps({**record, **change}))
        with pytest.raises(UserError, match="unfinished is damaged: remove it"):
            upper(out)
    (folder / "progress.json").write_text("{")
    with pytest.raises(UserError, match=r"progress.json is damaged: it is not JSON"):
        upper(out)
    for path in (tmp_path, "/dev/null"):
        with pytest.raises(UserError, match="is no file, and only one can be gone on with"):
            upper(path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        upper(tmp_path / "file" / "out")


def test_another_process_is_kept_out_and_another_folder_is_kept(out):
    (out.parent / "out.txt.unfinished").mkdir()
    (out.parent / "out.txt.unfinished" / "mine").write_text("kept")
    with opened(out, {}) as output:
        assert list(output.rest([["a"]])) == [["a"]]
        with pytest.raises(UserError, match=r"out\.txt is in use by process"):
            upper(out)
    assert (out.parent / "out.txt.unfinished" / "mine").read_text() == "kept"


def test_a_process_of_which_another_one_writes_writes_nothing(out):
    with files.discarding_output():
        assert upper(out) == 10
    assert not os.listdir(out.parent) and resumable_output.discards_output() is False

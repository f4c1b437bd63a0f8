"""Files of a run folder that are larger than any such file, or may not be read."""

import tempfile
from pathlib import Path

import pytest

from keras_attn_zoo.runs.described_corpora import own_test_text
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.training.resumable_state import saved_progress
from keras_attn_zoo.training.run_log import read_log
from tests.other_user import as_nobody, open_to_all


@pytest.mark.parametrize("size", [2**28, 200 * 2**30])
def test_a_sparse_log_is_not_read(run, size):
    """Whether or not it has lines: the last one of a log may be cut, but is no longer than others."""
    with run.log.open("r+b") as file:
        file.truncate(size)
    with pytest.raises(UserError, match=r"log\.jsonl (line \d+ has more than 1,048,576 bytes|has [\d,]+ bytes, more)"):
        read_log(run.log)


@pytest.mark.parametrize("name", ["hypotheses/test.txt", "references/test.txt", "state.npz", "test.tsv"])
def test_a_sparse_file_of_a_run_is_not_read(run, monkeypatch, name):
    monkeypatch.setattr(run, "corpus", dict)
    with (run.path / name).open("r+b") as file:
        file.truncate(200 * 2**30)
    with pytest.raises(UserError, match=rf"{name} has [\d,]+ bytes, more than the "):
        own = {"state.npz": lambda: saved_progress(run.state), "test.tsv": lambda: own_test_text(run)}
        own.get(name, lambda: run.read_translations("test"))()


def test_a_log_without_permission_is_not_taken_for_no_run():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        path.write_text("")
        open_to_all(folder)
        path.chmod(0)
        with as_nobody(), pytest.raises(UserError, match=r"cannot read .*log\.jsonl: Permission denied\."):
            read_log(path)

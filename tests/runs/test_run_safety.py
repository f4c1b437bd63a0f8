"""Run folders that are used by two, half gone, out of space, damaged, too large, or made by a stranger."""

import json
import logging
import math
import os
import resource
import shutil
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_attn_zoo import cli
from keras_attn_zoo.data.batches import TranslationBatches, fit_arguments
from keras_attn_zoo.runs import described_corpora
from keras_attn_zoo.runs.described_corpora import corpus_from_description, own_test_text
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.preparation import build_translator, prepare_data
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.studies.table import read_results
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import read_json, write_json
from keras_attn_zoo.support.locks import locked
from keras_attn_zoo.training.resumable_state import ResumableState, saved_progress
from keras_attn_zoo.training.run_log import RunLog, read_log, read_steps
from tests.other_user import as_nobody, open_to_all
from tests.tiny_run import TINY, numbers


@pytest.mark.long
def test_a_disk_that_fills_is_one_line_and_the_run_goes_on_once_there_is_room(trained, corpus, tmp_path):
    folder = tmp_path / "run"
    data = shutil.copytree(trained / "data", tmp_path / "data")
    weights, state = ((trained / name).stat().st_size for name in ("best/model.weights.h5", "state.npz"))
    assert weights + 1000 < state
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        for size, name in ((weights - 1000, "best/model.weights.h5"), (weights + 1000, "state.npz")):
            # The system allows no file beyond this size.
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
            with pytest.raises(UserError, match=rf"cannot write .*/run/{name}: File too large") as error:
                train_system(TINY, corpus, folder, data, resume=name == "state.npz")
            assert "\n" not in str(error.value)
            assert not list(folder.rglob("*.partial")) and (folder / "best").exists() == (name == "state.npz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    train_system(TINY, corpus, folder, data, resume=True)
    assert numbers(folder) == numbers(trained)


@pytest.mark.parametrize("name", ["loss", "gradient_norm", "val_loss"])
@pytest.mark.long
def test_training_that_reaches_nan_stops_with_what_was_good(trained, corpus, tmp_path, monkeypatch, name):
    folder = tmp_path / "run"
    data = shutil.copytree(trained / "data", tmp_path / "data")
    method = "on_epoch_end" if name == "val_loss" else "on_train_batch_end"
    real = getattr(RunLog, method)

    def poisoned(self, number, logs=None):
        if self.step == (6 if name == "val_loss" else 4):
            logs = {**logs, name: math.inf if name == "gradient_norm" else math.nan}
        real(self, number, logs)

    with monkeypatch.context() as patch:
        patch.setattr(RunLog, method, poisoned)
        with pytest.raises(UserError, match=rf"where {name} is (nan|inf): the state after round 1 is kept") as error:
            train_system(TINY, corpus, folder, data)
    step = 6 if name == "val_loss" else 5
    assert f"stopped at step {step}" in str(error.value) and "learning_rate (now 0.01)" in str(error.value)
    last = step if name == "val_loss" else step - 1
    assert [line["step"] for line in read_steps(folder / "log.jsonl")] == list(range(1, last + 1))
    assert all(value is not None for line in read_log(folder / "log.jsonl") for value in line.values())
    load_translator(folder)
    if name == "loss":
        train_system(TINY, corpus, folder, data, resume=True)
        assert numbers(folder) == numbers(trained)


def test_what_is_missing_of_a_run_is_said_and_nothing_begins_again(run, corpus):
    for path in (run.state, run.best):
        path.rename(path.with_name("away"))
        with pytest.raises(UserError, match=f"has trained 4 rounds, but {path.name} is missing"):
            train_system(TINY, corpus, run.path, resume=True)
        path.with_name("away").rename(path)


def test_a_run_that_was_stopped_in_its_first_round_begins_again(trained, corpus, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    data = shutil.copytree(trained / "data", tmp_path / "data")

    def stop(self, epoch, logs=None):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunLog, "on_epoch_end", stop)
        with pytest.raises(KeyboardInterrupt):
            train_system(TINY, corpus, folder, data)
    assert (folder / "state.npz").exists() and not (folder / "best").exists()
    train_system(TINY, corpus, folder, data, resume=True)
    assert numbers(folder) == numbers(trained)


def test_a_run_that_was_killed_while_its_folder_was_made_begins(tmp_path):
    run = RunFolder(tmp_path)
    for name in (".lock", "test.tsv", "environment.json", ".config.json.0123abcd.partial", "data"):
        (tmp_path / name).write_text("")
    run.check_free(beside=("data",))
    (tmp_path / ".bashrc").write_text("")
    with pytest.raises(UserError, match="not empty and is not a run folder"):
        run.check_free(beside=("data",))


def test_what_kills_have_left_is_removed_on_resume(run, corpus):
    for folder in (run.path, run.path / "hypotheses", *(run.path / "data").iterdir()):
        (folder / ".some.0123abcd.partial").mkdir()
    run.best.rename(run.path / ".best.0123abcd.old")
    train_system(TINY, corpus, run.path, resume=True)
    assert not list(run.path.rglob(".*")) and run.best.exists()


def test_damaged_data_is_found(run, corpus):
    (model,) = (run.path / "data").rglob("source.spm")
    whole = model.read_bytes()
    model.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    with pytest.raises(UserError, match=r"source\.spm is damaged or was changed"):
        prepare_data(corpus, TINY.data, run.path / "data")
    model.write_bytes(whole)
    # Data from before there were checksums, or whose process was killed before it wrote them, is used as it is.
    sums = model.with_name("checksums.json").read_bytes()
    model.with_name("checksums.json").unlink()
    prepare_data(corpus, TINY.data, run.path / "data")
    assert model.with_name("checksums.json").read_bytes() == sums


def test_two_that_share_their_data_wait_for_each_other(run, corpus, monkeypatch, caplog):
    (folder,) = (run.path / "data").iterdir()
    said = []

    class Stop(Exception):
        pass

    class Hear(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())
            raise Stop

    caplog.set_level(logging.INFO, "keras_attn_zoo")
    monkeypatch.setattr(logging.getLogger("keras_attn_zoo"), "handlers", [Hear()])
    with locked(folder), pytest.raises(Stop):
        prepare_data(corpus, TINY.data, run.path / "data")
    assert said == [f"waiting for process {os.getpid()} on {os.uname().nodename}, which is using {folder}"]


DAMAGED = (
    b"",
    b"{",
    b"[]",
    b"3",
    b'"text"',
    b"null",
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"a": 1e999}',
    b"9" * 5000,
    b"{}\n{}\n",
    b'{"test": 3, "system": 3, "corpus": 3, "backend": 3, "step": "x"}',
    b'{"test": {}, "system": {"name": [], "backbone": 3}, "corpus": {}, "step": 1}',
    b'{"test": {"text": []}, "system": {"data": 1}, "corpus": [], "step": 1, "round": []}',
)
COMMANDS = {
    "config.json": (["translate", "RUN", "rot"], ["evaluate", "RUN", "--test", "FILE"], ["align", "RUN"]),
    "scores.json": (
        ["evaluate", "RUN", "--stored"],
        ["plot", "top-k", "RUN", "--output", "k.png"],
        ["plot", "top-k", "RUN", "--trained", "--output", "k.png"],
    ),
    "log.jsonl": (["plot", "curves", "RUN", "--output", "c.png"],),
}


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
def test_damaged_files_of_a_run_are_one_line_in_every_command(run, capsys, name, monkeypatch):
    monkeypatch.chdir(run.path.parent)
    (run.path.parent / "FILE").write_text("rot\tred\n")
    whole = (run.path / name).read_bytes()
    lines = whole.splitlines(keepends=True)
    # Not where a line ends: what stands before it would be a whole log.
    cut = (whole[: len(whole) // 2].rstrip(b"}\n") + b"\n", lines[0] + b"\xff" + b"".join(lines[1:]))
    for content in (*DAMAGED, *cut):
        (run.path / name).write_bytes(content)
        # What reads a file is the same in all commands.
        for command in COMMANDS[name] if content in (b"{", DAMAGED[-1], *cut) else COMMANDS[name][:1]:
            status = cli.main([run.path.name if word == "RUN" else word for word in command])
            output, error = capsys.readouterr()
            if name == "scores.json" and content == b"{}":
                continue
            assert (status, output) == (2, "") and error.count("\n") == 1, (content[:60], command, error)
            assert error.startswith("attn-zoo: error: ") and len(error) < 600
    assert not list(run.path.parent.glob("*.png"))


@pytest.mark.parametrize(("name", "value"), [("seconds", "1e999"), ("seconds", "-1"), ("tokens", "NaN")])
def test_times_and_counts_of_a_log_are_finite(tmp_path, name, value):
    line = {"step": 1, "seconds": 0.5, "tokens": 7, "shape": [8, 16]}
    (tmp_path / "log.jsonl").write_text(json.dumps({**line, name: 0.25}).replace("0.25", value) + "\n")
    with pytest.raises(UserError, match=r"log\.jsonl line 1 is neither a step nor a round"):
        read_log(tmp_path / "log.jsonl")


def test_scores_that_are_not_finite_are_not_written(run):
    scores = run.read_scores()["test"]
    run.add_scores("bad", {**scores, "perplexity": math.inf, "alignment": {"aer": math.nan}})
    assert "Infinity" not in run.scores.read_text() and "NaN" not in run.scores.read_text()
    found = run.read_scores()["bad"]
    assert (found["perplexity"], found["alignment"]["aer"]) == (None, None)


def test_a_state_that_is_cut_or_has_other_bits_is_one_line(run):
    class Batches:
        def set_round(self, number):
            assert number == 4

    state = ResumableState(run.state, Batches())
    state.read()
    values = state._values
    whole = run.state.read_bytes()
    with run.state.open("wb") as file:
        np.save(file, np.zeros(3))
    for content in (run.state.read_bytes(), b"", whole[:1000], whole[:-1000]):
        run.state.write_bytes(content)
        with pytest.raises(UserError, match=r"state\.npz is damaged"):
            state.read()
    found = 0
    for place in range(100, len(whole), len(whole) // 40):
        run.state.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        # A bit of a date in the archive changes nothing.
        try:
            state.read()
        except UserError:
            found += 1
        assert all(np.array_equal(value, values[name]) for name, value in state._values.items())
    assert found > 20


# What a stranger's folder names, and what it must not reach.


def test_a_folder_that_names_files_outside_is_asked_about(run, capsys):
    secret = run.path.parent / "secret"
    secret.write_text("a\tb\n" * 4)
    description = {"train": [str(secret)], "valid": [str(secret)], "test": [str(secret)], "reverse": False}
    write_json(run.config, {**read_json(run.config), "corpus": description})
    run.test.unlink()
    assert cli.main(["evaluate", str(run.path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and f"--test {secret}" in error and not list(run.path.glob("sources"))
    asked = []
    text = own_test_text(run, lambda question: asked.append(question) or True)
    assert (text.pairs, text.gold) == ([("a", "b")] * 4, None)
    assert len(asked) == 1 and str(secret) in asked[0]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *((name, ["evaluate", "RUN"]) for name in ("hypotheses", "test.tsv", "pictures/other.png")),
        ("scores.json", ["evaluate", "RUN", "--stored"]),
        ("log.jsonl", ["plot", "curves", "RUN", "--output", "curves.png"]),
        ("config.json", ["translate", "RUN", "rot haus"]),
        ("best/config.json", ["align", "RUN", "--layer", "best"]),
    ],
)
def test_no_command_follows_a_link_out_of_the_folder(run, capsys, monkeypatch, name, arguments):
    monkeypatch.chdir(run.path.parent)
    path, mine = run.path / name, run.path.parent / "mine"
    path.parent.mkdir(exist_ok=True)
    (path if path.exists() else run.path / "test.tsv").rename(mine)
    path.symlink_to(mine)
    assert cli.main([str(run.path) if word == "RUN" else word for word in arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and f"{name} links to outside the run folder" in error and mine.exists()


@pytest.mark.parametrize("name", ["hypotheses", "references"])
def test_a_pipe_in_a_run_folder_is_not_waited_for(run, tmp_path, name, caplog):
    folder = shutil.copytree(run.path, tmp_path / "copy")
    path = folder / name / "test.txt"
    path.unlink()
    os.mkfifo(path)
    assert not read_results([run.path, folder], baselines={folder: run.path})[1].against
    assert f"{name}/test.txt is a pipe" in caplog.text and "compared without a test" in caplog.text


def test_what_is_generated_is_bounded(monkeypatch):
    monkeypatch.setattr(described_corpora, "embedded_corpus", lambda **sizes: sizes)
    for sizes in ({"train": 10**12}, {"train": 90_000, "valid": 20_000}):
        with pytest.raises(UserError, match="more than 100,000 sentence pairs"):
            corpus_from_description({"generated": sizes})
    for wrong in ({"generated": {"train": "x"}}, {"generated": {"size": 1}}, {"generated": []}, {}, {"train": "file"}):
        with pytest.raises(UserError, match="does not describe a corpus"):
            corpus_from_description(wrong)
    assert corpus_from_description({"generated": {"train": 100}}) == {"train": 100, "task": "translation"}


def test_numbers_that_overflow_by_themselves_stop_training(run, corpus, tmp_path):
    data = prepare_data(corpus, TINY.data, run.path / "data")
    translator = build_translator(TINY, data.subwords, TINY.data.max_tokens)
    translator.compile(optimizer=keras.optimizers.SGD(1e38))
    batches = TranslationBatches(data.train, sentences_per_batch=16, seed=1, bucket_count=1)
    with pytest.raises(UserError, match=r"training stopped at step \d, where (loss|gradient_norm) is (nan|inf)"):
        translator.fit(**fit_arguments(batches), epochs=1, callbacks=[RunLog(tmp_path / "log", batches)], verbose=0)


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

"""What a resumed run relies on: its text, and every file of its folder; what is wrong is said, and nothing is left."""

import contextlib
import dataclasses
import json
import shutil

import pytest

from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.support.checksums import sha256
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.locks import locked
from tests.tiny_run import TINY, interrupted_after, numbers

# Three steps in each of three rounds; the third is stopped in its second step.
SYSTEM = TINY.override(epochs=3, validations_per_epoch=1)
STEPS, STOPPED = 6, 6 * 2 + 2


def contents(folder):
    return {path.relative_to(folder): path.is_dir() or sha256(path) for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def corpus(corpus):
    """As if from files."""
    return dataclasses.replace(corpus, description={**corpus.description, "valid": ["c", "d"], "test": ["e", "f"]})


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, corpus):
    """A run that was stopped in its third round."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    with interrupted_after(STOPPED):
        train_system(SYSTEM, corpus, folder)
    return folder


@pytest.fixture(scope="module")
def whole(stopped, tmp_path_factory, corpus):
    """The same run, resumed."""
    folder = shutil.copytree(stopped, tmp_path_factory.mktemp("whole") / "run")
    train_system(SYSTEM, corpus, folder, resume=True)
    return folder


@pytest.fixture
def run(stopped, tmp_path):
    return RunFolder(shutil.copytree(stopped, tmp_path / "run"))


@pytest.mark.parametrize("beside", [False, True], ids=["own data", "shared data"])
@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_another_text_is_refused_and_leaves_nothing(run, corpus, tmp_path, part, beside):
    text = [("hund hund", "dog dog"), *getattr(corpus.splits, part)[1:]]
    other = dataclasses.replace(corpus, splits=corpus.splits._replace(**{part: text}), gold=None)
    before = contents(tmp_path)
    with pytest.raises(
        UserError, match=r"was started with other (training text than|validation text than|test text than)"
    ):
        train_system(SYSTEM, other, run.path, tmp_path / "data" if beside else None, resume=True)
    assert contents(tmp_path) == before


def kept(lines, keep):
    return "".join(line for number, line in enumerate(lines) if keep(number, json.loads(line)))


LOGS = {
    "deleted": None,
    "empty": lambda number, line: False,
    "without its first rounds": lambda number, line: line["step"] > STEPS,
    "without its last rounds": lambda number, line: line["step"] <= STEPS,
    "without rounds": lambda number, line: "round" not in line,
    "without steps": lambda number, line: "round" in line,
    "thinned": lambda number, line: "round" in line or line["step"] % 2 == 0,
    "without one step": lambda number, line: number != 3,
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_that_lacks_lines_is_refused(run, corpus, name):
    if LOGS[name] is None:
        run.log.unlink()
    else:
        run.log.write_text(kept(run.log.read_text().splitlines(keepends=True), LOGS[name]))
    before = contents(run.path)
    with pytest.raises(
        UserError, match=r"log\.jsonl lacks lines: it has \d of the 2 rounds trained, and \d+ steps? of"
    ):
        train_system(SYSTEM, corpus, run.path, resume=True)
    assert contents(run.path) == before


def in_other_order(lines, number):
    return [*lines[:number], lines[number + 1], lines[number], *lines[number + 2 :]]


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda lines: [lines[0], *lines], "is damaged: it has lines twice"),
        (lambda lines: [*lines[: STEPS + 1], *lines[STEPS:]], "is damaged: it has lines twice"),
        (lambda lines: in_other_order(lines, 0), "is damaged: its lines do not count rounds and steps up from 1"),
        (lambda lines: lines[::-1], "is damaged: its lines do not count rounds and steps up from 1"),
        (lambda lines: [lines[0].replace('"step": 1', '"step": 0'), *lines], "is damaged: its lines do not count"),
        (lambda lines: [lines[1], *lines[1:]], "lacks lines: it has 2 of the 2 rounds trained, and 11 steps of 12"),
    ],
    ids=["a step twice", "a round twice", "two steps exchanged", "reversed", "a step 0", "one in place of another"],
)
def test_a_log_whose_lines_were_moved_is_refused(run, corpus, change, wrong):
    run.log.write_text("".join(change(run.log.read_text().splitlines(keepends=True))))
    before = contents(run.path)
    with pytest.raises(UserError, match=rf"log\.jsonl {wrong}.*: restore it"):
        train_system(SYSTEM, corpus, run.path, resume=True)
    assert contents(run.path) == before


@pytest.mark.long
@pytest.mark.parametrize("lost", ["half a line", "two lines and a half", "all of the round"])
def test_lines_of_steps_that_are_repeated_may_be_lost(run, corpus, whole, lost):
    """They are those after the last round that was saved, of which a kill may leave any part."""
    text = run.log.read_text()
    lines = text.splitlines(keepends=True)
    assert json.loads(lines[-1])["step"] == STOPPED
    cut = {"half a line": len(lines[-1]) // 2, "two lines and a half": len(lines[-1] + lines[-2]) - 9}
    run.log.write_text(text[: -cut[lost]] if lost in cut else kept(lines, lambda _, line: line["step"] <= 2 * STEPS))
    train_system(SYSTEM, corpus, run.path, resume=True)
    assert numbers(run.path) == numbers(whole)


def relied_on():
    """The files of a run, by a name that does not depend on its text."""
    best = ("config.json", "checksums.json", "model.weights.h5", "task.json", "preprocessor.json", "tokenizer.json")
    return ["config.json", "environment.json", "test.tsv", "log.jsonl", "state.npz", *(f"best/{one}" for one in best)]


def damage(path, how):
    if how == "deleted":
        path.unlink()
    elif how == "cut":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        path.unlink()
        path.mkdir()


@pytest.mark.parametrize("how", ["deleted", "cut", "a folder"])
@pytest.mark.parametrize("name", relied_on())
def test_what_a_run_relies_on_is_looked_at_before_it_goes_on(run, corpus, monkeypatch, caplog, name, how):
    """The message names the file, and nothing is prepared or trained."""

    def never(*arguments, **options):
        raise AssertionError("the text is prepared")

    damage(run.path / name, how)
    before = contents(run.path)
    monkeypatch.setattr("keras_attn_zoo.runs.training.prepare_data", never)
    if (name, how) in (("test.tsv", "deleted"), ("best/checksums.json", "deleted")):
        # Runs of earlier versions lack them.
        with pytest.raises(AssertionError, match="is prepared"):
            train_system(SYSTEM, corpus, run.path, resume=True)
        assert name in caplog.text.replace("best has no ", "best/")
    else:
        with pytest.raises(UserError) as error:
            train_system(SYSTEM, corpus, run.path, resume=True)
        told = str(error.value)
        assert name.split("/")[-1] in told or "run folder" in told, told
        assert "\n" not in told
    assert contents(run.path) == before


@pytest.mark.long
@pytest.mark.parametrize("how", [pytest.param("deleted", marks=pytest.mark.slow), "cut"])
def test_prepared_text_that_was_damaged_is_made_again_or_refused(run, corpus, whole, tmp_path, how):
    names = sorted(path.relative_to(run.path) for path in (run.path / "data").rglob("*") if path.is_file())
    # By day, a few of them.
    for number, name in enumerate(names if how == "deleted" else names[::3]):
        copy = shutil.copytree(run.path, tmp_path / str(number))
        damage(copy / name, how)
        try:
            train_system(SYSTEM, corpus, copy, resume=True)
        except UserError as error:
            assert name.name in str(error) and "\n" not in str(error)
        else:
            assert numbers(copy) == numbers(whole)


def test_a_comparison_waits_for_another_that_trains_the_same_run(run, corpus, monkeypatch):
    """And finds it trained, or goes on with it."""
    run.state.write_bytes(b"")
    with locked(run.path), pytest.raises(UserError, match="is in use by process"):
        train_system(SYSTEM, corpus, run.path, resume=True)
    held, waited = contextlib.ExitStack(), []
    held.enter_context(locked(run.path))
    monkeypatch.setattr(
        "keras_attn_zoo.support.locks.time.sleep", lambda seconds: (waited.append(seconds), held.close())
    )
    with pytest.raises(UserError, match=r"state\.npz is damaged"):
        train_system(SYSTEM, corpus, run.path, resume=True, wait=True)
    assert len(waited) == 1

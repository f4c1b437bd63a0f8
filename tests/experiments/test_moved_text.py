"""A run goes on with its text in another place, and with no other text."""

import json
import shutil

import pytest

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments.corpora import corpus_from_files
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.experiments.training import train_system
from tests.tiny_run import TINY, interrupted_after, make_text

PARTS = ("train", "valid", "test")
SYSTEM = TINY.override(epochs=1, validations_per_epoch=1)


def read(folder, parts=PARTS, suffix="de"):
    files = [tuple(folder / f"{part}.{one}" for one in (suffix, "en")) for part in parts]
    return corpus_from_files(*files)


@pytest.fixture(scope="module", params=[PARTS, ("train",)], ids=["three texts", "random split"])
def moved(request, tmp_path_factory):
    """A run that was ended by an interruption, and its text, all of which was moved."""
    folder = tmp_path_factory.mktemp("moved")
    make_text(folder / "old" / "text")
    with interrupted_after(2):
        train_system(SYSTEM, read(folder / "old" / "text", request.param), folder / "old" / "run")
    (folder / "old").rename(folder / "new")
    return folder / "new", request.param


@pytest.fixture
def place(moved, tmp_path):
    return shutil.copytree(moved[0], tmp_path / "place")


def test_a_run_goes_on_where_its_text_is_now(moved, place):
    _, parts = moved
    before = (place / "run" / "config.json").read_text()
    for _ in range(2):
        run = train_system(SYSTEM, read(place / "text", parts), place / "run", resume=True)
    assert run.config.read_text() == before
    assert all(str(place.parent) not in name for name in run.corpus()["train"])


def test_another_text_is_named(moved, place):
    _, parts = moved
    for part in parts:
        other = shutil.copytree(place / "text", place / part)
        path = other / f"{part}.de"
        path.write_text(path.read_text(encoding="utf-8").replace("rot", "blau", 1), encoding="utf-8")
        names = {"train": "fingerprint; corpus.train"}.get(part, part)
        with pytest.raises(UserError, match=rf"different settings \(corpus\.{names}\)"):
            train_system(SYSTEM, read(other, parts), place / "run", resume=True)


def test_other_sentences_in_the_same_files_are_named(moved, place):
    _, parts = moved
    run = train_system(SYSTEM, read(place / "text", parts), place / "own")
    for part in parts:
        path = place / "text" / f"{part}.de"
        before = path.read_text(encoding="utf-8")
        path.write_text(before.replace("rot", "blau", 1), encoding="utf-8")
        names = {"train": "fingerprint"}.get(part, part)
        with pytest.raises(UserError, match=rf"different settings \(corpus\.{names}"):
            train_system(SYSTEM, read(place / "text", parts), place / "own", resume=True)
        path.write_text(before, encoding="utf-8")
    train_system(SYSTEM, read(place / "text", parts), run.path, resume=True)


def test_files_may_be_renamed_too_unless_the_run_has_no_more_than_their_names(tmp_path):
    place = tmp_path / "here"
    make_text(place)
    run = RunFolder(tmp_path / "run")
    with interrupted_after(1):
        train_system(SYSTEM, read(place), run.path)
    for part in PARTS:
        shutil.copy(place / f"{part}.de", place / f"{part}.txt")
    train_system(SYSTEM, read(place, suffix="txt"), run.path, resume=True)
    config = json.loads(run.config.read_text())
    assert config["corpus"].pop("valid_fingerprint")
    run.config.write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"different settings \(corpus\.valid\)"):
        train_system(SYSTEM, read(place, suffix="txt"), run.path, resume=True)
    shutil.copytree(place, tmp_path / "there")
    train_system(SYSTEM, read(tmp_path / "there"), run.path, resume=True)
    # Without its own test text, a run of a still earlier version has only the names of the files.
    run.test.unlink()
    with pytest.raises(UserError, match=r"different settings \(corpus\.test\)"):
        train_system(SYSTEM, read(tmp_path / "there"), run.path, resume=True)


def test_a_random_split_of_a_text_that_differs_only_in_what_is_tested(tmp_path):
    """The split depends on the seed and the number of sentences, so that the training text can be the same."""
    first, second = tmp_path / "first.tsv", tmp_path / "second.tsv"
    lines = [f"haus x{i}\thouse x{i}\n" for i in range(60)]
    first.write_text("".join(lines))
    corpus = corpus_from_files(first)
    with interrupted_after(1):
        train_system(SYSTEM, corpus, tmp_path / "run")
    number = lines.index("\t".join(corpus.splits.test[0]) + "\n")
    second.write_text("".join([*lines[:number], f"haus\thouse x{number}\n", *lines[number + 1 :]]))
    changed = corpus_from_files(second)
    assert list(changed.splits.train) == list(corpus.splits.train) and changed.splits.test != corpus.splits.test
    with pytest.raises(UserError, match=r"different settings \(corpus\.train\)"):
        train_system(SYSTEM, changed, tmp_path / "run", resume=True)

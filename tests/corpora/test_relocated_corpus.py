"""A run goes on with its text in another place, and with no other text."""

import dataclasses
import json
import shutil
import unicodedata
from pathlib import Path

import pytest

from keras_attn_zoo.corpora.corpus import corpus_from_files, embedded_corpus
from keras_attn_zoo.runs.preparation import described
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.support.errors import UserError
from tests.tiny_run import TINY, interrupted_after, make_text

PARTS = ("train", "valid", "test")
WHAT = {"train": "training text", "valid": "validation text", "test": "test text"}
SYSTEM = TINY.override(epochs=1, validations_per_epoch=1)


def refused(folder, parts, part):
    """What is said of another text in a folder."""
    what = "text" if parts == ("train",) else WHAT[part]
    files = f"{folder / part}.de and {folder / part}.en"
    return pytest.raises(
        UserError,
        match=rf" was started with other {what} than {files}: resume with the same text, or choose another folder\.$",
    )


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


def test_other_sentences_in_the_same_files_are_named(moved, place):
    _, parts = moved
    for part in parts:
        path = place / "text" / f"{part}.de"
        before = path.read_text(encoding="utf-8")
        path.write_text(before.replace("rot", "blau", 1), encoding="utf-8")
        with refused(place / "text", parts, part):
            train_system(SYSTEM, read(place / "text", parts), place / "run", resume=True)
        path.write_text(before, encoding="utf-8")
    train_system(SYSTEM, read(place / "text", parts), place / "run", resume=True)


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
    assert config["corpus"].pop("valid_fingerprint") and config["corpus"].pop("test_fingerprint")
    run.config.write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"other validation text than \S+valid\.txt and \S+valid\.en"):
        train_system(SYSTEM, read(place, suffix="txt"), run.path, resume=True)
    shutil.copytree(place, tmp_path / "there")
    with pytest.raises(UserError, match=r"other test text than \S+test\.de and \S+test\.en: resume with the same text"):
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
    with pytest.raises(UserError, match=rf"other text than {second}: resume with the same text"):
        train_system(SYSTEM, changed, tmp_path / "run", resume=True)


def begun(folder, corpus):
    """A run folder, as if training had begun."""
    run = RunFolder(folder)
    run.create(SYSTEM, described(corpus, SYSTEM.data), corpus.test.rows())
    return run


def check(run, corpus, system=SYSTEM):
    run.check_settings(system, described(corpus, system.data))


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda text: unicodedata.normalize("NFD", text),
        lambda text: text.replace(" ", "  "),
        lambda text: text.replace(" ", "\u00a0"),
        lambda text: f" {text}",
    ],
    ids=["NFD", "two spaces", "no-break space", "space in front"],
)
@pytest.mark.parametrize("part", PARTS)
def test_text_is_compared_as_it_stands(tmp_path, part, change):
    """Scores depend on it."""
    for name in PARTS:
        for side in ("de", "en"):
            write(tmp_path / f"{name}.{side}", ["tür und tor", "ein café"])
    run = begun(tmp_path / "run", read(tmp_path))
    check(run, read(tmp_path))
    write(tmp_path / f"{part}.en", map(change, ["tür und tor", "ein café"]))
    with refused(tmp_path, PARTS, part):
        check(run, read(tmp_path))
    # In a random split, the one text.
    lines = [f"tür x{i}\ttür x{i}" for i in range(20)]
    corpus = corpus_from_files(write(tmp_path / "all.tsv", lines))
    run = begun(tmp_path / "split", corpus)
    check(run, corpus)
    if part != "train":
        number = lines.index("\t".join(getattr(corpus.splits, part)[0]))
        source, target = lines[number].split("\t")
        write(tmp_path / "all.tsv", [*lines[:number], f"{source}\t{change(target)}", *lines[number + 1 :]])
        with pytest.raises(UserError, match=r"other text than \S+all\.tsv: resume with the same text"):
            check(run, corpus_from_files(tmp_path / "all.tsv"))


def test_what_differs_is_said_with_the_files_that_were_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_text(tmp_path / "text")
    run = begun(tmp_path / "run", read(Path("text")))
    with pytest.raises(UserError, match=r"started with other training text than text/cased\.de and text/cased\.en: "):
        files = [tuple(f"text/{part}.{one}" for one in ("de", "en")) for part in ("cased", "valid", "test")]
        check(run, corpus_from_files(*files))
    with pytest.raises(UserError, match=r"started without --reverse: resume without it, or choose another folder\.$"):
        files = [tuple(f"text/{part}.{one}" for one in ("de", "en")) for part in PARTS]
        check(run, corpus_from_files(*files, reverse=True))
    with pytest.raises(UserError, match=r"other test text than text/valid\.tsv: resume with the same text"):
        check(run, corpus_from_files(*files[:2], "text/valid.tsv"))
    # Settings that text is prepared with are not another text; others stand beside it.
    settings = r"started with different settings \(system\.data\.min_words: 1, now 2\): resume with the same ones"
    with pytest.raises(UserError, match=settings):
        check(run, read(Path("text")), SYSTEM.override(min_words=2))
    both = (
        r"\(system\.seed: 3, now 4\) and other training text than text/train\.de and text/train\.en: "
        "resume with the same settings and text"
    )
    other = read(Path("text"))
    other = dataclasses.replace(other, splits=other.splits._replace(train=[("haus", "house")]))
    with pytest.raises(UserError, match=both):
        check(run, other, SYSTEM.override(seed=4))
    with pytest.raises(UserError, match="started with other text than this built-in corpus: resume with the same text"):
        check(run, embedded_corpus(20, 2, 2))
    with pytest.raises(UserError, match=r"started with other text than text/train\.tsv: resume with the same text"):
        check(run, corpus_from_files("text/train.tsv"))
    split = begun(tmp_path / "split", corpus_from_files("text/train.tsv", seed=3))
    with pytest.raises(UserError, match="another random split of its text: resume with --split-seed 3, or"):
        check(split, corpus_from_files("text/train.tsv"))

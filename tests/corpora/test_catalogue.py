"""Corpora by name, without a network: the catalogue, text put in place by hand, splits, what a run remembers."""

import dataclasses
import gzip
import hashlib
import itertools
import json
import os
import random
import re

import pytest

from keras_attn_zoo.cli import main
from keras_attn_zoo.corpora import corpus_folder, named_corpora
from keras_attn_zoo.corpora.corpus import corpus_from_name
from keras_attn_zoo.corpora.held_out import hold_out
from keras_attn_zoo.corpora.named_corpora import NamedCorpus, catalogue, find_corpus
from keras_attn_zoo.runs.described_corpora import corpus_from_description, own_test_text
from keras_attn_zoo.runs.finished_run import score_and_draw
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.support.errors import UserError
from tests.test_docs import RECIPES
from tests.tiny_run import TINY, make_pairs, make_text

SPLIT = NamedCorpus("tiny-de-en", "text", ("de", "en"), "home", "terms", mtdata={p: [] for p in named_corpora.PARTS})
WHOLE = NamedCorpus("whole-de-en", "text", ("de", "en"), "home", "terms", mtdata={"all": ["Tiny-all-1-deu-eng"]})


@pytest.fixture(autouse=True)
def corpora(tmp_path, monkeypatch):
    """A catalogue of two corpora, and the folder for them."""
    monkeypatch.setenv("ATTN_ZOO_CORPORA", str(tmp_path / "corpora"))
    monkeypatch.setattr(named_corpora, "catalogue", lambda: {one.name: one for one in (SPLIT, WHOLE)})
    return tmp_path / "corpora"


@pytest.fixture
def placed(corpora, tmp_path):
    """The corpus that is split, put in place by hand: plain, gzip and TSV."""
    make_text(tmp_path / "text")
    (corpora / SPLIT.name).mkdir(parents=True)
    for name in ("train.de", "train.en", "valid.de.gz", "valid.en.gz", "test.tsv"):
        (tmp_path / "text" / name).rename(corpora / SPLIT.name / name)
    return corpora / SPLIT.name


@pytest.fixture
def whole(corpora):
    """The folder of a text that is not split yet."""
    (corpora / WHOLE.name).mkdir(parents=True)
    (corpora / WHOLE.name / "all.tsv").write_text("".join(f"satz {i}\tsentence {i}\n" for i in range(200)))
    return corpora / WHOLE.name


def test_the_catalogue():
    # The league is no paper's.
    recipes = {name.removesuffix(".py") for name in RECIPES} - {"league"}
    names = [name for one in catalogue().values() for name in (one.name, one.reversed_name) if name]
    assert len(set(names)) == len(names)
    assert set().union(*(one.papers for one in catalogue().values())) == recipes
    for one in catalogue().values():
        # The lists of the two libraries are not both given, and no part is unknown.
        assert bool(one.mtdata) != bool(one.hub)
        assert one.parts == ("all",) or one.parts[:1] == ("train",)
        assert set(one.mtdata) <= {"all", *named_corpora.PARTS, *one.more_tests}
        assert set(one.hub) <= {*named_corpora.PARTS, *one.more_tests, "repository", "revision", "fields", "turns"}
        assert set(one.more_tests) <= set(one.mtdata or one.hub) - set(named_corpora.PARTS)
        assert len(one.pairs) == 3 and one.title and one.terms and one.home.startswith("http")


@pytest.mark.parametrize("name, reverse", [("tiny-de-en", False), ("tiny-en-de", True)])
def test_a_name_says_the_direction(placed, name, reverse):
    assert find_corpus(name) == (SPLIT, reverse)
    read = corpus_from_name(name)
    expected = [make_pairs(96), make_pairs(16, 200), make_pairs(6, 400)]
    assert [list(part) for part in read.splits] == [[p[::-1] for p in part] if reverse else part for part in expected]
    assert read.description["name"] == name


@pytest.mark.parametrize(
    "name, advice",
    [
        ("tiny-en-dee", "did you mean tiny-en-de?"),
        ("TINY-EN-DE", "did you mean tiny-en-de?"),
        ("x", "`attn-zoo corpora` lists"),
    ],
)
def test_an_unknown_name(name, advice):
    with pytest.raises(UserError, match=f"there is no corpus {name}: ") as caught:
        find_corpus(name)
    assert advice in str(caught.value)


def test_what_was_put_in_place_gets_a_manifest_and_is_checked(placed, capsys):
    assert main(["corpora", "--verify"]) == 0
    assert capsys.readouterr().out == f"tiny-de-en: {placed} is unchanged\n"
    manifest = json.loads((placed / "corpus.json").read_text())
    assert manifest["origin"] == "by hand" and manifest["pairs"] == {"train": 96, "valid": 16, "test": 6}
    assert list(manifest["sha256"]) == ["test.tsv", "train.de", "train.en", "valid.de.gz", "valid.en.gz"]
    # One letter, the size stays.
    text = (placed / "train.en").read_bytes()
    (placed / "train.en").write_bytes(text.replace(b"house", b"mouse", 1))
    with pytest.raises(
        UserError, match=r"train\.en is damaged or was changed: .* remove .* to download the text again"
    ):
        corpus_from_name("tiny-de-en")
    assert main(["corpora", "--verify", "tiny-de-en"]) == 2
    assert "1 of the corpora could not be verified" in capsys.readouterr().err
    (placed / "train.en").unlink()
    with pytest.raises(UserError, match=r"train\.en is missing"):
        corpus_from_name("tiny-de-en")


@pytest.mark.parametrize(
    "change, found",
    [
        ({"files": {part: [["train.de"], "train.en"] for part in named_corpora.PARTS}}, "does not name the files"),
        ({"files": {part: 5 for part in named_corpora.PARTS}}, "does not name the files"),
        ({"pairs": {"train": "many"}}, "does not name the files"),
        ({"name": "whole-de-en"}, "holds whole-de-en, not tiny-de-en: rename or remove the folder"),
        (b"{", r"corpus\.json is damaged"),
        (b"[]", r"corpus\.json is damaged"),
        (b'{"format": 9, "sha256": {}}', r"corpus\.json has format 9"),
        (b'{"format": 1, "sha256": {}}', r"corpus\.json is damaged"),
        (b'{"sha256": {"../x": ""}}', r"corpus\.json names"),
    ],
)
def test_a_manifest_that_does_not_fit(placed, capsys, change, found):
    corpus_from_name("tiny-de-en")
    manifest = json.loads((placed / "corpus.json").read_text())
    changed = change if isinstance(change, bytes) else json.dumps({**manifest, **change}).encode()
    (placed / "corpus.json").write_bytes(changed)
    assert main(["corpora", "--download", "tiny-de-en"]) == 2
    error = capsys.readouterr().err
    assert re.search(found, error) and error.count("\n") == 1


@pytest.mark.parametrize("changed", [False, True])
def test_text_put_in_place_that_is_not_the_published_one_gets_a_warning(placed, monkeypatch, caplog, changed):
    """Whether the lines are the same, plain or compressed, not the bytes of the files."""
    lines = {side: gzip.decompress((placed / f"valid.{side}.gz").read_bytes()) for side in SPLIT.sides}
    known = tuple(hashlib.sha256(lines[side] + b"more\n" * changed).hexdigest() for side in SPLIT.sides)
    published = dataclasses.replace(SPLIT, sha256={"valid": known})
    monkeypatch.setattr(named_corpora, "catalogue", lambda: {SPLIT.name: published})
    corpus_folder.provide(published)
    said = f"the valid text in {placed} is not the published one of {SPLIT.name}"
    assert (said in caplog.text) == changed


def test_a_further_test_text_is_scored_if_it_is_there(placed, monkeypatch, caplog, capsys):
    """The corpus is the same with it and without, so a run goes on in either."""
    monkeypatch.setattr(
        named_corpora, "catalogue", lambda: {SPLIT.name: dataclasses.replace(SPLIT, more_tests=("news2018",))}
    )
    caplog.set_level("INFO")
    without = corpus_from_name("tiny-de-en")
    assert not without.more_tests
    assert "read without the further test text news2018: to score it, put both its sides there" in caplog.text
    caplog.clear()
    for side, text in (("de", "rot haus\nhund geht"), ("en", "red house\ndog goes")):
        (placed / f"news2018.{side}").write_text(f"{text}\n")
    assert not corpus_from_name("tiny-de-en").more_tests
    (placed / "corpus.json").unlink()
    found = corpus_from_name("tiny-en-de")
    assert {name: list(text.pairs) for name, text in found.more_tests.items()} == {
        "news2018": [("red house", "rot haus"), ("dog goes", "hund geht")]
    }
    assert found.description["sha256"] == without.description["sha256"]
    assert corpus_from_description(without.description).description == without.description
    assert main(["corpora", "tiny-de-en"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "tests test, news2018" in said and "train, valid and test (and news2018 for its scores)" in said
    # It is checked like the rest.
    (placed / "news2018.en").write_text("red house\ncat goes\n")
    with pytest.raises(UserError, match=r"news2018\.en is damaged or was changed"):
        corpus_from_name("tiny-de-en")


def test_a_corpus_within_lengths(placed):
    """Validation and test text too; remembered by its runs."""
    whole = corpus_from_name("tiny-de-en")
    lengths = {(len(s.split()), len(t.split())) for part in whole.splits[1:] for s, t in part}
    least, most = sorted({n for one in lengths for n in one})[:2]
    found = whole.within(least, most)
    for part, kept in zip(whole.splits[1:], found.splits[1:], strict=True):
        assert kept == [pair for pair in part if all(least <= len(side.split()) <= most for side in pair)]
    assert 0 < len(found.splits.test) < len(whole.splits.test) and found.splits.train is whole.splits.train
    again = corpus_from_description(json.loads(json.dumps(found.description)))
    assert again.splits.test == found.splits.test and again.description == found.description
    assert whole.description != found.description


def test_one_side_compressed(placed):
    with gzip.open(placed / "train.en.gz", "wb") as file:
        file.write((placed / "train.en").read_bytes())
    (placed / "train.en").unlink()
    assert list(corpus_from_name("tiny-de-en").splits.train) == make_pairs(96)


def test_a_file_in_place_of_the_folder(corpora, capsys):
    corpora.mkdir()
    (corpora / SPLIT.name).write_text("")
    assert main(["corpora", "--download", SPLIT.name]) == 2
    assert f"{corpora / SPLIT.name} is not a folder: remove it." in capsys.readouterr().err


def test_a_folder_of_all_corpora_that_cannot_be_made(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATTN_ZOO_CORPORA", str(tmp_path / "file" / "corpora"))
    assert main(["corpora", "--download", SPLIT.name]) == 2
    error = capsys.readouterr().err
    assert f"cannot create the folder of corpora {tmp_path / 'file' / 'corpora'}" in error and error.count("\n") == 1
    assert "Set ATTN_ZOO_CORPORA, or XDG_CACHE_HOME, to a folder" in error


@pytest.mark.skipif(os.name == "nt", reason="needs modes")
def test_a_text_that_others_may_change_is_left_alone_unless_it_was_chosen(placed, tmp_path, monkeypatch):
    """Its checksums are in the same folder."""
    monkeypatch.delenv("ATTN_ZOO_CORPORA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    usual = tmp_path / "cache" / "keras-attn-zoo" / "corpora"
    usual.parent.mkdir(parents=True)
    placed.parent.rename(usual)
    (usual / SPLIT.name).chmod(0o777)
    before = sorted((usual / SPLIT.name).iterdir())
    with pytest.raises(UserError, match=rf"left alone, since everybody may write to {usual / SPLIT.name}: change that"):
        corpus_from_name(SPLIT.name)
    assert sorted((usual / SPLIT.name).iterdir()) == before
    monkeypatch.setenv("ATTN_ZOO_CORPORA", str(usual))
    assert list(corpus_from_name(SPLIT.name).splits.train) == make_pairs(96)
    (usual / SPLIT.name).chmod(0o755)
    monkeypatch.delenv("ATTN_ZOO_CORPORA")
    assert list(corpus_from_name(SPLIT.name).splits.train) == make_pairs(96)


def test_a_split_of_ones_own_is_not_replaced(placed, whole):
    for path in placed.iterdir():
        path.rename(whole / path.name)
    before = {path: path.read_bytes() for path in whole.iterdir()}
    with pytest.raises(
        UserError, match=r"parts that are not its split \(train.*valid.*test.*\): remove one or the other"
    ):
        corpus_from_name(WHOLE.name)
    assert {path: path.read_bytes() for path in whole.iterdir()} == before
    (whole / "all.tsv").unlink()
    assert list(corpus_from_name(WHOLE.name).splits.train) == make_pairs(96)


def test_the_folder_of_all_corpora(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ATTN_ZOO_CORPORA", "~/none")
    assert main(["corpora", "--verify"]) == 0
    assert capsys.readouterr().out == f"there are no corpora in {tmp_path / 'none'}\n"
    # Asked for by name, before the option or after it, a corpus has to be there.
    for line in (["--verify", "tiny-de-en"], ["tiny-de-en", "--verify"]):
        assert main(["corpora", *line]) == 2
        assert "tiny-de-en is not on this machine: attn-zoo corpora --download tiny-de-en" in capsys.readouterr().out
    assert main(["corpora", "--download"]) == 2
    assert "--download needs the name of a corpus" in capsys.readouterr().err


def test_half_of_it_in_place(placed, capsys):
    (placed / "valid.en.gz").unlink()
    with pytest.raises(UserError, match=r"is not a whole corpus: put train, valid and test, each as a file \.de and"):
        corpus_from_name("tiny-de-en")
    assert not (placed / "corpus.json").exists()
    assert main(["corpora", "tiny-de-en"]) == 0
    out = capsys.readouterr().out
    assert "here     no" in out and f"into {placed}" in " ".join(out.split())


def test_lines_that_do_not_match(placed):
    with (placed / "train.en").open("a") as file:
        file.write("more\n")
    with pytest.raises(UserError, match=r"has 96 lines but .* has 97"):
        corpus_from_name("tiny-de-en")
    assert not (placed / "corpus.json").exists()


def test_what_has_no_parts_is_split_alike_everywhere(corpora, capsys):
    pairs = [(f"satz {i}", f"sentence {i}") for i in range(200)]
    pairs += [("ja", f"yes {i}") for i in range(50)] + [("", "empty"), ("satz 3", "sentence 3")]
    (corpora / WHOLE.name).mkdir(parents=True)
    with gzip.open(corpora / WHOLE.name / "all.tsv.gz", "wt") as file:
        file.writelines(f"{source}\t{target}\n" for source, target in pairs)
    assert main(["corpora", "--download", "whole-en-de"]) == 0
    assert capsys.readouterr().out.endswith("(201 train, 25 valid, 25 test)\n")
    manifest = json.loads((corpora / WHOLE.name / "corpus.json").read_text())
    assert manifest["held_out"]["parts"] == ["valid", "test"] and manifest["dropped"] == {"all": 1}
    train, valid, test = (list(part) for part in corpus_from_name("whole-de-en").splits)
    assert sorted([*train, *valid, *test]) == sorted(pair for pair in pairs if pair[0])
    assert {("ja", "yes 1")} <= set(train)


def test_no_more_is_held_out_of_a_large_text_than_of_given_files(corpora):
    (corpora / WHOLE.name).mkdir(parents=True)
    lines = (f"satz {i}\tsentence {i}\n" for i in range(20_100))
    (corpora / WHOLE.name / "all.tsv").write_text("".join(lines))
    corpus_folder.provide(WHOLE)
    manifest = json.loads((corpora / WHOLE.name / "corpus.json").read_text())
    assert manifest["pairs"] == {"train": 16_100, "valid": 2000, "test": 2000}


def test_a_split_that_is_broken_off_leaves_none(corpora, monkeypatch):
    """Its parts beside the whole would be taken for somebody's own split, which is never replaced."""
    (corpora / WHOLE.name).mkdir(parents=True)
    make_text(corpora / "text")
    pairs = (corpora / "text" / "test.tsv").rename(corpora / WHOLE.name / "all.tsv")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):

        def broken_off(corpus, place, *_):
            # The process may as well be killed here.
            assert len([*place.iterdir()]) == 6 and {*pairs.parent.glob("[!.]*")} == {pairs}
            raise KeyboardInterrupt

        patch.setattr(corpus_folder, "_write_manifest", broken_off)
        corpus_from_name(WHOLE.name)
    assert [*pairs.parent.iterdir()] == [pairs]
    assert len(list(corpus_from_name(WHOLE.name).splits.train)) == 4


def test_a_split_of_which_a_killed_process_left_a_part_is_completed(whole):
    corpus_from_name(WHOLE.name)
    done = {path: path.read_bytes() for path in sorted(whole.iterdir())}
    parts = [path for path in done if path.suffix in (".de", ".en")]
    for count in range(len(parts) + 1):
        # The list comes last.
        for path in [whole / "corpus.json", *parts[count:]]:
            path.unlink()
        corpus_from_name(WHOLE.name)
        assert {path: path.read_bytes() for path in whole.iterdir()} == done


def test_downloads_that_stayed_behind_are_removed(whole):
    corpus_from_name(WHOLE.name)
    left = corpus_folder.cache_folder() / "unfinished" / WHOLE.name
    left.mkdir(parents=True)
    (left / "all.zip").write_bytes(b"downloaded")
    corpus_from_name(WHOLE.name)
    assert not left.exists()


def test_held_out_text_shares_no_sentence():
    random.seed(1)
    pairs = [(f"a{random.randrange(300)}", f"b{random.randrange(300)}") for _ in range(200)]
    parts = hold_out(pairs, {"valid": 15, "test": 20})
    assert parts == hold_out(pairs, {"valid": 15, "test": 20})
    assert 10 < len(parts["valid"]) <= 15 and 15 < len(parts["test"]) <= 20
    for one, other in itertools.combinations(parts.values(), 2):
        for side in (0, 1):
            assert not {pair[side] for pair in one} & {pair[side] for pair in other}
    assert set(parts["train"]) | set(parts["valid"]) | set(parts["test"]) == set(pairs)


def test_text_that_cannot_be_split():
    with pytest.raises(UserError, match="3 sentence pairs are too few to split"):
        hold_out([("a", "b"), ("a", "c"), ("d", "c")], {"test": 1})


@pytest.mark.parametrize("option", [["--train", "a"], ["--reverse"], ["--split-seed", "3"], ["--embedded"]])
def test_options_that_exclude_each_other(option, capsys):
    status = main(["train", "--system", "uniform", "--run", "run", "--corpus", "tiny-de-en", *option])
    assert status == 2
    assert "provides the text: leave out" in capsys.readouterr().err


def test_a_corpus_that_is_not_here(corpora, monkeypatch, capsys):
    monkeypatch.setattr("keras_attn_zoo.support.extras.is_installed", lambda module: module != "mtdata")
    status = main(["train", "--system", "uniform", "--run", str(corpora / "run"), "--corpus", "whole-de-en"])
    error = capsys.readouterr().err.splitlines()[-1]
    assert status == 2
    assert "needs mtdata: pip install 'keras-attn-zoo[corpora]'. Or put all (which is then split), or train" in error
    assert error.endswith(f"into {corpora / 'whole-de-en'}.")
    assert not [path for path in corpora.glob("*") if path.name != "unfinished"]


@pytest.mark.long
def test_a_run_remembers_its_corpus(placed, tmp_path):
    read = corpus_from_name("tiny-de-en")
    run = train_system(TINY, read, tmp_path / "run")
    score_and_draw(run.path, read.test)
    config = json.loads(run.config.read_text())["corpus"]
    assert (
        config["name"] == "tiny-de-en"
        and config["sha256"].keys() == json.loads((placed / "corpus.json").read_text())["sha256"].keys()
    )
    # Its own test text is in the folder; else it is that of the corpus, which nobody need allow.
    expected = make_pairs(6, 400)
    assert list(own_test_text(RunFolder(run.path)).pairs) == expected
    run.test.unlink()
    assert list(own_test_text(RunFolder(run.path)).pairs) == expected
    # Resumed with the same text, and not with another.
    train_system(TINY, corpus_from_name("tiny-de-en"), run.path, resume=True)
    with pytest.raises(UserError, match=r"started with other text than the corpus tiny-en-de: resume"):
        train_system(TINY, corpus_from_name("tiny-en-de"), run.path, resume=True)
    (placed / "corpus.json").unlink()
    (placed / "test.tsv").write_text("rot\tred\n")
    with pytest.raises(UserError, match="is another text than the run's: give --test"):
        corpus_from_description(run.corpus())


def test_a_description_that_is_none():
    for bad in ({"name": 3, "sha256": {}}, {"name": "tiny-de-en"}, {"name": "tiny-de-en", "sha256": []}):
        with pytest.raises(UserError, match="does not describe a corpus"):
            corpus_from_description(bad)
    # A run from elsewhere downloads nothing.
    with pytest.raises(UserError, match="tiny-de-en is not on this machine: attn-zoo corpora --download tiny-de-en"):
        corpus_from_description({"name": "tiny-de-en", "sha256": {}})


def test_a_folder_that_cannot_be_written_to(placed, monkeypatch):
    """What has its manifest is read without a lock."""
    corpus_folder.provide(SPLIT)
    monkeypatch.setattr(corpus_folder, "locked", None)
    assert corpus_folder.provide(SPLIT)["pairs"]["train"] == 96
    with pytest.raises(TypeError):
        corpus_folder.provide(dataclasses.replace(SPLIT, name="other-de-en"))

"""Which runs and sentences the pictures of a recipe are drawn of; the drawing itself is tested elsewhere."""

import dataclasses
import json
import os

import pytest

from keras_attn_zoo.cli import plot
from keras_attn_zoo.cli.plot import draw_pictures
from keras_attn_zoo.cli.plot_lengths import _corpus_of
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Entry, Recipe, expand
from keras_attn_zoo.studies.paper_tables import Examples
from tests.made_runs import WRONG, make_run

ENTRIES = {name: Entry(System(name, {})) for name in ("a", "b", "c")}


def run_by(monkeypatch, run):
    """Have the commands that draw pictures do something else."""
    monkeypatch.setattr(plot, "PICTURES", [dataclasses.replace(command, run=run) for command in plot.PICTURES])


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Draw one picture of the recipe; return the options of its command, None if it was not drawn."""

    def draw(line, tables=(), grid=None, seeds=(), **arguments):
        seen = []
        run_by(monkeypatch, seen.append)
        recipe = Recipe("A paper", ENTRIES, ("a",), tables=tables, pictures={"picture.png": line})
        draw_pictures(recipe, expand(ENTRIES, {}, grid, seeds), tmp_path, **arguments)
        assert len(seen) < 2
        return seen[0] if seen else None

    return draw


def test_a_picture_that_fails_stops_no_other(tmp_path, monkeypatch, caplog):
    """Whatever it fails with: tables and page are written after it."""
    seen = []

    def run(options):
        seen.append(options.output.name)
        raise RuntimeError("a defect")

    run_by(monkeypatch, run)
    make_run(tmp_path / "a")
    recipe = Recipe("A paper", ENTRIES, ("a",), pictures={"one.png": "curves a", "two.png": "curves a"})
    draw_pictures(recipe, expand(ENTRIES, {}), tmp_path)
    assert seen == ["one.png", "two.png"]
    assert "one.png failed: RuntimeError: a defect" in caplog.text


def test_a_picture_of_the_best_translations(drawn, tmp_path, caplog):
    """The best is sentence 4, with a dash too many, the second 2, which is too short; the others have a wrong word."""
    translations = list(WRONG)
    # What begins with a dash is no option.
    translations[3] = "- the red house 3 is here today"
    translations[1] = "the red house 1 is"
    make_run(tmp_path / "a", translations=translations)
    make_run(tmp_path / "b")
    line = "attention a '{source-%d}' --target '{translation-%d}' --beside b"
    table = Examples("Examples", "the best", "a")
    for number, sentence in ((1, 3), (2, 1)):
        options = drawn(line % (number, number), (table,))
        assert options.model == str(tmp_path / "a") and options.beside == [str(tmp_path / "b")]
        assert (options.sentence, options.target) == (f"quelle {sentence}", translations[sentence])
    assert drawn(line % (31, 31), (table,)) is None
    assert "picture.png was not drawn: a has 30 translations" in caplog.text
    assert drawn(line % (1, 1), (dataclasses.replace(table, entry="c"),)) is None
    assert "examples of c, which was not run" in caplog.text


def test_runs_of_all_calls_and_seeds(drawn, tmp_path):
    """The first of each system's seeds, or all; of a grid alone the first values, with all their seeds."""
    for name in ("a-seed=10", "a-seed=2", "a", "b", "c-dropout=0.1", "c-dropout=0.1-seed=2", "c-dropout=0.3", "ab"):
        make_run(tmp_path / name)
    make_run(tmp_path / "b-seed=2").scores.unlink()
    grid = {"dropout": [0.1, 0.3]}

    def names(line):
        return [path.name for path in drawn(line, grid=grid, seeds=[1, 2]).runs]

    assert names("curves a b c") == ["a", "b", "c-dropout=0.1"]
    both = ["a", "a-seed=2", "a-seed=10", "b", "c-dropout=0.1", "c-dropout=0.1-seed=2"]
    assert names("curves --over-seeds a b c") == both


def test_what_was_drawn_stays_while_its_runs_stay_the_same(drawn, tmp_path):
    """A run that is copied there may have been scored before the picture was drawn."""
    file, line = tmp_path / "picture.png", "curves --over-seeds a b"

    def names():
        options = drawn(line)
        if options is None:
            return None
        file.touch()
        return [path.name for path in options.runs]

    made = {name: make_run(tmp_path / name) for name in ("a", "b", "a-seed=2")}
    for run in made.values():
        os.utime(run.scores, (1, 1))
    away = made["a-seed=2"].path.rename(tmp_path / "away")
    assert [names(), names()] == [["a", "b"], None]
    away.rename(made["a-seed=2"].path)
    assert [names(), names()] == [["a", "a-seed=2", "b"], None]
    made["a-seed=2"].path.rename(away)
    assert [names(), names()] == [["a", "b"], None]
    os.utime(made["b"].scores, (2**32, 2**32))
    assert names() == ["a", "b"]
    os.utime(made["b"].scores, (1, 1))
    file.unlink()
    assert [names(), names()] == [["a", "b"], None]
    # Of an earlier version, or damaged: the times alone count.
    for text in (None, "{", "[]"):
        (tmp_path / ".pictures.json").unlink() if text is None else (tmp_path / ".pictures.json").write_text(text)
        assert names() is None


def test_what_was_drawn_in_another_way_is_drawn_again(drawn, tmp_path):
    for name in ("a", "b"):
        os.utime(make_run(tmp_path / name).scores, (1, 1))
    for line, again in (("curves a b", True), ("curves a b", False), ("curves a b --log-scale", True)):
        assert (drawn(line) is not None) is again, line
        (tmp_path / "picture.png").touch()


def test_differences_need_the_first_system_and_another(drawn, tmp_path):
    line = "curves --difference a b c"
    make_run(tmp_path / "a")
    assert drawn(line) is None
    make_run(tmp_path / "c")
    assert [path.name for path in drawn(line).runs] == ["a", "c"]
    (tmp_path / "a").rename(tmp_path / "away")
    make_run(tmp_path / "b")
    assert drawn(line) is None


def test_a_curve_over_positions_in_training_needs_two_of_them(drawn, tmp_path):
    line = "top-k a b c --trained"
    for name in ("a", "b"):
        make_run(tmp_path / name)
    assert drawn(line) is None and drawn("top-k a b c") is not None
    make_run(tmp_path / "c")
    assert [path.name for path in drawn(line).runs] == ["a", "b", "c"]


def test_a_picture_of_the_text_is_given_the_text(drawn, tmp_path, corpus):
    make_run(tmp_path / "a")
    assert drawn("lengths a b", corpus=corpus).known_corpus is corpus
    assert drawn("lengths a b").texts == [str(tmp_path / "a")]


def test_a_text_that_is_known_is_not_read_again(tmp_path, corpus, monkeypatch):
    """That of the run's own description, whatever else the run says of it; no other."""
    run, known = make_run(tmp_path / "a"), dataclasses.replace(corpus, description={"train": ["a", "b"]})
    monkeypatch.setattr("keras_attn_zoo.runs.described_corpora.own_corpus", lambda run, ask: "read")
    for own, expected in (({"train": ["a", "b"], "fingerprint": "1"}, known), ({"train": ["a", "c"]}, "read")):
        run.config.write_text(json.dumps({"system": {}, "corpus": own}))
        assert _corpus_of(run.path, known) is expected
    assert _corpus_of(run.path, None) == "read"


def test_a_picture_that_was_drawn_when_the_process_was_killed_is_drawn_again(tmp_path, monkeypatch):
    """Nobody knows of what: the record of it comes after the picture."""
    os.utime(make_run(tmp_path / "a").scores, (1, 1))
    recipe = Recipe("A paper", ENTRIES, ("a",), pictures={"one.png": "curves a"})
    seen = []

    def run(options):
        seen.append(options.output)
        options.output.touch()
        if len(seen) == 1:
            raise KeyboardInterrupt

    run_by(monkeypatch, run)
    with pytest.raises(KeyboardInterrupt):
        draw_pictures(recipe, expand(ENTRIES, {}), tmp_path)
    for _ in range(2):
        draw_pictures(recipe, expand(ENTRIES, {}), tmp_path)
    assert len(seen) == 2

"""What a paper's tables leave out of the runs in a folder."""

import json
import shutil

import pytest

from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.studies.comparison import Run
from keras_attn_zoo.studies.paper_cells import Runs
from keras_attn_zoo.studies.paper_files import write_tables
from keras_attn_zoo.studies.paper_tables import Line
from keras_attn_zoo.studies.result_files import over_seeds
from keras_attn_zoo.studies.table import Result, read_results
from tests.made_runs import REFERENCES, WRONG, make_run, translate_as
from tests.studies.test_paper_tables import recipe_of, written

BLEU_OF_TWO = ([Line("BLEU", measure="BLEU")], [Line("Base", entry="base"), Line("New", entry="new")])


@pytest.mark.parametrize("differs", ["text", "tokeniser", "search", "settings", "training"])
def test_seeds_that_cannot_be_averaged_are_left_out_by_name(tmp_path, caplog, differs):
    make_run(tmp_path / "base", 30.0)
    make_run(tmp_path / "base-seed=2", 32.0)
    other = make_run(tmp_path / "base-seed=3", 99.0, references=WRONG if differs == "text" else REFERENCES)
    if differs == "tokeniser":
        scores = other.read_scores()["test"]
        other.add_scores("test", {**scores, "text": {**scores["text"], "tokenize": "char"}})
    if differs == "search":
        other.add_scores("test", {**other.read_scores()["test"], "beams": 12})
    if differs == "settings":
        config = json.loads(other.config.read_text())
        config["system"]["training"]["learning_rate"] = 0.5
        other.config.write_text(json.dumps(config))
    if differs == "training":
        config = json.loads(other.config.read_text())
        other.config.write_text(json.dumps({**config, "corpus": {"fingerprint": "of another text"}}))
        folders = {one: tmp_path / one for one in ("base", "base-seed=2", "base-seed=3")}
        for folder in folders.values():
            config = json.loads((folder / "config.json").read_text())
            config["system"]["name"] = "base"
            (folder / "config.json").write_text(json.dumps(config))
        runs = {name: Run(name, "base", RunFolder(folder).system(), {}) for name, folder in folders.items()}
        groups = over_seeds(runs, read_results(folders.values()))
        assert {name: len(group) for name, group in groups.items()} == {"base": 2, "base-seed=3": 1}
    rows, _ = written(tmp_path, recipe_of(*BLEU_OF_TWO))
    assert rows["Base"] == ["31.0 ± 1.4"]
    reasons = {"settings": "has other settings", "training": "was trained on another text"}
    why = reasons.get(differs, "was scored on another text, or otherwise,")
    assert f"leave out base-seed=3: it {why} than base" in caplog.text


def test_a_copy_under_another_seed_is_no_other_seed(tmp_path, caplog):
    make_run(tmp_path / "base", 30.0)
    shutil.copytree(tmp_path / "base", tmp_path / "base-seed=2")
    rows, _ = written(tmp_path, recipe_of(*BLEU_OF_TWO))
    assert rows["Base"] == ["30.0"] and "base-seed=2: its settings have seed=1: rename the folder" in caplog.text


def test_a_seed_counts_once(tmp_path, caplog):
    """As when the seed was a setting of one call, and then among those of another."""
    first = make_run(tmp_path / "base", 30.0)
    make_run(tmp_path / "base-seed=2", 30.0)
    config = json.loads(first.config.read_text())
    first.config.write_text(json.dumps({**config, "system": {**config["system"], "seed": 2}}))
    make_run(tmp_path / "base-seed=3", 32.0)
    for seed in (2, 3):
        config["system"]["seed"] = seed
        (tmp_path / f"base-seed={seed}" / "config.json").write_text(json.dumps(config))
    rows, _ = written(tmp_path, recipe_of(*BLEU_OF_TWO))
    assert rows["Base"] == ["31.0 ± 1.4"] and "leave out" in caplog.text
    assert "base-seed=2: it has the seed of base" in caplog.text
    runs = [Run(one, "base", RunFolder(tmp_path / one).system(), {}) for one in ("base", "base-seed=2", "base-seed=3")]
    groups = over_seeds({run.name: run for run in runs}, read_results(tmp_path / run.name for run in runs))
    assert {name: [one.folder.name for one in group] for name, group in groups.items()} == {
        "base": ["base", "base-seed=3"],
        "base-seed=2": ["base-seed=2"],
    }


def test_translations_that_are_not_those_of_the_scores_have_no_marks(tmp_path, caplog):
    """As after a crash between both files, or when one was edited; each is named once."""
    columns, rows = [Line(name, measure=name) for name in ("BLEU", "TER")], [Line("New", entry="new")]
    base, new = make_run(tmp_path / "base"), make_run(tmp_path / "new", 90.0, 5.0)
    for run, lines in ((base, WRONG), (new, REFERENCES)):
        translate_as(run, lines)
    assert written(tmp_path, recipe_of(columns, rows))[0] == {"New": ["90.0**", "5.0**"]}
    baselines = {new.path: base.path}
    assert read_results([base.path, new.path], baselines=baselines)[1].against.keys() == {"bleu", "ter"}
    for run, other in ((new, base), (base, new)):
        before = run.hypotheses("test").read_text()
        run.hypotheses("test").write_text("the red house 7 is there today\n" * len(REFERENCES))
        caplog.clear()
        assert written(tmp_path, recipe_of(columns, rows))[0] == {"New": ["90.0", "5.0"]}
        warned = f"{run.hypotheses('test')} is not what was scored: evaluate 'test' again; these are compared without"
        assert caplog.text.count(warned) == 1 and str(other.hypotheses("test")) not in caplog.text
        assert not read_results([base.path, new.path], baselines=baselines)[1].against
        # Too few of them.
        run.hypotheses("test").write_text("the\n")
        caplog.clear()
        assert written(tmp_path, recipe_of(columns, rows))[0] == {"New": ["90.0", "5.0"]}
        assert "test.txt has 1 translations of 30 sentences" in caplog.text
        run.hypotheses("test").write_text(before)


@pytest.mark.parametrize("corpus", [{"test": 5}, {"name": 5}, {"name": ["x"]}, {"train": [1, 2], "reverse": False}])
def test_a_corpus_that_is_none_is_unknown(tmp_path, corpus):
    run = make_run(tmp_path / "base", 30.0)
    config = json.loads(run.config.read_text())
    run.config.write_text(json.dumps({**config, "corpus": corpus}))
    rows, notes = written(tmp_path, recipe_of(*BLEU_OF_TWO))
    assert rows["Base"] == ["30.0"] and "our systems were trained on unknown" in notes


def test_a_damaged_log_is_named_once(tmp_path, caplog):
    log = make_run(tmp_path / "base", 30.0).log
    log.write_text("{\n" + log.read_text())
    columns = [Line("BLEU", measure="BLEU"), Line("loss", measure="lowest training loss")]
    rows, _ = written(tmp_path, recipe_of(columns, [Line("Base", entry="base")]))
    assert rows["Base"] == ["30.0", ""]
    assert caplog.text.count("base has no lowest training loss: ") == 1 and "log.jsonl line 1" in caplog.text


def test_a_run_that_the_results_left_out_is_in_no_table(tmp_path):
    make_run(tmp_path / "base", 30.0)
    make_run(tmp_path / "new", 99.0)
    kept = Result(tmp_path / "base", "test", {})
    assert write_tables(Runs(recipe_of(*BLEU_OF_TWO), tmp_path, "bootstrap", [kept]))
    assert "99" not in (tmp_path / "tables.md").read_text("utf-8")


def test_damaged_scores_of_one_run_stop_no_table(tmp_path, caplog):
    make_run(tmp_path / "base", 30.0)
    make_run(tmp_path / "new", 31.0).scores.write_text("{")
    rows, _ = written(tmp_path, recipe_of(*BLEU_OF_TWO))
    assert rows == {"Base": ["30.0"], "New": [""]}
    assert "leave out" in caplog.text and "new/scores.json is damaged" in caplog.text

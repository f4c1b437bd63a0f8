"""What a paper's tables leave out of the runs in a folder."""

import json
import shutil

import pytest

from keras_attn_zoo.experiments.paper_cells import Runs
from keras_attn_zoo.experiments.paper_files import write_tables
from keras_attn_zoo.experiments.paper_tables import Line
from keras_attn_zoo.experiments.table import Result
from tests.experiments.test_paper_tables import recipe_of, written
from tests.made_runs import REFERENCES, WRONG, make_run

BLEU_OF_TWO = ([Line("BLEU", measure="BLEU")], [Line("Base", entry="base"), Line("New", entry="new")])


@pytest.mark.parametrize("differs", ["text", "tokeniser", "settings"])
def test_seeds_that_cannot_be_averaged_are_left_out_by_name(tmp_path, caplog, differs):
    make_run(tmp_path / "base", 30.0)
    make_run(tmp_path / "base-seed=2", 32.0)
    other = make_run(tmp_path / "base-seed=3", 99.0, references=WRONG if differs == "text" else REFERENCES)
    if differs == "tokeniser":
        scores = other.read_scores()["test"]
        other.add_scores("test", {**scores, "text": {**scores["text"], "tokenize": "char"}})
    if differs == "settings":
        config = json.loads(other.config.read_text())
        config["system"]["training"]["learning_rate"] = 0.5
        other.config.write_text(json.dumps(config))
    rows, _ = written(tmp_path, recipe_of(*BLEU_OF_TWO))
    assert rows["Base"] == ["31.0 ± 1.4"]
    why = "has other settings" if differs == "settings" else "was scored on another text, or otherwise,"
    assert f"leave out base-seed=3: it {why} than base" in caplog.text


def test_a_copy_under_another_seed_is_no_other_seed(tmp_path, caplog):
    make_run(tmp_path / "base", 30.0)
    shutil.copytree(tmp_path / "base", tmp_path / "base-seed=2")
    rows, _ = written(tmp_path, recipe_of(*BLEU_OF_TWO))
    assert rows["Base"] == ["30.0"] and "base-seed=2: its settings have seed=1: rename the folder" in caplog.text


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

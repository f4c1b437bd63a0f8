"""The files of a comparison's results."""

import csv
import dataclasses
import json
import shutil

import pytest

from keras_attn_zoo.bodies.schema import BODIES
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.system import SETTINGS
from keras_attn_zoo.studies.comparison import Entry, Recipe, expand
from keras_attn_zoo.studies.result_files import write_results
from keras_attn_zoo.studies.table import COLUMNS, read_results
from tests.made_runs import copy_run, table_rows
from tests.tiny_run import TINY

# A run without perplexity.
MISSING = "tiny-seed=1"
# Mean 12, and 2 is the root of (4 + 0 + 4) / 2.
BLEU = {"tiny": 10.0, "tiny-seed=1": 12.0, "tiny-seed=2": 14.0, "other": 20.0}


@pytest.fixture
def written(trained, tmp_path):
    """The folder of three runs with one seed each and of another one, and what `write_results` returns."""
    entries = {
        "tiny": Entry(TINY, {"BLEU": "17.75"}, "other"),
        "other": Entry(dataclasses.replace(TINY, name="other", seed=1)),
    }
    runs = [*expand({"tiny": entries["tiny"]}, {}, {}, [3, 1, 2]), *expand({"other": entries["other"]}, {})]
    assert [run.name for run in runs] == list(BLEU)
    for run, (name, bleu) in zip(runs, BLEU.items(), strict=True):
        folder = copy_run(trained, tmp_path / name, run.system)
        scores = folder.read_scores()["test"]
        scores["text"]["metrics"]["bleu"]["score"] = bleu
        if name == MISSING:
            del scores["perplexity"]
        folder.add_scores("test", scores)
    recipe = Recipe("Two % systems", entries, ("tiny", "other"), note="A note.")
    baselines = {tmp_path / run.name: tmp_path / "other" for run in runs if run.entry == "tiny"}
    results = read_results([tmp_path / run.name for run in runs], baselines=baselines)
    return tmp_path, write_results(tmp_path, recipe, runs, results)


def test_mean_and_spread_over_seeds(written):
    folder, text = written
    assert (folder / "results.md").read_text("utf-8") == text
    title, _, _, spread, *notes = text.rstrip("\n").split("\n\n")
    assert title == "# Two % systems"
    of_log = (
        "- training, tokens/s, translation, compilation: while the runs were trained and scored, beside whatever else "
    )
    # The test text was held out.
    assert notes == [
        f"- mean ± standard deviation over seeds\n{of_log}ran on the machine; to compare times, use `attn-zoo time`",
        "Trained on a, b. Scored on a, b, test.",
        "A note.",
    ]
    heads, *lines = table_rows(spread)
    found = {cells[0]: dict(zip(heads, cells, strict=True)) for cells in lines}
    assert list(found) == ["tiny", "other"]
    assert (found["tiny"]["seeds"], found["tiny"]["BLEU"]) == ("3", "12.0 ± 2.0")
    assert (found["other"]["seeds"], found["other"]["BLEU"]) == ("1", "20.0")
    # What is the same in all runs, and what one of them lacks.
    assert "±" not in found["tiny"]["chrF"] and found["tiny"]["perplexity"] == "–"


def test_csv_and_json_have_the_numbers(written):
    folder, _ = written
    with (folder / "results.csv").open(encoding="utf-8", newline="") as file:
        lines = {line["run"]: line for line in csv.DictReader(file)}
    records = json.loads((folder / "results.json").read_text("utf-8"))
    assert (records["title"], records["significance"]) == ("Two % systems", "bootstrap")
    assert [record["run"] for record in records["runs"]] == list(lines) == list(BLEU)
    for record in records["runs"]:
        line, scores = lines[record["run"]], RunFolder(folder / record["run"]).read_scores()["test"]
        assert record["scores"] == scores
        assert float(line["BLEU"]) == record["numbers"]["BLEU"] == BLEU[record["run"]]
        assert float(line["AER"]) == pytest.approx(100 * scores["alignment"]["aer"])
        assert int(line["seed"]) == record["settings"]["seed"]
    assert lines["tiny"]["system"] == lines["tiny-seed=2"]["system"] == "tiny"
    assert (lines["tiny"]["baseline"], lines["tiny"]["BLEU (paper)"]) == ("other", "17.75")
    # The translations are the same.
    assert (float(lines["tiny"]["BLEU (p)"]), lines["other"]["BLEU (p)"]) == (1.0, "")
    assert lines[MISSING]["perplexity"] == "" and lines["other"]["perplexity"]


def test_latex_has_both_tables(written):
    folder, _ = written
    text = (folder / "results.tex").read_text("utf-8")
    assert text.count(r"\begin{table}") == 2 and r"12.0 $\pm$ 2.0" in text
    assert r"\caption{Two \% systems: mean over seeds." in text


def test_no_setting_has_the_name_of_another_column_of_the_csv():
    settings = {name for part in SETTINGS.values() for name in part}
    settings |= {name for body in BODIES.values() for name in body.arguments.names()}
    assert not settings & {*COLUMNS, "run", "system", "baseline"}


def test_settings_from_the_command_line_are_named_and_those_of_a_grid_are_not(trained, tmp_path):
    """A name with a dot is an argument of what stands before it."""
    entries = {"tiny": Entry(TINY.override(beams=5, cross_attention="luong_dot", dropout=0.3))}
    grid = {"cross_attention.normalizer": ["softmax"], "dropout": [0.2]}
    runs = expand(entries, {"beams": 2}, grid)
    shutil.copytree(trained, tmp_path / runs[0].name)
    results = read_results([tmp_path / runs[0].name])
    text = write_results(tmp_path, Recipe("One", entries, ("tiny",), note="A note."), runs, results)
    assert "\n\nSettings changed: beams=2 (5).\n\nTrained on" in text

"""Times in tables: of one pass alone, marked where they are shown, and empty without a pass."""

import json
import re

import pytest

from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Entry, Recipe, Run
from keras_attn_zoo.studies.measures import Scored, number
from keras_attn_zoo.studies.paper_cells import Runs
from keras_attn_zoo.studies.paper_files import write_tables
from keras_attn_zoo.studies.paper_findings import compare
from keras_attn_zoo.studies.paper_tables import WORSE, Contrast, Finding, Line, PaperTable
from keras_attn_zoo.studies.result_files import write_results
from keras_attn_zoo.studies.table import read_results
from keras_attn_zoo.studies.timing_table import timing_table
from tests.made_runs import make_run, make_timing, table_rows

RELATIVE = "training time of a step, relative"
TIMES = ("training time", "translation time", RELATIVE)


def make_two(folder, **of_new):
    """A step of `base` takes 2 seconds, one of `new` 5."""
    return make_timing(make_run(folder / "base")), make_timing(make_run(folder / "new"), **{"seconds": 5.0, **of_new})


def recipe():
    """A table of times, and the claim that `new` is slower in each."""
    entries = {name: Entry(System(name, {}), baseline=None if name == "base" else "base") for name in ("base", "new")}
    columns = [Line(name, measure=name) for name in TIMES]
    rows = [Line("Base", entry="base"), Line("New", entry="new")]
    slower = Finding("New is slower", "§5", (WORSE,), [Contrast("new", "base", name) for name in TIMES])
    table = PaperTable("Table 1", "Times", columns, rows)
    return Recipe("A paper", entries, ("base",), tables=(table,), findings=(slower,))


def written(folder):
    """The cells of `new`, and what became of the claims."""
    runs = Runs(recipe(), folder)
    write_tables(runs)
    rows = {title: cells for title, *cells in table_rows((folder / "tables.md").read_text("utf-8"))}
    return rows["New"], [(one.here, one.verdict, one.lacks) for one in compare(runs)]


@pytest.mark.parametrize(
    "change",
    [{"started": "2026-01-01T00:00:01+00:00"}, {"systems": ["new"]}, {"machine": "n"}, {"backend": "jax"}],
)
def test_runs_of_two_passes_are_not_compared(tmp_path, change):
    base, new = make_two(tmp_path)
    scores = new.read_scores()["test"]
    assert number(RELATIVE, Scored(new, "test", scores, base)) == 2.5
    assert number(RELATIVE, Scored(new, "test", scores, None)) is None
    make_timing(new, 5.0, **change)
    assert number(RELATIVE, Scored(new, "test", scores, base)) is None
    # Each by itself is known.
    assert number("training time", Scored(new, "test", scores, base)) == 200.0


def test_steps_in_two_precisions_have_no_ratio(tmp_path):
    base, new = make_two(tmp_path, precision="bfloat16")
    assert number(RELATIVE, Scored(new, "test", new.read_scores()["test"], base)) is None


def test_times_are_those_of_the_pass_alone(tmp_path):
    """40 steps of 5 seconds; 1.4 seconds for 6 of 30 sentences; whatever the log says."""
    _, new = make_two(tmp_path)
    one = Scored(new, "test", new.read_scores()["test"])
    assert [number(name, one) for name in TIMES[:2]] == pytest.approx([200.0, 7.0])
    assert number("memory of a step", one) is None
    assert number("memory of a step", Scored(make_timing(new, step_bytes=15_400_000), "test", one.scores)) == 15.4
    assert number("translation time", Scored(new, "valid", one.scores)) is None
    new.timing.unlink()
    assert [number(name, one) for name in TIMES] == [None] * 3


def test_the_table_of_times(tmp_path):
    base, _ = make_two(tmp_path, translation_seconds=2.8, step_bytes=15_000_000)
    late = make_timing(make_run(tmp_path / "late"), 3.0, systems=["late"], beside_other_work=True)
    make_run(tmp_path / "untimed")
    table = timing_table([tmp_path / name for name in ("base", "new", "late", "untimed")])
    assert table_rows(table.markdown())[1:] == [
        ["base", "2000.0", "1.00x", "50", "–", "7.00", "1.00x", "float32"],
        ["new", "5000.0", "2.50x", "20", "15.0 MB", "14.00", "2.00x", "float32"],
        ["late (beside other work)", "3000.0", "1.00x", "33", "–", "7.00", "1.00x", "float32"],
    ]
    assert table.notes[0].startswith("base, new: timed in turn, 5 rounds") and "6 of its 30 sentences" in table.notes[0]
    assert table.notes[1].startswith("late: timed in turn") and table.notes[1].endswith("relative to late")
    assert timing_table([tmp_path / "untimed"]) is None
    late.timing.write_text("{")
    assert len(timing_table([base.path, late.path]).rows) == 1


def test_a_time_is_compared_with_one_of_the_same_pass(tmp_path):
    base, new = make_two(tmp_path, translation_seconds=2.8)
    cells, found = written(tmp_path)
    assert cells == ["200", "14.0", "2.5x"]
    assert found == [
        ("+120 (200 – 80)", "agrees", ""),
        ("+7.0 (14.0 – 7.0)", "agrees", ""),
        ("+1.5x (2.5x – 1.0x)", "agrees", ""),
    ]
    make_timing(new, 5.0, systems=["new"])
    cells, found = written(tmp_path)
    assert cells == ["200", "7.0", ""]
    assert found == [("", "not timed in one pass", "")] * 2 + [("", "not measured", "")]
    base.timing.unlink()
    new.timing.unlink()
    cells, found = written(tmp_path)
    assert cells == ["", "", ""] and found == [("", "not measured", "")] * 3


@pytest.mark.parametrize("name", ["base", "new"])
def test_what_was_timed_beside_other_work_is_marked_and_says_nothing(tmp_path, name):
    runs = dict(zip(("base", "new"), make_two(tmp_path), strict=True))
    make_timing(runs[name], 2.0 if name == "base" else 5.0, beside_other_work=True)
    cells, found = written(tmp_path)
    assert cells == [f"{cell} (beside other work)" for cell in ("200", "7.0", "2.5x")]
    assert [one[1:] for one in found] == [("too little to say", "beside other work")] * 3
    cells = json.loads((tmp_path / "tables.json").read_text("utf-8"))["tables"][0]["cells"]
    assert {one["remark"] for one in cells if one["system"] == "new"} == {"beside other work"}
    text = results(tmp_path)
    assert f"| {name} (beside other work) |" in re.sub(" +", " ", text)


def results(folder):
    """The results of the two runs."""
    own = recipe()
    runs = [Run(name, name, one.system, {}, one.baseline) for name, one in own.entries.items()]
    return write_results(folder, own, runs, read_results([folder / name for name in own.entries]))


def test_results_say_of_which_times_they_are(tmp_path):
    """Those of the log stay, with a note; those of a pass have a table of their own."""
    make_run(tmp_path / "base")
    new = make_run(tmp_path / "new")
    note = "while the runs were trained and scored, beside whatever else ran on the machine"
    assert note in results(tmp_path) and "## Times" not in results(tmp_path)
    make_timing(new, 5.0)
    assert "## Times" in results(tmp_path) and "5000.0" in (tmp_path / "results.tex").read_text("utf-8")


def test_a_damaged_file_leaves_its_cell_empty_and_says_so(tmp_path, caplog):
    _, new = make_two(tmp_path)
    new.timing.write_text("{")
    assert written(tmp_path)[0] == ["", "", ""] and "new has no training time" in caplog.text
    assert "the table of times leaves out" in (results(tmp_path), caplog.text)[1]

"""What tables and results leave out of the runs in a folder: what says nothing of those beside it, or of now."""

import json
import shutil

import pytest

from keras_attn_zoo.runs.curves import curves_over_top_k, titles
from keras_attn_zoo.runs.examples import best_translations
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.score_data import are_scores
from keras_attn_zoo.studies.comparison import Recipe, Run
from keras_attn_zoo.studies.earlier_results import comparable
from keras_attn_zoo.studies.measures import Scored, bleu_key, number
from keras_attn_zoo.studies.paper_cells import Runs
from keras_attn_zoo.studies.paper_files import write_tables
from keras_attn_zoo.studies.paper_tables import Line
from keras_attn_zoo.studies.result_files import over_seeds, write_results
from keras_attn_zoo.studies.table import Result, read_results
from keras_attn_zoo.support.errors import UserError
from tests.made_runs import REFERENCES, WRONG, make_run, make_seeds, translate_as
from tests.studies.test_paper_tables import ENTRIES, recipe_of, written

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
    if differs in ("search", "training"):
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
    make_seeds(tmp_path / "base")
    make_seeds(tmp_path / "new", 90.0, ter=5.0)
    for folder in tmp_path.iterdir():
        translate_as(RunFolder(folder), REFERENCES if folder.name.startswith("new") else WRONG)
    base, new = RunFolder(tmp_path / "base"), RunFolder(tmp_path / "new")
    assert written(tmp_path, recipe_of(columns, rows))[0] == {"New": ["90.0 ± 0.1**", "5.0 ± 0.0**"]}
    baselines = {new.path: base.path}
    assert read_results([base.path, new.path], baselines=baselines)[1].against.keys() == {"bleu", "ter"}
    for run, other in ((new, base), (base, new)):
        before = run.hypotheses("test").read_text()
        run.hypotheses("test").write_text("the red house 7 is there today\n" * len(REFERENCES))
        caplog.clear()
        assert "**" not in "".join(written(tmp_path, recipe_of(columns, rows))[0]["New"])
        warned = f"{run.hypotheses('test')} is not what was scored: evaluate 'test' again"
        assert caplog.text.count(warned) == 1 and str(other.hypotheses("test")) not in caplog.text
        assert not read_results([base.path, new.path], baselines=baselines)[1].against
        # Too few of them.
        run.hypotheses("test").write_text("the\n")
        caplog.clear()
        assert "**" not in "".join(written(tmp_path, recipe_of(columns, rows))[0]["New"])
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
    assert write_tables(Runs(recipe_of(*BLEU_OF_TWO), tmp_path, [kept]))
    assert "99" not in (tmp_path / "tables.md").read_text("utf-8")


def test_damaged_scores_of_one_run_stop_no_table(tmp_path, caplog):
    make_run(tmp_path / "base", 30.0)
    make_run(tmp_path / "new", 31.0).scores.write_text("{")
    rows, _ = written(tmp_path, recipe_of(*BLEU_OF_TWO))
    assert rows == {"Base": ["30.0"], "New": [""]}
    assert "leave out" in caplog.text and "new/scores.json is damaged" in caplog.text


def test_a_score_from_before_the_run_was_trained_further_is_left_out(tmp_path, caplog):
    run = make_run(tmp_path / "base", 30.0, names=("test", "news"))
    table = [Line("BLEU", split="news", measure="BLEU")], [Line("Base", entry="base")]
    assert written(tmp_path, recipe_of(*table))[0] == {"Base": ["30.0"]}
    assert comparable([run.path], [run.path], "news") == [run.path]
    scores = run.read_scores()["test"]
    run.add_scores("test", {**scores, "training": {**scores["training"], "steps": 41}})
    assert written(tmp_path, recipe_of(*table))[0] == {"Base": [""]}
    assert comparable([run.path], [run.path], "news") == [] and "trained further since" in caplog.text
    assert comparable([run.path], [run.path], "test") == [run.path]


def test_results_name_the_texts_if_there_are_several(tmp_path):
    runs = []
    for name, text in (("base", "one"), ("new", "two")):
        run = make_run(tmp_path / name)
        config = json.loads(run.config.read_text())
        description = {"train": [f"{text}.de", f"{text}.en"], "reverse": False, "split_seed": 0}
        run.config.write_text(json.dumps({**config, "corpus": description}))
        runs.append(Run(name, name, run.system(), {}))
    recipe = Recipe("A paper", ENTRIES, ("base",))
    said = "Trained on different texts: one de→en (base); two de→en (new). "
    for some in (runs, runs[:1]):
        results = read_results([tmp_path / one.name for one in some])
        assert (said in write_results(tmp_path, recipe, some, results)) == (len(some) == 2)


def test_examples_of_another_text_of_as_many_sentences_are_refused(tmp_path):
    run = make_run(tmp_path / "base")
    assert len(best_translations(run)) == len(REFERENCES)
    run.test.write_text("".join(f"quelle\t{line}\n" for line in WRONG), encoding="utf-8")
    with pytest.raises(UserError, match="was scored on another text than its own"):
        best_translations(run)


def test_bleu_by_steps_is_of_the_tokeniser_of_the_scores(tmp_path):
    run = make_run(tmp_path / "base")
    run.log.write_text(json.dumps({"round": 1, "step": 3, bleu_key(50): 41.0, bleu_key(50, "char", True): 61.0}))
    scores = run.read_scores()["test"]
    found = []
    for how in ({}, {"tokenize": "char", "lowercase": True}, {"tokenize": "char"}):
        one = Scored(run, "test", {**scores, "text": {**scores["text"], **how}})
        found.append(number("BLEU after 50% of the steps", one))
    assert found == [41.0, 61.0, None]


def test_the_name_of_another_text_is_no_number_of_positions(tmp_path):
    run = make_run(tmp_path / "base", names=("test-k6", "test-kde", "test-kde-k3"))
    for name, count in (("test-k6", 6), ("test-kde", 4), ("test-kde-k3", 3)):
        run.add_scores(name, {**run.read_scores()[name], "search_top_k": count})
    curves, ticks = curves_over_top_k([run.path], "test", lambda run, name: run.read_scores()[name]["search_top_k"])
    assert list(ticks.values()) == [6] and len(curves) == 1


def test_a_folder_that_is_given_twice_is_named():
    assert titles(["runs/a", "runs/b"]) == ["a", "b"]
    assert titles([]) == [] and titles(["/one/a", "/one/a/a", "/a"]) == ["one/a", "a/a", "/a"]
    with pytest.raises(UserError, match="runs/a was given twice"):
        titles(["runs/a", "runs/b", "runs/a"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("search_top_k", 10**400), ("perplexity", 1e308), ("free_running", {"loss": "4.4"})),
        *(("text", {"metrics": {}}), ("sentences", -7), ("translation_seconds", -1.5), ("alignment", {"aer": -0.1})),
    ],
)
def test_scores_that_nothing_can_be_computed_of_are_damaged(tmp_path, key, value):
    run = make_run(tmp_path / "base")
    every = run.read_scores()
    assert are_scores(every)
    assert not are_scores({"test": {**every["test"], key: value}})

"""The best translations of a run."""

from keras_attn_zoo.runs.examples import best_translations
from keras_attn_zoo.studies.comparison import Recipe
from keras_attn_zoo.studies.paper_cells import Runs
from keras_attn_zoo.studies.paper_files import write_tables
from keras_attn_zoo.studies.paper_tables import Examples
from tests.made_runs import WRONG, make_run
from tests.studies.test_paper_tables import ENTRIES


def test_the_best_translations(tmp_path):
    translations = ["the red house 0 is here today", *WRONG[1:3], "the red house 3 is", *WRONG[4:]]
    make_run(tmp_path / "base", translations=translations)
    recipe = Recipe("A paper", ENTRIES, ("base",), tables=(Examples("Examples", "the best", "base", 1),))
    assert write_tables(Runs(recipe, tmp_path, "bootstrap"))
    table = (tmp_path / "tables.md").read_text("utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    assert cells[2:] == [
        ["quelle 0", "source", ""],
        ["the red house 0 is here today", "reference", ""],
        ["the red house 0 is here today", "base", "100.0"],
    ]
    assert "of the 30 sentences of the test text" in table


def test_the_best_translations_are_found_as_the_run_was_scored(tmp_path):
    """Of a sentence without a reference, nothing is right; characters have a BLEU where words have none."""
    references = ["", "他昨天在花园里见过她", "她走了"]
    run = make_run(tmp_path / "base", translations=["red", "他昨天在花园里见过他", "他来过"], references=references)
    assert [one.score for one in best_translations(run)] == [0.0, 0.0, 0.0]
    scores = run.read_scores()["test"]
    run.add_scores("test", {**scores, "text": {**scores["text"], "tokenize": "zh"}})
    best, *others = best_translations(run)
    assert best.number == 2 and best.score > 80
    assert [one.number for one in others if one.score == 0][-1] == 1

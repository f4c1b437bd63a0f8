"""Marks of scores that are ratios of sums over sentences, in tables of run folders made by hand."""

import json

from keras_attn_zoo.evaluation.text_scores import TESTS
from keras_attn_zoo.studies.paper_tables import Line
from tests.made_runs import REFERENCES, make_run
from tests.studies.test_paper_tables import recipe_of, written


def test_scores_that_are_ratios_of_sums_have_marks_too(tmp_path, caplog):
    """A loss of 2 a token beside 1.9, on every sentence; of other texts or sums, nothing is said."""
    for name, loss in (("base", 2.0), ("new", 1.9)):
        run = make_run(tmp_path / name, loss=loss, perplexity=7.0)
        path = run.sentence_sums("test")
        path.parent.mkdir()
        path.write_text(json.dumps({"loss": [[loss * n for n in range(1, 31)], [*range(1, 31)]]}))
    columns = [Line(name, measure=name) for name in ("loss", "perplexity", "accuracy")]
    recipe = recipe_of(columns, [Line("New", entry="new")])
    for test in TESTS:
        found, notes = written(tmp_path, recipe, test)
        assert found["New"] == ["1.90**", "7.00**", ""] and any("differs from base," in note for note in notes)
    [above, below], warned = json.loads(path.read_text())["loss"], "compared without a test"
    for bad in (
        [[1.0], "x"],
        [[1.9], [1.0]],
        [],
        [above, below, below],
        [[None, *above[1:]], below],
        [above, [0] * 30],
        # Of an earlier state of the model.
        [[0.9 * one for one in above], below],
    ):
        caplog.clear()
        path.write_text(json.dumps({"loss": bad}))
        assert written(tmp_path, recipe)[0]["New"] == ["1.90", "7.00", ""]
        assert caplog.text.count(warned) == 1, bad
    caplog.clear()
    path.write_text("[]")
    assert written(tmp_path, recipe)[0]["New"] == ["1.90", "7.00", ""] and caplog.text.count(warned) == 1
    caplog.clear()
    path.write_text(json.dumps({"loss": [[[one] for one in above], [[one] for one in below]]}))
    assert written(tmp_path, recipe)[0]["New"] == ["1.90", "7.00", ""] and caplog.text.count(warned) == 1
    caplog.clear()
    path.unlink()
    assert written(tmp_path, recipe)[0]["New"] == ["1.90", "7.00", ""] and warned not in caplog.text
    # The same sums, of as many sentences, but others.
    path.write_text(json.dumps({"loss": [above, below]}))
    run.references("test").write_text("".join(f"{line} too\n" for line in REFERENCES), encoding="utf-8")
    assert written(tmp_path, recipe)[0]["New"] == ["1.90", "7.00", ""]

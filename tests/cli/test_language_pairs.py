"""`--pair all`: every language pair of a paper in one call; nothing is trained here."""

import dataclasses
import types

import pytest

from keras_attn_zoo.cli import language_pairs, run_comparison
from keras_attn_zoo.cli.part_failures import format_failure
from keras_attn_zoo.cli.recipe import run_recipe
from keras_attn_zoo.corpora import corpus as corpora
from keras_attn_zoo.runs import training
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.studies import plan
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.paper_tables import Line, Pair, PaperTable
from keras_attn_zoo.support.errors import UserError
from tests.made_runs import copy_run
from tests.tiny_run import TINY, make_corpus, make_text

TABLE = PaperTable(
    "Table 1",
    "Scores",
    [Line("BLEU", one, pair=one, measure="BLEU") for one in ("ro-en", "tr-en")]
    + [Line("AER", "gold", split="gold", measure="AER")],
    [Line("RNN", entry="rnn", figures="35.7 19.6 71.4"), Line("second", entry="second", figures="34 18 –")],
)
FURTHER = PaperTable("Table 2", "More", [Line("BLEU", measure="BLEU")], [Line("third", entry="third", pair="tr-en")])
RECIPE = Recipe(
    "Three bodies",
    {name: Entry(dataclasses.replace(TINY, name=name)) for name in ("rnn", "second", "third", "drawn", "neither")},
    ("rnn",),
    tables=(TABLE, FURTHER),
    pictures={"curves.png": "curves rnn drawn"},
    pairs={"ro-en": Pair(corpus="wmt16-ro-en"), "tr-en": Pair({"dropout": 0.3}, corpus="wmt18-tr-en")},
)
# The model of the copied run takes longer sentences than it was trained on.
LINE = ["--out", "out", "--pair", "all", "--max-tokens", "40"]


@pytest.fixture
def recipe(trained, any_preset, no_pictures_of_runs, tmp_path, monkeypatch, capsys):
    """Run the recipe on a built-in text; a system is trained by a copy of a run, unless it is made to fail."""
    seen = []
    failing = []

    def train(system, corpus, folder, *args, **kwargs):
        path = folder.relative_to("out").as_posix()
        seen.append((path, system.sizes["dropout"]))
        if path in failing:
            raise UserError(f"{path} cannot be trained.")
        if not folder.exists():
            copy_run(trained, folder, system).scores.unlink()
        return RunFolder(folder)

    def run(*arguments, line=LINE):
        status = run_recipe(RECIPE, "Three bodies.", [*line, *map(str, arguments)])
        return status, *capsys.readouterr()

    monkeypatch.setattr(training, "train_system", train)
    # The package's own text is large, and of other words than the run.
    monkeypatch.setattr(corpora, "embedded_corpus", lambda **sizes: make_corpus())
    monkeypatch.setattr(run_comparison, "check_with_text", lambda *args: None)
    monkeypatch.chdir(tmp_path)
    run.seen, run.failing = seen, failing
    return run


def rows(tmp_path, name):
    text = (tmp_path / "out" / "tables.md").read_text("utf-8").splitlines()
    (line,) = [line for line in text if line.startswith(f"| {name} ")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_plans_of_pairs_have_headings_and_a_sum(recipe, monkeypatch):
    seconds = iter([60.0, 23.0])
    monkeypatch.setattr(
        plan, "plan_comparison", lambda runs, *_: plan.Plan(" ".join(run.name for run in runs), next(seconds))
    )
    status, output, error = recipe("--embedded", "--plan")
    assert status == 0, error
    assert output == (
        "## ro-en\n\nrnn second drawn\n\n## tr-en\n\nrnn second third\n\n"
        "Time left for 2 language pairs: 1:23, at most.\n"
    )
    assert not recipe.seen


def test_the_sum_of_plans_is_of_the_pairs_that_have_one(recipe, monkeypatch):
    def plan_or_fail(runs, *_):
        if "third" in {run.name for run in runs}:
            raise UserError("no text.")
        return plan.Plan("rnn", 60.0)

    monkeypatch.setattr(plan, "plan_comparison", plan_or_fail)
    status, output, error = recipe("--embedded", "--plan")
    assert status == 2 and "1 of 2 language pairs failed: tr-en (no text)" in error
    assert output.endswith("\nTime left for 1 language pair: 1:00, at most.\n")


@pytest.mark.long
def test_each_pair_has_the_systems_of_its_tables_and_its_settings(recipe, tmp_path):
    status, _, error = recipe("--embedded")
    assert status == 0, error
    of_first = [(name, 0.2) for name in ("rnn", "second", "drawn")]
    assert recipe.seen == of_first + [(f"tr-en/{name}", 0.3) for name in ("rnn", "second", "third")]
    assert "language pair 1 of 2: ro-en" in error and "language pair 2 of 2: tr-en" in error
    # The last call has filled the table of both.
    for name, paper in (("RNN", ("35.7", "19.6")), ("second", ("34", "18"))):
        for cell, figure in zip(rows(tmp_path, name)[:2], paper, strict=True):
            assert cell.endswith(f" [{figure}]"), cell
    assert rows(tmp_path, "third") != [""]


def test_only_systems_that_were_named(recipe):
    assert recipe("--embedded", "--systems", "second")[0] == 0
    assert [path for path, _ in recipe.seen] == ["second", "tr-en/second"]


@pytest.mark.long
def test_a_pair_that_fails_stops_no_other(recipe, tmp_path):
    recipe.failing += ["rnn", "second", "drawn"]
    status, _, error = recipe("--embedded")
    last = error.splitlines()[-1]
    assert status == 2 and "1 of 2 language pairs failed: ro-en (3 of 3 runs failed: rnn (rnn cannot be" in last
    assert [path for path, _ in recipe.seen][3:] == ["tr-en/rnn", "tr-en/second", "tr-en/third"]
    assert rows(tmp_path, "RNN")[0] == "[35.7]" and rows(tmp_path, "RNN")[1].endswith(" [19.6]")


def test_what_is_wrong_with_the_last_pair_is_said_before_the_first_is_trained(recipe, trained, tmp_path):
    made = copy_run(trained, tmp_path / "out" / "tr-en" / "rnn", RECIPE.for_pair("tr-en").entries["second"].system)
    assert made.holds_run
    status, _, error = recipe("--embedded")
    assert status == 2 and recipe.seen == []
    assert "tr-en: rnn: " in error and "different settings (system.name: 'second', now 'rnn')" in error


def test_a_text_of_ones_own_is_not_that_of_every_pair(recipe, tmp_path):
    make_text(tmp_path / "text")
    status, _, error = recipe("--train", "text/train.de", "text/train.en")
    assert status == 2 and "--pair all takes the paper's text of each pair: leave out --train" in error
    status, _, error = recipe()
    assert status == 2 and "--pair all needs --scale paper" in error
    assert recipe.seen == []


def test_the_papers_texts_and_a_pair_without_one(recipe, monkeypatch):
    taken = []
    monkeypatch.setattr(language_pairs, "run_comparison", lambda recipe, options: taken.append(options) or 0.0)
    assert recipe("--scale", "paper")[0] == 0
    assert [(one.pair, one.corpus, one.systems) for one in taken] == [
        ("ro-en", None, ["rnn", "second", "drawn"]),
        ("tr-en", None, ["rnn", "second", "third"]),
    ]
    taken.clear()
    without = {**RECIPE.pairs, "tr-en": Pair()}
    monkeypatch.setitem(globals(), "RECIPE", dataclasses.replace(RECIPE, pairs=without))
    status, _, error = recipe("--scale", "paper")
    assert status == 0 and [one.pair for one in taken] == ["ro-en"]
    assert "the catalogue has no text for it: tr-en" in error


def test_a_bug_or_a_full_disk_stops_no_other_pair(recipe, monkeypatch):
    done = []

    def run(recipe, options):
        done.append(options.pair)
        raise {"ro-en": OSError(28, "No space left on device"), "tr-en": RuntimeError("a bug")}[options.pair]

    monkeypatch.setattr(language_pairs, "run_comparison", run)
    status, _, error = recipe("--embedded")
    last = error.splitlines()[-1]
    assert status == 2 and done == ["ro-en", "tr-en"] and "Traceback" in error
    assert "2 of 2 language pairs failed: ro-en (" in last and "tr-en (RuntimeError: a bug)" in last


def test_with_several_processes_a_failure_ends_all(recipe, monkeypatch):
    """The others would wait for this one."""
    monkeypatch.setattr("keras_attn_zoo.devices.current", lambda: types.SimpleNamespace(processes=2))
    with pytest.raises(UserError, match="cannot be trained"):
        format_failure("a", UserError("cannot be trained."))


def test_one_reason_is_given_once_and_nothing_is_said_twice(recipe, monkeypatch):
    def run(recipe, options):
        raise UserError("no network.")

    monkeypatch.setattr(language_pairs, "run_comparison", run)
    status, _, error = recipe("--scale", "paper")
    assert status == 2 and "2 of 2 language pairs failed: ro-en, tr-en (no network)." in error.splitlines()[-1]
    assert "no text was given" not in error
    status, _, error = recipe("--embedded", "--set", "dropout=7")
    assert status == 2 and len(error.splitlines()) == 1 and "error: ro-en: the setting dropout must be" in error


def test_gold_links_go_to_the_pairs_that_the_tables_have_them_of(recipe, monkeypatch):
    taken = []
    monkeypatch.setattr(language_pairs, "run_comparison", lambda recipe, options: taken.append(options) or 0.0)
    assert recipe("--scale", "paper", "--bitext", "b", "--gold", "g", "--index-base", 1)[0] == 0
    assert [(one.bitext, one.gold, one.index_base) for one in taken] == [("b", "g", 1), (None, None, None)]
    status, _, error = recipe("--scale", "paper", "--bitext", "b", "--gold", "g", "--systems", "third")
    assert status == 2 and "ro-en: the paper's tables have no alignments of these systems" in error


@pytest.mark.long
def test_tables_of_the_pairs_that_there_are(recipe, tmp_path):
    """And the backend is that of the runs of any pair."""
    status, _, error = recipe("--table-only")
    assert status == 2 and "out has no runs of any language pair" in error
    assert recipe("--embedded", line=["--out", "out", "--pair", "tr-en", "--max-tokens", "40"])[0] == 0
    (tmp_path / "out" / "tables.md").unlink()
    status, _, error = recipe("--table-only")
    assert status == 0, error
    assert rows(tmp_path, "RNN")[1].endswith(" [19.6]")
    # One that is not trained by default.
    (tmp_path / "out" / "tr-en" / "third").mkdir()
    asked = []
    options = ["--out", "out", "--pair", "all", "--embedded"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_comparison, "backend_of_run", lambda found: asked.extend(found))
        run_recipe(RECIPE, "Three bodies.", options)
    assert {path.as_posix() for path in asked} >= {"out/tr-en/rnn", "out/tr-en/third"}

"""Summarization and dialogue: from text to scores, with lengths, metrics and figures of the task."""

import dataclasses
import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest

from keras_attn_zoo.corpora.corpus import Corpus, embedded_corpus
from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.evaluation.text_scores import ALL_METRICS, NORMALIZED_TER, score_text
from keras_attn_zoo.runs import finished_run
from keras_attn_zoo.runs.described_corpora import corpus_from_description, own_test_text
from keras_attn_zoo.runs.finished_run import draw_run
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.runs.preparation import check_system
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.scoring import score_again, score_run
from keras_attn_zoo.runs.tasks import METRICS, TASKS, settings_of_task
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.runs.word_alignment import align_words
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.measures import measure
from keras_attn_zoo.studies.scales import SCALES, scaled
from keras_attn_zoo.studies.table import COLUMNS, read_results, results_table
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.extras import TASKS as PACKAGES
from tests.made_runs import translate_as
from tests.tiny_run import TINY

OTHERS = ("summarization", "dialogue")
SIZES = {"train": 40, "valid": 4, "test": 10, "max_words": 8, "words_per_kind": 3}
# Shorter than every document and most dialogues.
CUT = {"max_tokens": 40, "truncate_source": 12, "truncate_target": 6, "epochs": 1, "teacher_forcing": 1.0}
CUT |= {"best_by": "bleu", "schedule": "constant"}


@pytest.fixture(scope="module", params=OTHERS)
def run(request, tmp_path_factory):
    """A trained run of a task, and its text."""
    text = embedded_corpus(**SIZES, task=request.param)
    system = TINY.override(**{**settings_of_task(request.param), **CUT})
    return train_system(system, text, tmp_path_factory.mktemp(request.param) / "run"), text


@pytest.mark.long
def test_a_run_is_scored_by_its_task_and_marks_what_differs(run, tmp_path):
    """What is long is read as far as it goes; references count whole."""
    run, text = run
    task = TASKS[run.system().data.task]
    translator = load_translator(run.path)
    references = [target for _, target in text.splits.test]
    scores = score_run(run.path, translator, text.test)
    metrics = scores["text"]["metrics"]
    assert tuple(metrics) == task.metrics
    hypotheses = run.hypotheses("test").read_text(encoding="utf-8").split("\n")[:-1]
    assert {name: metrics[name]["score"] for name in metrics} == {
        name: score_text(hypotheses, references, name)[name].score for name in metrics
    }
    assert run.references("test").read_text(encoding="utf-8").split("\n")[:-1] == references
    # Four words of a reference, of those that it has, and the end.
    assert scores["tokens"] == sum(min(5, len(one.split()) + 1) for one in references)
    ids = translator.encode([source for source, _ in text.splits.test]).sources
    assert max(map(len, ids)) == 11
    score_again(run.path, "test", "intl", True)
    again = run.read_scores()["test"]["text"]
    assert (tuple(again["metrics"]), again["tokenize"], again["lowercase"]) == (task.metrics, "intl", True)
    better = RunFolder(shutil.copytree(run.path, tmp_path / "better"))
    translate_as(better, references, bleu=100.0 if "bleu" in task.metrics else None)
    table = results_table(read_results([run.path, better.path], baselines={better.path: run.path}))
    row = dict(zip(table.headings, table.rows[1], strict=True))
    headings = [heading for heading, metric in METRICS.items() if metric in task.metrics]
    assert [heading for heading in table.headings if heading in METRICS] == headings
    assert all(row[heading].endswith("**") for heading in headings)
    assert any(note.startswith("rougel: nrefs:1|measure:f1") for note in table.notes)


def test_the_folder_knows_its_task_and_its_text(run):
    run, text = run
    assert run.system().data.task == run.corpus()["task"]
    assert own_test_text(run).pairs == text.splits.test
    with pytest.raises(UserError, match=r"there is no task 'x': choose from translation, summarization, dialogue"):
        corpus_from_description({**run.corpus(), "task": "x"})


@pytest.mark.long
def test_pictures_show_the_words_that_were_read(run):
    run, text = run
    translator = load_translator(run.path)
    assert len(draw_run(run.path, translator, text.test, count=1)) == 2
    words = [(source.split(), target.split()) for source, target in text.splits.test]
    if translator.preprocessor.truncation.keep == "end":
        with pytest.raises(UserError, match="the model reads the last 10 tokens"):
            align_words(translator, words)
    else:
        links, _ = align_words(translator, words)
        assert max(source for one in links for source, _ in one) < 10


def test_settings_of_a_task_fit_every_body_and_keep_their_lengths():
    entries = {"tiny": Entry(TINY)}
    recipe = Recipe("One", entries, ("tiny",))
    assert recipe.of_task("translation") is recipe
    for task in OTHERS:
        system = recipe.of_task(task).entries["tiny"].system
        assert system.data.task == task and set(TASKS[task].metrics) <= set(METRICS.values()) == {*ALL_METRICS} - {
            NORMALIZED_TER
        }
        assert scaled(system, SCALES["small"]).data.truncation == system.data.truncation
        assert scaled(system, SCALES["smoke"]).data.truncation.source == 24
    own = dataclasses.replace(recipe, tasks={"dialogue": Recipe("Two", entries, ())})
    assert own.of_task("dialogue").title == "Two"


def test_what_a_task_is_scored_with_is_missed_before_training(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    check_system(TINY)
    with pytest.raises(UserError, match=r"needs rouge-score: pip install 'keras-attn-zoo\[tasks\]'\.$"):
        check_system(TINY.override(task="dialogue"))
    assert list(PACKAGES) == ["rouge_score", "nltk"]


def test_a_reference_that_cannot_be_scored_is_said_before_training(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_attn_zoo.runs.training.build_translator", None)
    other = [*corpus.splits.test[:2], ("rot haus", "кошка")]
    system = TINY.override(**{**settings_of_task("summarization"), **CUT})
    text = Corpus(corpus.splits._replace(test=other), corpus.description)
    further = Corpus(corpus.splits, corpus.description, more_tests={"news": ParallelText(other)})
    for one, name in ((text, "test"), (further, "news")):
        with pytest.raises(UserError, match=rf"there are none in 'кошка', a reference of {name} sentence 3\.$"):
            train_system(system, one, tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()
    with pytest.raises(TypeError, match="not callable"):
        # Of a translation, words are not counted so: now it would be built.
        train_system(TINY, text, tmp_path / "run")


def test_a_reference_that_cannot_be_scored_is_said_before_anything_is_translated(trained, tmp_path):
    run = RunFolder(shutil.copytree(trained, tmp_path / "run"))
    config = json.loads(run.config.read_text())
    config["system"]["data"]["task"] = "summarization"
    run.config.write_text(json.dumps(config))
    before = run.scores.read_text()
    with pytest.raises(UserError, match="there are none in 'кошка', a reference of news sentence 1"):
        score_run(run.path, None, ParallelText([("rot haus", "кошка")]), "news")
    assert run.scores.read_text() == before


def test_runs_of_two_tasks_are_not_compared(trained, tmp_path):
    folders = [shutil.copytree(trained, tmp_path / name) for name in "ab"]
    scores = RunFolder(folders[1]).read_scores()["test"]
    scores["text"]["metrics"] = {"rouge1": scores["text"]["metrics"]["bleu"]}
    RunFolder(folders[1]).add_scores("test", scores)
    with pytest.raises(UserError, match="share no score: evaluate them on one task"):
        read_results(folders, baselines={folders[1]: folders[0]})


PATH = Path(__file__).parents[2] / "recipes" / "zeng2021.py"


@pytest.fixture(scope="module")
def zeng():
    spec = importlib.util.spec_from_file_location("zeng2021", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.RECIPE


@pytest.mark.parametrize("task", OTHERS)
def test_table_4_has_columns_that_runs_of_the_task_have(zeng, task):
    recipe = zeng.of_task(task)
    headings = {heading for heading, metric in METRICS.items() if metric in TASKS[task].metrics}
    for name, entry in recipe.entries.items():
        assert set(entry.paper) <= headings & set(COLUMNS)
        assert entry.system.name == name and entry.system.data.task == task
        assert entry.system.data.sentences_per_batch == 128
    (table,) = recipe.tables
    for row in table.cells():
        assert {cell.measure: cell.figure for cell in row} == recipe.entries[row[0].entry].paper
        assert all(
            cell.measure in headings and measure(cell.measure).test == (METRICS[cell.measure], None) for cell in row
        )
    for scale in SCALES:
        check_system(recipe.at_scale(scale).entries["ran-all"].system)
    steps = {"summarization": "300000steps", "dialogue": "20000steps"}[task]
    assert {entry.system.training.budget for entry in recipe.at_scale("paper").entries.values()} == {steps}


@pytest.mark.parametrize(
    ("task", "systems"),
    [
        *((task, ("transformer", "ran-all")) for task in OTHERS),
        *(pytest.param(task, ("all",), marks=pytest.mark.slow) for task in OTHERS),
    ],
)
@pytest.mark.long
def test_the_recipe_at_smoke(zeng, task, systems, tmp_path, monkeypatch, capsys):
    from keras_attn_zoo.cli.recipe import run_recipe

    small = {"train": 64, "valid": 8, "test": 8, "max_words": 8, "words_per_kind": 3}
    named = () if systems == ("all",) else ("--systems", *systems)
    scale = dataclasses.replace(SCALES["smoke"], corpus=small, layers=1 if named else 2)
    monkeypatch.setitem(SCALES, "smoke", scale)
    if named:
        zeng = dataclasses.replace(zeng, tasks={task: dataclasses.replace(zeng.tasks[task], pictures={})})
        monkeypatch.setattr(finished_run, "draw_run", lambda *_: None)
    arguments = ["--task", task, "--scale", "smoke", "--out", str(tmp_path), *named, "--set"]
    arguments += ["budget=2steps", "validations_per_epoch=1", f"max_tokens={12 if named else 24}", "beams=1"]
    assert run_recipe(zeng, "Zeng.", arguments) == 0
    output = capsys.readouterr().out
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    entries = zeng.of_task(task).entries
    assert [one["system"] for one in results["runs"]] == (list(entries) if not named else list(systems))
    for one in results["runs"]:
        assert one["paper"] == entries[one["system"]].paper
        assert set(one["paper"]) < set(one["numbers"])
        # A smoke run shows no more than that it runs.
        assert not one["p_values"]
    figures = entries["ran-all"].paper
    assert f"(paper: {next(iter(figures.values()))})" in output
    (table,) = json.loads((tmp_path / "tables.json").read_text(encoding="utf-8"))["tables"]
    cells = [cell for cell in table["cells"] if cell["system"] == "ran-all"]
    assert {cell["measure"]: cell["paper"] for cell in cells} == figures
    assert all(len(cell["values"]) == 1 and cell["p_value"] is None for cell in cells)


@pytest.mark.slow
@pytest.mark.parametrize("task", OTHERS)
def test_the_generated_text_can_be_learned(task, tmp_path):
    """Far better than the first sentence of what is read, and than the answers to other texts."""
    text = embedded_corpus(3000, 20, 50, max_words=7, words_per_kind=3, task=task)
    sizes = {"width": 64, "num_heads": 4, "ffn_dim": 128, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
    lengths = {"vocabulary_size": 300, "max_tokens": 80, "sentences_per_batch": 64, "tokens_per_batch": None}
    training = {"budget": "250steps", "warmup_steps": 50, "learning_rate": 3e-3, "label_smoothing": 0.0, "beams": 1}
    system = SYSTEMS["transformer"].override(**{**settings_of_task(task), **sizes, **lengths, **training})
    run = train_system(system, text, tmp_path / "run")
    metrics = score_run(run.path, load_translator(run.path), text.test)["text"]["metrics"]
    references = [target for _, target in text.splits.test]
    first = [source.removeprefix("In short: ").partition(". ")[0] + "." for source, _ in text.splits.test]
    for others in (first, [*references[1:], references[0]]):
        for name, one in score_text(others, references, TASKS[task].metrics).metrics.items():
            assert metrics[name]["score"] > one.score + 20

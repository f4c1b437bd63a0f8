"""`--task`: on text files, on runs, and where there is one task alone."""

import dataclasses
import shutil

import pytest

from keras_attn_zoo.cli import run_comparison
from keras_attn_zoo.cli.parser import Parser
from keras_attn_zoo.cli.recipe import run_recipe
from keras_attn_zoo.cli.run_comparison import system_names
from keras_attn_zoo.runs import finished_run, training
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.paper_tables import Pair
from keras_attn_zoo.support.files import read_json, write_json
from tests.made_runs import repeat_text
from tests.tiny_run import TINY


def test_text_files_are_scored_by_their_task(attn_zoo, tmp_path):
    (tmp_path / "a.txt").write_text("The cat sat down. It slept.\n")
    files = ("--hypotheses", tmp_path / "a.txt", "--references", tmp_path / "a.txt")
    for task, names in (
        ("summarization", ["ROUGE-1", "ROUGE-2", "ROUGE-L", "ROUGE-Lsum"]),
        ("dialogue", ["BLEU", "ROUGE-L", "METEOR"]),
        ("translation", ["BLEU", "chrF2", "TER"]),
    ):
        status, output, error = attn_zoo("evaluate", *files, "--task", task)
        assert (status, error) == (0, "")
        assert [line.partition("|")[0] for line in output.splitlines()] == names
    assert attn_zoo("evaluate", *files)[1] == output


def test_a_run_has_its_own_task(attn_zoo, refused, trained, tmp_path):
    said = "a run's own task says how it is scored: leave out --task."
    refused(said, "evaluate", trained, "--stored", "--task", "dialogue")
    folder = shutil.copytree(trained, tmp_path / "run")
    config = read_json(folder / "config.json")
    config["system"]["data"]["task"] = "summarization"
    write_json(folder / "config.json", config)
    (tmp_path / "t.tsv").write_text("rot haus\thouse red\nkatze\tcat\n")
    status, output, _ = attn_zoo("evaluate", folder, "--test", tmp_path / "t.tsv", "--name", "other")
    assert status == 0 and "| ROUGE-1 | ROUGE-2 | ROUGE-L | ROUGE-Lsum |" in output and "BLEU" not in output
    picture = tmp_path / "by-length.png"
    repeat_text(RunFolder(folder), 20, "other")
    line = ("plot", "by-length", folder, "--name", "many", "--side", "target", "--bounds", 1, 2, "--output", picture)
    assert attn_zoo(*line)[0] == 0 and picture.is_file()


def test_train_takes_the_settings_of_the_task_and_then_those_given(attn_zoo, trained, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(finished_run, "score_and_draw", lambda *_, **__: None)
    monkeypatch.setattr(
        training, "train_system", lambda system, text, *_, **__: seen.append((system, text)) or RunFolder(trained)
    )
    line = ("train", "--system", "uniform", "--small", "--embedded", "--run", tmp_path / "run", "--task", "dialogue")
    monkeypatch.setattr("keras_attn_zoo.cli.train.corpus_from_options", lambda options: Text(options.task))
    assert attn_zoo(*line, "--set", "truncate_source=99")[0] == 0
    ((system, text),) = seen
    assert text.task == system.data.task == "dialogue"
    assert (system.data.truncate_source, system.data.truncate_keep, system.data.max_tokens) == (99, "end", 256)


@pytest.fixture
def chats(tmp_path, monkeypatch):
    """The corpus dailydialog, put in place by hand."""
    monkeypatch.setenv("ATTN_ZOO_CORPORA", str(tmp_path / "corpora"))
    folder = tmp_path / "corpora" / "dailydialog"
    folder.mkdir(parents=True)
    for part in ("train", "valid", "test"):
        (folder / f"{part}.tsv").write_text("".join(f"how is {part} {n}?\tfine {n}\n" for n in range(9)))


def test_the_task_is_that_of_the_corpus(attn_zoo, chats, trained, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(finished_run, "score_and_draw", lambda *_, **__: None)
    monkeypatch.setattr(
        training, "train_system", lambda system, text, *_, **__: seen.append(system) or RunFolder(trained)
    )
    line = ("train", "--system", "uniform", "--small", "--run", tmp_path / "run", "--corpus", "dailydialog")
    for more in ((), ("--task", "dialogue"), ("--set", "task=dialogue")):
        status, _, error = attn_zoo(*line, *more)
        assert status == 0 and "the corpus dailydialog is for dialogue: --task dialogue\n" in error
    systems = [(system.data.task, system.data.truncate_keep, system.data.max_tokens) for system in seen]
    assert systems == [("dialogue", "end", 256)] * 3


def test_a_task_that_contradicts_the_corpus_is_refused(refused, chats, tmp_path):
    (tmp_path / "s.toml").write_text('task = "summarization"\n')
    train = ("train", "--system", "uniform", "--run", tmp_path / "run", "--corpus")
    compare = ("compare", "--systems", "uniform", "--out", tmp_path / "out", "--corpus", "dailydialog")
    for line, text in (
        ((*train, "cnn-dailymail", "--task", "dialogue"), "cnn-dailymail is for summarization: leave out --task dia"),
        ((*train, "dailydialog", "--task", "translation"), "dailydialog is for dialogue: leave out --task translation"),
        ((*train, "multi30k-en-de", "--task", "dialogue"), "multi30k-en-de is for translation: leave out --task"),
        ((*train, "dailydialog", "--set", "task=translation"), "the task is dialogue, not translation: leave out"),
        ((*compare, "--settings", tmp_path / "s.toml"), "the task is dialogue, not summarization: leave out"),
        ((*compare, "--grid", "task=dialogue,translation"), "a grid are compared on one task: leave out task"),
        ((*train, "cnn-dailymial"), "there is no corpus cnn-dailymial: did you mean cnn-dailymail?"),
    ):
        refused(text, *line)
    assert not (tmp_path / "run").exists() and not (tmp_path / "out").exists()


@dataclasses.dataclass
class Text:
    task: str
    test: None = None
    more_tests: dict = dataclasses.field(default_factory=dict)


def options_of(recipe, *arguments):
    parser = Parser()
    tasks = {task: list(own.entries) for task, own in recipe.tasks.items()}
    systems = {name: entry.system for name, entry in recipe.entries.items()}
    run_comparison.add_comparison_arguments(parser, systems, recipe.default, tasks)
    return parser.parse_args(["--out", "o", *arguments])


def test_a_recipe_has_the_tasks_of_its_paper(capsys):
    entries = {name: Entry(TINY.override(name=name)) for name in "abc"}
    alone = Recipe("One", entries, ("a", "b"))
    both = Recipe("Two", entries, ("a", "b"), tasks={"dialogue": Recipe("Other", {"c": entries["c"]}, ("c",))})
    assert system_names(options_of(alone)) == system_names(options_of(both)) == ["a", "b"]
    assert system_names(options_of(both, "--task", "dialogue")) == ["c"]
    assert system_names(options_of(both, "--task", "dialogue", "--systems", "a,c")) == ["a", "c"]
    assert system_names(options_of(both, "--corpus", "personachat")) == ["c"]
    for recipe, corpus, text in ((alone, "personachat", "translation"), (both, "gigaword", "translation and dialogue")):
        assert run_recipe(recipe, "Recipe.", ["--out", "o", "--corpus", corpus]) == 2
        error = capsys.readouterr().err
        assert f"but these systems are for {text}." in error and error.count("\n") == 1
    for recipe, task in ((alone, "dialogue"), (both, "summarization")):
        with pytest.raises(SystemExit):
            run_recipe(recipe, "Recipe.", ["--out", "o", "--task", task])
        assert capsys.readouterr().err.count("\n") == 1
    both = dataclasses.replace(both, pairs={"ro-en": Pair(), "tr-en": Pair()})
    line = ["--out", "o", "--task", "dialogue", "--embedded"]
    assert run_recipe(both, "Recipe.", [*line, "--systems", "a"]) == 2
    assert "unknown system 'a': choose one of c." in capsys.readouterr().err
    assert run_recipe(both, "Recipe.", [*line, "--pair", "tr-en"]) == 2
    assert "--task dialogue has no language pairs: leave out --pair." in capsys.readouterr().err

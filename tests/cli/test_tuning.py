"""`--tune`: which runs are trained, chosen and shown."""

import dataclasses
import json
import shutil

import pytest

from keras_attn_zoo.cli import run_comparison
from keras_attn_zoo.cli.recipe import run_recipe
from keras_attn_zoo.runs import finished_run, training
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.studies.comparison import Entry, Recipe, folders_by_seed
from keras_attn_zoo.studies.tuning import validation_loss
from keras_attn_zoo.support.errors import UserError
from tests.cli.test_recipe import PLAIN, runs_and_baselines
from tests.made_runs import copy_run, table_rows, write_log
from tests.tiny_run import TINY, make_text

RNN = dataclasses.replace(TINY, name="rnn", seed=1)
RECIPE = Recipe("Two bodies", {"rnn": Entry(RNN), "plain": Entry(PLAIN, baseline="rnn")}, default=("rnn", "plain"))
# Validation losses by system and learning rate; another seed's would choose otherwise.
LOSSES = {("rnn", 0.1): 3.0, ("rnn", 0.2): 2.0, ("plain", 0.1): 1.5, ("plain", 0.2): 1.75}
TUNE = ("--tune", "learning_rate=0.1,0.2")


@pytest.fixture
def tuned(trained, any_preset, no_pictures_of_runs, tmp_path, monkeypatch, capsys):
    """Run the recipe; a system is trained by a copy of a run with a log of its own, unless it is made to fail."""

    def run(*arguments, recipe=RECIPE, failing=()):
        done, scored = [], []

        def train(system, corpus, folder, *args, **kwargs):
            if folder.name in failing:
                raise UserError("it was NaN.")
            if not folder.exists():
                done.append(folder.name)
                loss = LOSSES[system.name, system.training.learning_rate] * (1 if system.seed == 1 else -1)
                lines = [{"round": n, "step": n, "val_loss": one} for n, one in enumerate((loss, loss + 9), start=1)]
                write_log(copy_run(trained, folder, system), lines)
            return RunFolder(folder)

        monkeypatch.setattr(training, "train_system", train)
        monkeypatch.setattr(run_comparison, "check_with_text", lambda *args: None)
        monkeypatch.setattr(finished_run, "score_and_draw", lambda folder, *args, **more: scored.append(folder.name))
        (tmp_path / "a").write_text("rot haus\n" * 20)
        monkeypatch.chdir(tmp_path)
        shutil.copy("a", "b")
        status = run_recipe(recipe, "Two bodies.", ["--out", "out", "--train", "a", "b", *map(str, arguments)])
        return status, *capsys.readouterr(), done, scored

    return run


def test_the_lowest_validation_loss_of_the_first_seed_decides(tuned, tmp_path):
    """Each system is compared with what was chosen for its baseline; a call again trains nothing."""
    out = tmp_path / "out"
    status, _, error, done, scored = tuned(*TUNE, "--seeds", 1, 2)
    assert status == 0, error
    chosen = {"rnn": "rnn-learning_rate=0.2", "plain": "plain-learning_rate=0.1"}
    assert done == [
        *("rnn-learning_rate=0.1", "rnn-learning_rate=0.2", "rnn-learning_rate=0.2-seed=2"),
        *("plain-learning_rate=0.1", "plain-learning_rate=0.2", "plain-learning_rate=0.1-seed=2"),
    ]
    assert scored == [one for name in chosen.values() for one in (name, f"{name}-seed=2")]
    expected = {
        chosen["rnn"]: None,
        f"{chosen['rnn']}-seed=2": None,
        chosen["plain"]: chosen["rnn"],
        f"{chosen['plain']}-seed=2": f"{chosen['rnn']}-seed=2",
    }
    assert runs_and_baselines(out) == expected
    record = json.loads((out / "tuned.json").read_text())
    assert {name: (one["run"], one["values"]) for name, one in record.items()} == {
        "rnn": (chosen["rnn"], {"learning_rate": 0.2}),
        "plain": (chosen["plain"], {"learning_rate": 0.1}),
    }
    assert record["plain"]["validation_loss"] == {chosen["plain"]: 1.5, "plain-learning_rate=0.2": 1.75}
    # Papers' tables and pictures have them.
    assert [one.name for one in folders_by_seed(out, "plain").values()] == [
        chosen["plain"],
        f"{chosen['plain']}-seed=2",
    ]
    for more in ((*TUNE, "--seeds", 1, 2), (*TUNE, "--seeds", 1, 2, "--table-only"), ("--table-only",)):
        status, _, error, done, _ = tuned(*more)
        assert (status, done, runs_and_baselines(out)) == (0, [], expected), error


def test_another_value_may_take_the_place_of_the_chosen_one(tuned, tmp_path, monkeypatch):
    assert tuned("--tune", "learning_rate=0.1", "--systems", "rnn")[0] == 0
    assert list(runs_and_baselines(tmp_path / "out")) == ["rnn-learning_rate=0.1"]
    assert tuned(*TUNE, "--systems", "rnn")[3] == ["rnn-learning_rate=0.2"]
    assert list(runs_and_baselines(tmp_path / "out")) == ["rnn-learning_rate=0.2"]


def test_what_fails_is_not_chosen(tuned, tmp_path):
    status, _, error, done, _ = tuned(*TUNE, "--systems", "rnn", failing={"rnn-learning_rate=0.2"})
    assert status == 2 and "1 of 2 runs failed: rnn-learning_rate=0.2 (it was NaN)" in error
    assert list(runs_and_baselines(tmp_path / "out")) == ["rnn-learning_rate=0.1"]
    every = {f"plain-learning_rate={value}" for value in (0.1, 0.2)}
    status, _, error, done, _ = tuned(*TUNE, "--systems", "plain", failing=every)
    assert (status, done) == (2, []) and "2 of 2 runs failed" in error


def test_a_recipe_may_tune_by_default(tuned):
    """Not what is given, and nothing with --tune alone."""
    recipe = dataclasses.replace(RECIPE, tune={"learning_rate": [0.1, 0.2]})
    assert tuned("--systems", "plain", recipe=recipe)[3] == ["plain-learning_rate=0.1", "plain-learning_rate=0.2"]
    assert tuned("--systems", "rnn", "--set", "learning_rate=0.1", recipe=recipe)[3] == ["rnn"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tune", "dropout"), "--tune takes NAME=VALUE,VALUE; received 'dropout'"),
        (("--tune", "dropout=0.1", "dropout=0.2"), "--tune has 'dropout' twice"),
        (("--tune", "dropuot=0.1,0.2"), "there is no setting 'dropuot': did you mean dropout?"),
        (("--tune", "learning_rate=-1,0.1"), "the setting learning_rate must be a number above 0"),
        ((*TUNE, "--grid", "learning_rate=0.3"), "--grid and --tune both have learning_rate"),
        ((*TUNE, "--set", "learning_rate=0.3"), "the setting learning_rate was given twice"),
        (("--tune", "seed=1,2"), "--seeds gives the seeds: leave out the setting seed"),
        ((*TUNE, "--table-only"), "none of the runs asked for has been scored"),
    ],
)
def test_what_cannot_be_tuned_is_said_in_one_line(tuned, arguments, said, tmp_path):
    status, output, error, done, _ = tuned(*arguments)
    assert (status, output, done) == (2, "", []) and said in error.splitlines()[-1]
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_system_is_tuned(tmp_path, capsys):
    """By its own trainings: a learning rate of nothing learns nothing. A plan says what is left."""
    make_text(tmp_path / "text")
    text = (f"--{part} {tmp_path}/text/{part}.de {tmp_path}/text/{part}.en" for part in ("train", "valid", "test"))
    recipe = Recipe("One body", {"rnn": Entry(RNN)}, ("rnn",), tune={"learning_rate": [1e-9, 1e-2]})
    line = ["--out", str(tmp_path / "out"), *" ".join(text).split(), "--seeds", "1", "2", "--set", "epochs=1"]
    plans = []
    for more in (["--plan"], [], ["--plan"]):
        status, (output, error) = run_recipe(recipe, "One body.", [*line, *more]), capsys.readouterr()
        assert status == 0, error
        plans.append({name: state for name, state, *_ in table_rows(output)[1:]})
    slow, fast = "rnn-learning_rate=1e-09", "rnn-learning_rate=0.01"
    assert plans[0] == dict.fromkeys([slow, fast, "rnn-learning_rate=best-seed=2"], "to do")
    assert plans[2] == dict.fromkeys([fast, f"{fast}-seed=2"], "done")
    assert {path.parent.name for path in (tmp_path / "out").glob("*/config.json")} == {slow, fast, f"{fast}-seed=2"}
    assert validation_loss(tmp_path / "out" / fast) < validation_loss(tmp_path / "out" / slow)
    # What was not chosen was not translated.
    assert not RunFolder(tmp_path / "out" / slow).scores.exists()

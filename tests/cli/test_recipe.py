"""What a recipe does with settings, with systems that fail and with baselines; nothing is trained here."""

import dataclasses
import json
import re
import shutil

import pytest

from keras_attn_zoo.cli import compare, run_comparison
from keras_attn_zoo.cli.recipe import run_recipe
from keras_attn_zoo.runs import training
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.table import read_results, results_table
from keras_attn_zoo.support.errors import UserError
from tests.made_runs import REFERENCES, WRONG, copy_run, make_run, translate_as
from tests.tiny_run import TINY

PLAIN = System("plain", {"width": 8, "num_heads": 2, "ffn_dim": 8}, TINY.data, body="transformer")
RECIPE = Recipe(
    "Two bodies",
    {"rnn": Entry(dataclasses.replace(TINY, name="rnn"), {"BLEU": "9.9"}), "plain": Entry(PLAIN, baseline="rnn")},
    default=("rnn", "plain"),
)
PICTURES = {
    "curves.png": "curves rnn plain",
    "entropy.png": "entropy rnn --places cross",
    "attention.png": "attention rnn '{sentence}' --target '{translation}' --beside plain",
    "matrices.png": "matrices rnn",
}


@pytest.fixture
def recipe(trained, any_preset, no_pictures_of_runs, tmp_path, monkeypatch, capsys):
    """Run the recipe; a system is trained by a copy of a run, unless it is made to fail."""
    seen = {}

    def run(*arguments, failing=None):
        def train(system, corpus, folder, *args, **kwargs):
            seen[folder.name] = (system, kwargs["max_tokens"])
            if folder.name in (failing or {}):
                raise failing[folder.name]
            return RunFolder(folder) if folder.exists() else copy_run(trained, folder, system)

        monkeypatch.setattr(training, "train_system", train)
        # Of the text that is given here, no system could be trained.
        monkeypatch.setattr(run_comparison, "check_with_text", lambda *args: None)
        seen.clear()
        command = ["--out", str(tmp_path / "out"), "--train", "a", "b", *map(str, arguments)]
        (tmp_path / "a").write_text("rot haus\n" * 20)
        monkeypatch.chdir(tmp_path)
        shutil.copy("a", "b")
        status = run_recipe(dataclasses.replace(RECIPE, pictures=run.pictures), "Two bodies.", command)
        return status, *capsys.readouterr(), dict(seen)

    # Drawing takes longer than all else.
    run.pictures = {}
    return run


def test_a_setting_goes_to_the_systems_that_know_it(recipe):
    status, _, _, seen = recipe("--set", "hidden_dim=6", "num_heads=4", "seed=7", "teacher_forcing=0.5")
    assert status == 0
    # Named like those of `--seeds`: another call may add more seeds.
    assert {name: system.seed for name, (system, _) in seen.items()} == {"rnn-seed=7": 7, "plain-seed=7": 7}
    rnn, plain = (system for system, _ in seen.values())
    assert (rnn.backbone["hidden_dim"], rnn.training.teacher_forcing) == (6, 0.5)
    assert (plain.backbone["num_heads"], plain.training.teacher_forcing) == (4, 1.0)
    assert "num_heads" not in rnn.backbone


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--systems", "plain", "--set", "hidden_dim=6"), "the system plain has no setting 'hidden_dim'"),
        (("--set", "search_top_k=3"), "none of the systems rnn, plain has a setting 'search_top_k'"),
        (("--set", "num_heads=3"), "plain: .*width of 8 is not divisible by 3 heads"),
        (("--set", "decoder_attention=bahdanow"), "plain: 'bahdanow' is not a decoder attention"),
        (("--set", "max_length=3"), "plain: max_length=3 is less than the 15 tokens"),
        (("--set", "encoder_positions=learned", "--max-tokens", 40), "plain has weights for 15 tokens, .* may have 40"),
        (
            ("--set", "width=65536", "encoder_layers=100"),
            "plain: .* M parameters need .* GB to train",
        ),
        (("--set", "word_vectors_source=nowhere.txt"), "rnn: there is no file nowhere.txt"),
        (("--set", "epochs=1e12"), "the setting epochs must be a number above 0 and at most 10,000; received 1e12"),
    ],
)
def test_what_is_wrong_with_any_system_is_said_before_the_first_is_trained(recipe, arguments, text, monkeypatch):
    monkeypatch.setattr("keras_attn_zoo.runs.memory.machine_bytes", lambda: 10**11)
    status, output, error, seen = recipe(*arguments)
    assert (status, output, seen) == (2, "", {})
    assert re.search(text, error)
    assert error.count("\n") == 1


@pytest.mark.parametrize("failure", [UserError("it was NaN."), RuntimeError("a defect\nat 3"), OSError(28, "disk")])
def test_a_system_that_fails_stops_no_other_and_is_named_at_the_end(recipe, failure):
    status, output, error, seen = recipe("--max-tokens", 70, failing={"rnn": failure})
    assert status == 2
    assert {name: room for name, (_, room) in seen.items()} == {"rnn": 70, "plain": 70}
    assert "| plain" in output and "| rnn" not in output
    assert "no stars for plain: the baseline rnn is not in the table" in output
    last = error.splitlines()[-1]
    assert "error: 1 of 2 runs failed: rnn (" in last
    assert str(failure.args[-1]).splitlines()[0].rstrip(".") in last
    assert ("Traceback" in error) == isinstance(failure, RuntimeError)


@pytest.mark.long
def test_a_later_call_keeps_the_results_of_earlier_ones(recipe, tmp_path):
    """Of its systems alone, of one that fails, and of one that would change a run."""

    def rows():
        return [one["run"] for one in content(tmp_path / "out")["runs"]]

    first = recipe()[1]
    assert rows() == ["rnn", "plain"] and "differs from rnn" in first
    assert recipe("--systems", "plain")[1] == first
    status, _, error, seen = recipe("--systems", "plain", "--set", "ffn_dim=16")
    said = "plain was started with different settings (system.backbone.ffn_dim: 8, now 16)"
    assert (status, seen) == (2, {}) and said in error
    assert recipe("--systems", "plain", "--seeds", 2, failing={"plain-seed=2": UserError("it was NaN.")})[0] == 2
    assert rows() == ["rnn", "plain"]
    status, _, error, _ = recipe("--systems", "plain", "rnn", "--seeds", 1, 2)
    assert status == 0, error
    assert rows() == ["rnn", "plain", "plain-seed=2", "rnn-seed=1", "rnn-seed=2"]
    with (tmp_path / "out" / "rnn" / "references" / "test.txt").open("a") as file:
        file.write("another line\n")
    status, output, error, _ = recipe("--systems", "plain", "--table-only")
    assert status == 0 and "no stars for plain: the baseline rnn is not in the table" in output
    assert "the results leave out rnn: it was scored on another text, or otherwise" in error
    assert rows() == ["plain", "plain-seed=2", "rnn-seed=1", "rnn-seed=2"]


@pytest.mark.long
def test_a_damaged_run_or_a_copy_keeps_no_other_from_the_results(recipe, tmp_path):
    assert recipe("--seeds", 1, 2)[0] == 0
    out = tmp_path / "out"
    (out / "rnn-seed=1" / "scores.json").write_text("{")
    shutil.copytree(out / "plain", out / "plain-seed=3")
    status, _, error, _ = recipe("--seeds", 1, 2, 3, "--table-only")
    assert status == 0, error
    assert "the results leave out rnn-seed=1: " in error and "scores.json is damaged" in error
    assert "the results leave out plain-seed=3: its settings have seed=1: rename the folder, or train" in error
    assert [(one["run"], one["settings"]["seed"]) for one in content(out)["runs"]] == [
        ("rnn-seed=2", 2),
        ("plain", 1),
        ("plain-seed=2", 2),
    ]


def test_a_table_of_some_systems_has_those_of_earlier_calls(attn_zoo, tmp_path):
    """With their baseline, at their scale; at that of a smoke run, no difference has a star."""
    for name, translations in (("bahdanau", WRONG), ("uniform", REFERENCES), ("rnn-attention", WRONG)):
        make_run(tmp_path / name, translations=translations).environment.write_text('{"backend": "torch"}')
    line = ("compare", "--out", tmp_path, "--table-only")
    every = ("--systems", "bahdanau,uniform", "--baseline", "bahdanau", "--scale", "smoke")
    status, first, _ = attn_zoo(*line, *every)
    assert status == 0 and first.startswith("# Comparison of bahdanau, uniform\n") and "**" not in first
    assert attn_zoo(*line, "--systems", "uniform")[1] == first
    added = attn_zoo(*line, "--systems", "rnn-attention")[1]
    assert added.startswith("# Comparison of bahdanau, uniform, rnn-attention\n") and "Scale smoke" in added
    found = content(tmp_path)
    baselines = [("bahdanau", None), ("uniform", "bahdanau"), ("rnn-attention", "bahdanau")]
    assert [(one["run"], one["baseline"]) for one in found["runs"]] == baselines
    assert found["runs"][0]["config"] == json.loads((tmp_path / "bahdanau" / "config.json").read_text())
    # Another baseline is that of all.
    attn_zoo(*line, "--systems", "rnn-attention", "--baseline", "uniform")
    assert {one["run"]: one["baseline"] for one in content(tmp_path)["runs"]} == {
        "bahdanau": "uniform",
        "uniform": None,
        "rnn-attention": "uniform",
    }


def content(folder):
    return json.loads((folder / "results.json").read_text("utf-8"))


def test_what_results_cannot_have_is_left_out_of_them(attn_zoo, tmp_path):
    """Runs outside, damaged ones, other texts; seeds with other settings have a mean of their own."""
    out = tmp_path / "out"
    for folder in (out / "bahdanau", out / "uniform", out / "uniform-seed=2", tmp_path / "rnn-attention"):
        make_run(folder, 10.0, names=("test", "news")).environment.write_text('{"backend": "torch"}')
    line = ("compare", "--out", out, "--table-only", "--systems")
    assert attn_zoo(*line, "bahdanau")[0] == 0
    own = content(out)
    strange = [{**own["runs"][0], "run": name, "system": "rnn-attention"} for name in ("../rnn-attention", "a\0b", ".")]
    for runs in ([*own["runs"], *strange], own["runs"] + [{"run": "uniform", "system": "uniform", "settings": {}}]):
        (out / "results.json").write_text(json.dumps({**own, "runs": runs, "scale": ["smoke"]}))
        status, _, error = attn_zoo(*line, "uniform")
        assert status == 0, error
        assert [one["run"] for one in content(out)["runs"] if one["text"] == "test"] == ["bahdanau", "uniform"]
    news = (out / "uniform" / "references" / "news.txt").read_text()
    (out / "uniform" / "references" / "news.txt").write_text(news.replace("house", "horse"))
    status, output, error = attn_zoo(*line, "uniform")
    assert status == 0 and error.count("the results of 'news' leave out bahdanau: it was scored on another text") == 1
    assert [one["run"] for one in content(out)["runs"]] == ["bahdanau", "uniform", "uniform"]
    (out / "uniform" / "references" / "news.txt").write_text(news)
    assert attn_zoo(*line, "uniform")[0] == 0
    assert [one["run"] for one in content(out)["runs"]] == ["bahdanau", "uniform"] * 2
    config = json.loads((out / "uniform-seed=2" / "config.json").read_text())
    config["system"] = SYSTEMS["uniform"].override(seed=2, epochs=3).to_dict()
    (out / "uniform-seed=2" / "config.json").write_text(json.dumps(config))
    spread = attn_zoo(*line, "uniform", "--seeds", 1, 2)[1]
    assert "mean over seeds" not in spread
    scores = (out / "bahdanau" / "scores.json").read_bytes()
    (out / "bahdanau" / "scores.json").write_text("{")
    status, output, error = attn_zoo(*line, "uniform")
    assert status == 0, error
    assert "the results leave out bahdanau: it is damaged" in error and "| bahdanau" not in output
    (out / "bahdanau" / "scores.json").write_bytes(scores)
    assert "| bahdanau" in attn_zoo(*line, "uniform")[1]
    (out / "results.json").write_text("{")
    status, output, error = attn_zoo(*line, "uniform")
    assert status == 0 and error.count("results.json is damaged and is written anew") == 1


def runs_and_baselines(folder):
    return {one["run"]: one["baseline"] for one in content(folder)["runs"]}


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "grid", "values"),
    [
        # Values of the grid that are valid, or settings of the system, only with what stands beside it.
        (["model_type=unigram", "vocabulary_size=20"], "subword_sampling_nbest", (2, 3)),
        (["cross_attention=local_p"], "cross_attention.window", (3, 5)),
    ],
)
def test_results_keep_runs_that_need_other_settings_of_their_call(recipe, tmp_path, settings, grid, values):
    """Calls without those settings, of either system, keep them, compared with the same runs as before."""
    out = tmp_path / "out"
    status, _, error, _ = recipe("--set", *settings, "--grid", f"{grid}={','.join(map(str, values))}")
    assert status == 0, error
    ends = [f"-{grid}={value}" for value in values]
    expected = {**{f"rnn{end}": None for end in ends}, **{f"plain{end}": f"rnn{end}" for end in ends}}
    assert runs_and_baselines(out) == expected
    for entry, baseline in (("rnn", None), ("plain", "rnn-seed=8")):
        status, _, error, _ = recipe("--systems", entry, "--seeds", 8)
        assert status == 0 and "leave out" not in error, error
        expected[f"{entry}-seed=8"] = baseline
        assert runs_and_baselines(out) == expected
    for one in content(out)["runs"]:
        assert one["settings"]["seed"] == RunFolder(out / one["run"]).system().seed


@pytest.mark.long
def test_runs_that_cannot_join_the_results_are_named(recipe, tmp_path):
    """Their records stay: they may join later ones."""
    out = tmp_path / "out"
    assert recipe("--systems", "rnn", "--grid", "dropout=0.1,0.2,0.3,0.5")[0] == 0
    own = content(out)
    shutil.rmtree(out / "rnn-dropout=0.5")
    own["runs"] = own["runs"][:4]
    first, second, third, _ = own["runs"]
    first["system"], second["settings"]["dropout"], third["settings"]["dropuot"] = "other", 0.4, 0.3
    (out / "results.json").write_text(json.dumps(own))
    status, _, error, _ = recipe("--systems", "plain")
    assert status == 0
    for name, why in (
        ("0.1", "this comparison has no system 'other'"),
        ("0.2", "its name is not that of its settings"),
        ("0.3", "there is no setting 'dropuot'"),
        ("0.5", "there is no run in its folder"),
    ):
        assert f"the results leave out rnn-dropout={name}: {why}" in error
    assert list(runs_and_baselines(out)) == ["plain"]
    assert [one["run"] for one in content(out)["left_out"]] == [f"rnn-dropout={value}" for value in (0.1, 0.2, 0.3)]


@pytest.mark.long
@pytest.mark.parametrize("results", [True, False])
def test_a_table_alone_finds_runs_of_other_seeds_and_of_a_grid(recipe, tmp_path, results):
    """Whether or not results name them; beside a run of the own name if there are none; not if others are asked for."""
    out = tmp_path / "out"
    assert recipe("--systems", "rnn", "--seeds", 10, 2)[0] == 0
    status, _, error, _ = recipe("--systems", "plain", "--grid", "num_heads=1,2", "cross_attention.normalizer=softmax")
    assert status == 0, error
    shutil.copytree(out / "rnn-seed=2", out / "rnn-more-seed=2")
    (shutil.copytree(out / "rnn-seed=2", out / "rnn-seed=5") / "scores.json").unlink()
    if not results:
        (out / "results.json").unlink()
    for arguments in (["--seeds", 7], ["--grid", "dropout=0.5"]):
        status, _, error, _ = recipe("--table-only", *arguments)
        assert status == 2 and "none of the runs asked for has been scored" in error
    status, _, error, seen = recipe("--table-only")
    assert (status, seen) == (0, {}), error
    names = ["rnn-seed=2", "rnn-seed=10", *(f"plain-cross_attention.normalizer=softmax-num_heads={n}" for n in (1, 2))]
    assert sorted(runs_and_baselines(out)) == sorted(names)
    points = {one["run"]: one["settings"] for one in content(out)["runs"]}
    assert points[names[1]] == {"seed": 10}
    assert points[names[3]] == {"cross_attention.normalizer": "softmax", "num_heads": 2, "seed": 1}
    (out / "results.json").unlink()
    shutil.copytree(out / "rnn-seed=2", out / "rnn")
    assert recipe("--table-only", "--systems", "rnn")[0] == 0
    assert sorted(runs_and_baselines(out)) == ["rnn", "rnn-seed=10", "rnn-seed=2"]
    (out / "results.json").write_text(json.dumps({**content(out), "runs": []}))
    assert recipe("--table-only", "--systems", "rnn")[0] == 0
    assert list(runs_and_baselines(out)) == ["rnn"]


@pytest.mark.long
def test_pictures_have_the_runs_of_earlier_calls(recipe, monkeypatch):
    """Those of a grid too, of which the first values are drawn."""
    drawn = []
    recipe.pictures, draw = PICTURES, "keras_attn_zoo.viewing.attention_pictures.plot_curves"
    monkeypatch.setattr(draw, lambda curves, path, *_, **more: drawn.append([path.name, *curves]))
    assert recipe("--systems", "rnn", "--grid", "dropout=0.3,0.1")[0] == 0
    assert recipe("--systems", "plain")[0] == 0
    assert recipe("--systems", "plain", "rnn", "--table-only")[0] == 0
    first = "rnn-dropout=0.3"
    curves = [names for file, *names in drawn if file == "curves.png"]
    assert curves == [[first], [first, "plain"], [first, "plain"]]


def test_ctrl_c_stops_everything(recipe):
    status, output, _, seen = recipe(failing={"rnn": KeyboardInterrupt()})
    assert (status, output, list(seen)) == (130, "", ["rnn"])


def scored(trained, folder, lines, references):
    shutil.copytree(trained, folder)
    (folder / "references" / "test.txt").write_text("".join(line + "\n" for line in references), encoding="utf-8")
    translate_as(RunFolder(folder), lines, bleu=50.0)
    return folder


@pytest.mark.parametrize(
    "test, name",
    [
        ("bootstrap", "one-sided paired bootstrap, 1000 samples"),
        ("randomization", "approximate randomization, 10000 trials"),
    ],
)
def test_each_system_is_compared_with_its_own_baseline(trained, tmp_path, test, name):
    """Two groups: what is far better than its own baseline has stars, also where it equals the other group's."""
    good = [f"the {colour} house {number} is here today" for colour in ("red", "blue") for number in range(20)]
    bad = [line.replace("house", "dog") for line in good]
    texts = {"a": bad, "of-a": good, "b": good, "of-b": good, "alone": bad}
    folders = {name: scored(trained, tmp_path / name, lines, good) for name, lines in texts.items()}
    baselines = {folders["of-a"]: folders["a"], folders["of-b"]: folders["b"], folders["alone"]: tmp_path / "other"}
    table = results_table(read_results(folders.values(), baselines=baselines, test=test))
    bleu = table.headings.index("BLEU")
    assert {name: cells[bleu - 1].count("*") for name, *cells in table.rows} == {
        "a": 0,
        "of-a": 2,
        "b": 0,
        "of-b": 0,
        "alone": 0,
    }
    notes = "\n".join(table.notes)
    assert f"differs from its baseline (a for of-a; b for of-b), p < 0.05, p < 0.01; {name}" in notes
    assert "no stars for alone: the baseline other is not in the table" in notes


def test_what_was_scored_and_not_drawn_is_drawn(recipe, tmp_path):
    assert recipe("--systems", "rnn")[0] == 0
    assert (tmp_path / "out" / "rnn" / "pictures" / "curves.png").is_file()


@pytest.mark.long
def test_seeds_and_grid_have_a_folder_and_a_row_for_each_run(recipe, tmp_path):
    status, output, _, seen = recipe("--seeds", "1,2", "--grid", "num_heads=1,2", "--systems", "plain,rnn")
    names = ["plain-num_heads=1", "plain-num_heads=1-seed=2", "plain-num_heads=2", "plain-num_heads=2-seed=2"]
    assert (status, list(seen)) == (0, [*names, "rnn-seed=1", "rnn-seed=2"])
    assert [system.seed for system, _ in seen.values()] == [1, 2, 1, 2, 1, 2]
    assert all((tmp_path / "out" / name / "pictures" / "curves.png").is_file() for name in seen)
    assert (tmp_path / "out" / "results.md").read_text() == output[: output.rindex("\n")]


def test_compare_is_a_recipe_from_the_command_line(attn_zoo, refused, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(compare, "run_comparison", lambda recipe, options: seen.append((recipe, options)))
    line = ["compare", "--systems", "uniform,bahdanau", "luong-dot", "--baseline", "bahdanau", "--out", tmp_path / "o"]
    assert attn_zoo(*line)[0] == 0
    ((known, options),) = seen
    assert {name: known.entries[name].baseline for name in run_comparison.system_names(options)} == {
        "uniform": "bahdanau",
        "bahdanau": None,
        "luong-dot": "bahdanau",
    }
    assert known.entries["uniform"].system == SYSTEMS["uniform"]
    monkeypatch.undo()
    for more, text in (
        (["--systems", "uniform", "--baseline", "transformer"], "'transformer' is not compared: choose one of uniform"),
        (["--systems", "uniform,bahdanow"], "unknown system 'bahdanow': did you mean bahdanau?"),
    ):
        refused(text, "compare", *more, "--embedded", "--out", tmp_path / "o")
    assert not (tmp_path / "o").exists()


@pytest.mark.long
def test_a_recipe_draws_what_there_is(recipe, tmp_path):
    """Of one system: no picture beside the other. What cannot be drawn is said. Of both: all."""
    out, recipe.pictures = tmp_path / "out", PICTURES
    status, _, error, _ = recipe("--systems", "rnn")
    assert status == 0
    assert {path.name for path in out.glob("*.png")} == {"curves.png", "entropy.png"}
    assert "matrices.png was not drawn: every attention of this model depends on the tokens" in error
    recipe()
    assert (out / "attention.png").is_file()

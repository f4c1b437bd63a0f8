"""What a plan says of runs that are done, begun and yet to come; it trains nothing."""

import json
import shutil
import types

import numpy as np
import pytest

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments import plan
from keras_attn_zoo.experiments.comparison import Run
from keras_attn_zoo.experiments.plan import Speed, plan_table
from keras_attn_zoo.training.progress import clock_time
from keras_attn_zoo.training.run_log import read_log
from tests.tiny_run import TINY


@pytest.fixture
def out(trained, tmp_path):
    """A folder with a run that is done, and one of which half is done; steps take 2 seconds, compilation 7 more."""
    for name in ("tiny", "tiny-seed=2"):
        shutil.copytree(trained, tmp_path / name)
        lines = read_log(trained / "log.jsonl")
        steps = [line for line in lines if "shape" in line]
        for number, line in enumerate(steps):
            line["seconds"] = 9.0 if number == 0 else 2.0
        kept = lines if name == "tiny" else [line for line in lines if line["step"] <= 6]
        (tmp_path / name / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    config = tmp_path / "tiny-seed=2" / "config.json"
    settings = json.loads(config.read_text())
    settings["system"]["seed"] = 2
    config.write_text(json.dumps(settings))
    (tmp_path / "tiny-seed=2" / "scores.json").unlink()
    return tmp_path


def rows(table):
    """The rows of a table, by the first cell."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    return {cells[0]: dict(zip(lines[0], cells, strict=True)) for cells in lines[2:]}


def validated(seconds, corpus, compilation=0):
    """Seconds of steps with their validation: two in an epoch, and each twice, as the decoder also runs freely."""
    words = [sum(len(target.split()) for _, target in pairs) for pairs in (corpus.splits.valid, corpus.splits.train)]
    return clock_time(compilation + seconds + (words[0] / words[1]) / 3 * 2 * 2 * seconds)


def planned(*systems):
    return [Run(name, "tiny", system, {}) for name, system in systems]


def test_times_are_those_of_runs_whose_steps_take_equally_long(out, corpus, monkeypatch):
    monkeypatch.setattr(plan, "_timed", lambda *arguments: Speed(60.0, 0.0, "5 timed steps"))
    other = TINY.override(hidden_dim=13, budget="7min", schedule="constant")
    table = plan_table(
        planned(
            ("tiny", TINY),
            ("tiny-seed=2", TINY.override(seed=2)),
            ("tiny-learning_rate=0.1", TINY.override(learning_rate=0.1, budget="100steps")),
            ("tiny-hidden_dim=13", TINY.override(hidden_dim=13)),
            ("tiny-hidden_dim=13-seed=2", other),
        ),
        corpus,
        out,
    )
    found = rows(table)
    assert {name: [row[key] for key in ("state", "steps", "time left")] for name, row in found.items()} == {
        "tiny": ["done", "12 of 12", "0:00"],
        "tiny-seed=2": ["begun", "6 of 12", validated(12, corpus, 7)],
        "tiny-learning_rate=0.1": ["to do", "0 of 100", validated(200, corpus, 7)],
        "tiny-hidden_dim=13": ["to do", "0 of 12", validated(720, corpus)],
        "tiny-hidden_dim=13-seed=2": ["to do", "0 of 7min", validated(420, corpus)],
    }
    assert [row["measured on"].split(" of ")[0] for row in found.values()] == [
        "–",
        "the log",
        "the log",
        "5 timed steps",
        "5 timed steps",
    ]
    whole = validated(12 + 200 + 720 + 420, corpus, 14)
    assert f"time left: {whole} in all" in table
    assert {path.name for path in out.iterdir()} == {"tiny", "tiny-seed=2", "data"}


def test_a_run_that_was_resumed_says_what_one_process_compiles(out, corpus):
    """Half of the run is done, a round by each of two processes, which compile for 7 and for 5 seconds."""
    log = out / "tiny-seed=2" / "log.jsonl"
    steps = [{**line, "seconds": 2.0, "elapsed_seconds": 100.0} for line in read_log(log) if "shape" in line]
    for place, seconds in ((0, 9.0), (3, 7.0)):
        steps[place] |= {"seconds": seconds, "elapsed_seconds": seconds}
    log.write_text("".join(json.dumps(line) + "\n" for line in steps))
    found = rows(plan_table(planned(("tiny-seed=2", TINY.override(seed=2))), corpus, out))
    assert found["tiny-seed=2"]["time left"] == validated(12, corpus, 6)


def test_steps_are_timed_where_there_is_no_log(corpus, tmp_path, monkeypatch):
    times = np.cumsum([0.0, 30.0, 0.0, 3.0, 0.0, 3.0, 0.0, 3.0, 0.0])
    clock = iter(times)
    monkeypatch.setattr(plan, "time", types.SimpleNamespace(perf_counter=lambda: next(clock)))
    found = rows(plan_table(planned(("new", TINY)), corpus, tmp_path))
    # Twelve steps of three seconds each, and 27 seconds of compilation.
    assert found["new"]["time left"] == validated(36, corpus, 27)
    assert found["new"]["measured on"] == "3 timed steps"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(
    ("there", "said"), [(25e9, "; this machine has 25.0 GB\n"), (1e3, "1 kB, which may be too little")]
)
def test_the_memory_of_the_machine_is_named(out, corpus, monkeypatch, there, said):
    monkeypatch.setattr(plan, "machine_bytes", lambda: there)
    assert said in plan_table(planned(("tiny-seed=2", TINY.override(seed=2))), corpus, out) + "\n"


def test_a_run_with_other_settings_is_named(out, corpus):
    with pytest.raises(
        UserError, match=r"^tiny: .* was started with different settings \(system.backbone.hidden_dim: "
    ):
        plan_table(planned(("tiny", TINY.override(hidden_dim=13))), corpus, out)

"""What a plan says of runs that are done, begun and yet to come; it trains nothing."""

import json
import shutil
import types

import numpy as np
import pytest

from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.runs import step_times
from keras_attn_zoo.runs.preparation import prepare_data
from keras_attn_zoo.runs.search_time import SearchTime, timed_search
from keras_attn_zoo.studies import plan
from keras_attn_zoo.studies.comparison import Run
from keras_attn_zoo.studies.plan import Speed, plan_comparison
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.training.progress import clock_time
from keras_attn_zoo.training.run_log import read_log
from keras_attn_zoo.translators import Translator
from tests.made_runs import table_rows
from tests.tiny_run import TINY


@pytest.fixture
def out(trained, tmp_path):
    """A folder with a run that is done, and one of which half is done.

    Steps take 2 seconds, compilation 7 more; the test text was translated in 6 seconds, and 4 of compilation.
    """
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
    path = tmp_path / "tiny" / "scores.json"
    scores = json.loads(path.read_text())
    scores["test"] |= {"translation_seconds": 10.0, "translation_compilation_seconds": 4.0}
    path.write_text(json.dumps(scores))
    return tmp_path


def rows(table):
    """The rows of a table, by the first cell."""
    heads, *lines = table_rows(table)
    return {cells[0]: dict(zip(heads, cells, strict=True)) for cells in lines}


def tokens(pairs):
    """Target tokens, which are words here, with the end of each sentence."""
    return sum(len(target.split()) + 1 for _, target in pairs)


def scored(pairs, corpus, step):
    """Seconds to score references, a third of those of a step for as many tokens, and twice: also with free running."""
    return 2 / 3 * 6 * step * tokens(pairs) / tokens(corpus.splits.train)


def validated(seconds, corpus, compilation=0):
    """Seconds of steps with their validation: two in an epoch, and each twice, as the decoder also runs freely."""
    words = [sum(len(target.split()) for _, target in pairs) for pairs in (corpus.splits.valid, corpus.splits.train)]
    return compilation + seconds + (words[0] / words[1]) / 3 * 2 * 2 * seconds


def planned(*systems):
    return [Run(name, "tiny", system, {}) for name, system in systems]


def test_times_are_those_of_runs_whose_steps_take_equally_long(out, corpus, monkeypatch):
    monkeypatch.setattr(plan, "_timed", lambda *arguments: Speed(60.0, 0.0, "5 timed steps"))
    monkeypatch.setattr(plan, "timed_search", lambda *arguments: SearchTime(0.5, 3.0, "8 sentences"))
    other = TINY.override(hidden_dim=13, budget="7min", schedule="constant")
    made = plan_comparison(
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
    found = rows(made.table)
    test = corpus.splits.test
    as_before = clock_time(6 + 4 + scored(test, corpus, 2))
    measured = clock_time(0.5 * tokens(test) + 3 + scored(test, corpus, 60))
    columns = ("state", "steps", "training left", "translation left")
    assert {name: [row[key] for key in columns] for name, row in found.items()} == {
        "tiny": ["done", "12 of 12", "0:00", "0:00"],
        "tiny-seed=2": ["begun", "6 of 12", clock_time(validated(12, corpus, 7)), as_before],
        "tiny-learning_rate=0.1": ["to do", "0 of 100", clock_time(validated(200, corpus, 7)), as_before],
        "tiny-hidden_dim=13": ["to do", "0 of 12", clock_time(validated(720, corpus)), measured],
        "tiny-hidden_dim=13-seed=2": ["to do", "0 of 7min", clock_time(validated(420, corpus)), measured],
    }
    log, timed = "the log of tiny-seed=2; the test text of tiny", "5 timed steps; 8 sentences"
    assert [row["measured on"] for row in found.values()] == ["–", log, log, timed, timed]
    translated = 2 * (10 + scored(test, corpus, 2) + 0.5 * tokens(test) + 3 + scored(test, corpus, 60))
    assert made.seconds == pytest.approx(validated(12 + 200 + 720 + 420, corpus, 14) + translated)
    assert f"time left: {clock_time(made.seconds)} in all" in made.table
    assert {path.name for path in out.iterdir()} == {"tiny", "tiny-seed=2", "data"}


def test_a_run_that_was_resumed_says_what_one_process_compiles(out, corpus):
    """Half of the run is done, a round by each of two processes, which compile for 7 and for 5 seconds."""
    log = out / "tiny-seed=2" / "log.jsonl"
    steps = [{**line, "seconds": 2.0, "elapsed_seconds": 100.0} for line in read_log(log) if "shape" in line]
    for place, seconds in ((0, 9.0), (3, 7.0)):
        steps[place] |= {"seconds": seconds, "elapsed_seconds": seconds}
    log.write_text("".join(json.dumps(line) + "\n" for line in steps))
    found = rows(plan_comparison(planned(("tiny-seed=2", TINY.override(seed=2))), corpus, out).table)
    assert found["tiny-seed=2"]["training left"] == clock_time(validated(12, corpus, 6))


def test_steps_are_timed_where_there_is_no_log(corpus, tmp_path, monkeypatch):
    times = np.cumsum([0.0, 30.0, 0.0, 3.0, 0.0, 3.0, 0.0, 3.0, 0.0])
    clock = iter(times)
    monkeypatch.setattr(step_times, "time", types.SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(plan, "timed_search", lambda *arguments: SearchTime(0.5, 3.0, "8 sentences"))
    found = rows(plan_comparison(planned(("new", TINY)), corpus, tmp_path).table)
    # Twelve steps of three seconds each, and 27 seconds of compilation.
    assert found["new"]["training left"] == clock_time(validated(36, corpus, 27))
    assert found["new"]["measured on"] == "3 timed steps; 8 sentences"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_search_is_timed_on_a_batch_of_the_validation_text(corpus, tmp_path, monkeypatch):
    data, seconds, seen = prepare_data(corpus, TINY.data, tmp_path), iter([5.0, 2.0]), []

    def translate(self, text, batch_size, max_length, clock):
        seen.append((len(text.sources), max_length))
        clock.record("a shape", next(seconds))

    monkeypatch.setattr(Translator, "translate", translate)
    found = timed_search(TINY, data)
    # Every second of the 16 sentences, as many as the batch size; half of the text's lengths are 2 and 4 words.
    of_sample = tokens(corpus.splits.valid[::2])
    assert seen == [(8, -(-of_sample // 8) + 1)] * 2
    assert (found.token, found.shape) == pytest.approx((2 / of_sample, 3))


def test_a_search_can_be_timed(corpus, tmp_path):
    found = timed_search(TINY, prepare_data(corpus, TINY.data, tmp_path))
    assert found.token > 0 and found.shape >= 0 and found.measured == "8 sentences"


def test_texts_of_tables_translations_of_validation_and_milestones_count(out, corpus, monkeypatch):
    monkeypatch.setattr(plan, "timed_search", lambda *arguments: SearchTime(0.5, 3.0, "8 sentences"))
    valid = ParallelText(corpus.splits.valid)
    runs = planned(
        ("tiny", TINY), ("tiny-seed=2", TINY.override(seed=2)), ("new", TINY.override(best_by="bleu", bleu_sentences=5))
    )
    more = {"valid-k1": valid, "valid-k6": valid}
    texts = {"tiny": more, "tiny-seed=2": {"test": corpus.test}, "new": more}
    found = rows(plan_comparison(runs, corpus, out, texts, bleu_after=(25, 75, 100)).table)
    per_token = 6 / tokens(corpus.splits.test)
    # Scored, but not on these texts, of which the references are scored once. All batches have the same shape.
    of_valid = tokens(corpus.splits.valid)
    twice = 2 * (per_token * of_valid + 4) + scored(corpus.splits.valid, corpus, 2)
    assert found["tiny"]["state"] == "begun" and found["tiny"]["training left"] == "0:00"
    assert found["tiny"]["translation left"] == clock_time(twice)
    # Half of the run is done, and with it, a quarter.
    own = 6 + 4 + scored(corpus.splits.test, corpus, 2)
    assert found["tiny-seed=2"]["translation left"] == clock_time(own + 2 * 6 + 4)
    # Four rounds are left, and three milestones.
    every = 4 * per_token * tokens(corpus.splits.valid[:5]) + 4 + 3 * 6 + 4
    assert found["new"]["translation left"] == clock_time(own + every + twice)


def left(corpus, out, *systems, **arguments):
    """State, time of training and time of translation of runs."""
    found = rows(plan_comparison(planned(*systems), corpus, out, **arguments).table)
    return [[found[name][key] for key in ("state", "training left", "translation left")] for name, _ in systems]


def test_a_run_that_was_scored_before_it_was_trained_is_not_done(out, corpus):
    shutil.copyfile(out / "tiny" / "scores.json", out / "tiny-seed=2" / "scores.json")
    wanted = ["begun", clock_time(validated(12, corpus, 7)), clock_time(10 + scored(corpus.splits.test, corpus, 2))]
    assert left(corpus, out, ("tiny-seed=2", TINY.override(seed=2))) == [wanted]


def test_a_run_that_ended_early_is_trained(out, corpus):
    with np.load(out / "tiny-seed=2" / "state.npz") as arrays:
        kept = dict(arrays)
    kept["settings"] = np.array(json.dumps({**json.loads(str(kept["settings"])), "ended": True}))
    np.savez(out / "tiny-seed=2" / "state.npz", **kept)
    wanted = ["begun", "0:00", clock_time(10 + scored(corpus.splits.test, corpus, 2))]
    assert left(corpus, out, ("tiny", TINY), ("tiny-seed=2", TINY.override(seed=2)))[1] == wanted


@pytest.mark.parametrize(
    "change", [{"text_checksum": "0"}, {"beams": 7}, {"precision": "bfloat16"}, {"training": 6}, "lost"], ids=str
)
def test_scores_that_are_made_again_are_left(out, corpus, monkeypatch, change):
    """Those of another text, of fewer steps, and lost ones; of another search, they stay, but tell no time."""
    monkeypatch.setattr(plan, "timed_search", lambda *arguments: SearchTime(0.5, 3.0, "8 sentences"))
    path = out / "tiny" / "scores.json"
    scores = json.loads(path.read_text())
    if change == "lost":
        (out / "tiny" / "hypotheses" / "test.txt").unlink()
    elif "training" in change:
        scores["test"]["training"]["steps"] = 6
    else:
        scores["test"] |= change
    path.write_text(json.dumps(scores))
    test = corpus.splits.test
    known = change == "lost" or "training" in change
    time = clock_time((10 if known else 0.5 * tokens(test) + 3) + scored(test, corpus, 2))
    of_other_search = change != "lost" and {"beams", "precision"} & change.keys()
    assert left(corpus, out, ("tiny", TINY), ("new", TINY.override(seed=3))) == [
        ["done", "0:00", "0:00"] if of_other_search else ["begun", "0:00", time],
        ["to do", clock_time(validated(24, corpus, 7)), time],
    ]


def test_what_was_trained_in_bfloat16_is_scored_in_float32(out, corpus, monkeypatch):
    times = {"float32": 2.0, "bfloat16": 1.0}
    monkeypatch.setattr(plan, "_timed", lambda system, *_: Speed(30 * times[system.precision], 0.0, "5 timed steps"))
    monkeypatch.setattr(plan, "timed_search", lambda system, *_: SearchTime(times[system.precision], 0, "8 sentences"))
    test, words = corpus.splits.test, corpus.splits.valid[:5]
    half = TINY.override(hidden_dim=13, precision="bfloat16")
    of_test = 2 * tokens(test) + scored(test, corpus, 60)
    by_bleu = half.override(best_by="bleu", bleu_sentences=5)
    assert left(corpus, out, ("a", half), ("b", by_bleu)) == [
        ["to do", clock_time(validated(12 * 30, corpus)), clock_time(of_test)],
        ["to do", clock_time(validated(12 * 30, corpus)), clock_time(of_test + 4 * tokens(words))],
    ]


@pytest.mark.parametrize(
    ("there", "said"), [(25e9, "; this machine has 25.0 GB\n"), (1e3, "1 kB, which may be too little")]
)
def test_the_memory_of_the_machine_is_named(out, corpus, monkeypatch, there, said):
    monkeypatch.setattr(plan, "machine_bytes", lambda: there)
    assert said in plan_comparison(planned(("tiny-seed=2", TINY.override(seed=2))), corpus, out).table + "\n"


def test_a_run_with_other_settings_is_named(out, corpus):
    with pytest.raises(
        UserError, match=r"^tiny: .* was started with different settings \(system.backbone.hidden_dim: "
    ):
        plan_comparison(planned(("tiny", TINY.override(hidden_dim=13))), corpus, out)

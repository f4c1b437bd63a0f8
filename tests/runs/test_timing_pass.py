"""The timing pass: turns, medians, marks and refusals by fake clocks and a fake load; nothing is timed here."""

import hashlib
import json
import math
import shutil
import types

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.data.sampled_corpus import SampledCorpus
from keras_attn_zoo.runs import timing_pass
from keras_attn_zoo.runs.preparation import training_text_of
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.timing_data import timed_together
from keras_attn_zoo.runs.timing_pass import in_turn, time_runs
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import read_json, write_json
from tests.made_runs import make_timing


@pytest.fixture
def two(trained, tmp_path):
    """Two copies of a trained run."""
    return [RunFolder(shutil.copytree(trained, tmp_path / name)) for name in ("base", "new")]


@pytest.fixture
def load(monkeypatch):
    """What others use before the pass, and during it; memory is not measured."""
    found = types.SimpleNamespace(before=0.0, during=0.0)
    machine = types.SimpleNamespace(of_others=lambda: found.during, own_cores=lambda: 1.5)
    monkeypatch.setattr(timing_pass, "load_of_others", lambda seconds: found.before)
    monkeypatch.setattr(timing_pass, "MachineLoad", lambda: machine)
    monkeypatch.setattr(timing_pass, "_step_bytes", lambda run: {"base": 5_000_000, "new": None}[run.path.name])
    return found


def contents(folder):
    return {path: hashlib.sha256(path.read_bytes()).digest() for path in folder.rglob("*") if path.is_file()}


def weights(translator):
    return [ops.convert_to_numpy(one) for one in translator.trainable_variables]


def test_a_slow_spell_of_the_machine_is_shared(monkeypatch):
    """From second 9 to 30, all takes ten times as long; both lose the same turn, so neither the median."""
    now, order = [0.0], []

    def work(name, seconds):
        def turn():
            slow = 10 if 9 <= now[0] < 30 else 1
            now[0] += slow * seconds
            order.append(name)
            return slow * seconds

        return turn

    found = in_turn({"a": work("a", 1.0), "b": work("b", 2.0)}, 5)
    assert order == ["a", "b"] * 5
    assert found == {"a": [1.0, 1.0, 1.0, 10.0, 1.0], "b": [2.0, 2.0, 2.0, 20.0, 2.0]}


@pytest.mark.every_backend
@pytest.mark.slow_compiled
def test_a_run_stays_as_it_is_and_its_steps_are_real(two, load, monkeypatch):
    before = [contents(run.path) for run in two]
    trained, turns = [], []
    step_seconds, search = timing_pass.step_seconds, timing_pass._translate

    def steps(translator, batches, indices):
        was = weights(translator)
        seconds = step_seconds(translator, batches, indices)
        trained.append(any(not np.array_equal(*pair) for pair in zip(was, weights(translator), strict=True)))
        turns.append((id(translator), [batches.sentences(i).tolist() for i in indices]))
        return seconds

    def translate(translator, text, batch_size):
        turns.append((id(translator), text.sources))
        return search(translator, text, batch_size)

    monkeypatch.setattr(timing_pass, "step_seconds", steps)
    monkeypatch.setattr(timing_pass, "_translate", translate)
    time_runs([run.path for run in two], rounds=2)
    assert trained == [True] * 6
    # One that compiles, and two rounds: of training, then of translation; all of the same sentences.
    for part in (turns[:6], turns[6:]):
        names = [name for name, _ in part]
        assert names == names[:2] * 3 and len({*names}) == 2
        assert all(text == part[0][1] for _, text in part)
    for run, was in zip(two, before, strict=True):
        found = contents(run.path)
        assert found.pop(run.timing) and found == was
    found = [run.read_timing() for run in two]
    assert timed_together(found) and found[0]["systems"] == ["base", "new"]
    assert (found[0]["backend"], found[0]["precision"], found[0]["cores_used"]) == (two[0].backend(), "float32", 1.5)


def test_a_step_is_the_mean_over_an_epoch_of_the_medians_of_shapes(two, load, monkeypatch):
    """A step takes as many seconds as its source is wide, the first of a call 99, and all ten times in one round.

    The share of a shape is that of its batches of 16, counted here from the lengths of the sentences.
    """
    for run in two:
        config = read_json(run.config)
        config["system"]["data"]["bucket_count"] = 2
        write_json(run.config, config)
    calls = []

    def steps(translator, batches, indices):
        # The first two calls compile; of six further ones, the second round is slow.
        calls.append(translator)
        slow = 10.0 if len(calls) in (5, 6) else 1.0
        return [99.0, *(slow * batches.bound(i)[0] for i in indices[1:])]

    clock = iter(np.cumsum([0.0, *[9.0, 1.0, 9.0, 1.0], *[3.0, 0.0, 4.0, 0.0] * 3]))
    monkeypatch.setattr(timing_pass, "step_seconds", steps)
    monkeypatch.setattr(timing_pass, "time", types.SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(timing_pass, "_SENTENCES", 4)
    time_runs([run.path for run in two], rounds=3)
    one, other = (run.read_timing() for run in two)
    bounds = sorted(tuple(map(int, shape.split("x"))) for shape in one["shapes"])
    text = training_text_of(two[0])
    pairs = list(zip(text.source_lengths + 1, text.target_lengths + 1, strict=True))
    small = sum(s <= bounds[0][0] and t <= bounds[0][1] for s, t in pairs)
    counts = [math.ceil(small / 16), math.ceil((len(pairs) - small) / 16)]
    step = sum(count * shape[0] for count, shape in zip(counts, bounds, strict=True)) / sum(counts)
    assert len(bounds) == 2 and one["step_seconds"] == pytest.approx(step)
    assert [one["shapes"][f"{s}x{t}"]["share"] for s, t in bounds] == pytest.approx(np.divide(counts, sum(counts)))
    tokens = sum(target for _, target in pairs)
    assert one["tokens_per_second"] == pytest.approx(tokens / (sum(counts) * step))
    assert (one["translation_seconds"], other["translation_seconds"]) == pytest.approx((3.0, 4.0))
    assert (one["sentences"], one["test_sentences"]) == (4, 6)
    assert (one["step_bytes"], other["step_bytes"]) == (5_000_000, None)


@pytest.mark.slow
def test_batches_twice_as_large_need_twice_the_memory(two):
    """Weights are small beside them."""
    found = []
    for run, sentences in zip(two, (2_000, 4_000), strict=True):
        config = read_json(run.config)
        config["system"]["data"]["sentences_per_batch"] = sentences
        write_json(run.config, config)
        found.append(timing_pass._step_bytes(run))
    assert found[1] / found[0] == pytest.approx(2, rel=0.1)


def test_a_busy_machine_is_refused_before_anything_is_loaded(two, load, monkeypatch):
    load.before = 0.31
    monkeypatch.setattr(timing_pass, "load_translator", None)
    with pytest.raises(UserError, match="other processes use 31% of this machine's processors") as refused:
        time_runs([run.path for run in two])
    assert "anyway=True" in str(refused.value) and "--anyway" in refused.value.for_shell
    assert not any(run.timing.exists() for run in two)


@pytest.mark.parametrize(
    ("before", "during", "anyway", "marked"),
    [(0.31, 0.0, True, True), (0.01, 0.31, False, True), (0.01, 0.02, True, False)],
)
def test_what_was_timed_beside_other_work_is_marked(two, load, before, during, anyway, marked, caplog):
    load.before, load.during = before, during
    time_runs([two[0].path], rounds=1, anyway=anyway)
    found = two[0].read_timing()
    assert (found["used_by_others"], found["beside_other_work"]) == (max(before, during), marked)
    assert ("the figures are marked" in caplog.text) == marked


def test_runs_that_cannot_be_timed_together_are_refused(two, load, monkeypatch):
    monkeypatch.setattr(timing_pass, "load_translator", None)
    folders = [run.path for run in two]
    with pytest.raises(UserError, match="given twice"):
        time_runs([folders[0]] * 2)
    two[1].test.write_text("rot haus\thouse red\n")
    with pytest.raises(UserError, match="new and base have different test texts"):
        time_runs(folders)
    shutil.copy(two[0].test, two[1].test)
    shutil.rmtree(two[1].path / "data")
    with pytest.raises(UserError, match=r"new has no encoded training text, .* repeat the command"):
        time_runs(folders)
    # In a comparison, it lies beside the runs.
    shutil.move(folders[0] / "data", folders[0].parent / "data")
    assert np.array_equal(training_text_of(two[0]).source_ids, training_text_of(two[1]).source_ids)


def test_the_segmentations_that_an_epoch_draws_of_are_those_of_the_run(two, monkeypatch):
    opened = []
    config = read_json(two[0].config)
    config["system"]["data"] |= {"model_type": "unigram", "vocabulary_size": 99, "subword_sampling_nbest": 5}
    write_json(two[0].config, config)
    monkeypatch.setattr(SampledCorpus, "__init__", lambda self, folder, corpus, alpha: opened.append((folder, alpha)))
    assert isinstance(training_text_of(two[0]), SampledCorpus)
    assert opened == [(two[0].path / "data" / two[0].corpus()["fingerprint"] / "train-12-best-5", 0.1)]


@pytest.mark.parametrize(
    "change", [{"step_seconds": "1"}, {"systems": [1]}, {"sentences": 0}, {"beside_other_work": 0}, None]
)
def test_a_damaged_timing_is_refused(two, load, change):
    run = make_timing(two[0])
    assert run.read_timing()["step_seconds"] == 2.0
    run.timing.write_text(json.dumps({**read_json(run.timing), **change}) if change else "[]")
    with pytest.raises(UserError, match=r"timing\.json is damaged"):
        run.read_timing()

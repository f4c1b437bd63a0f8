"""The precision of a run: given or chosen, kept, resumed, scored."""

import json
import logging
import shutil

import numpy as np
import pytest

from keras_attn_zoo.data.subwords import Subwords
from keras_attn_zoo.runs import precision
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.precision import policy, resolve
from keras_attn_zoo.runs.preparation import build_translator
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.scoring import score_run
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.studies.table import read_results, results_table
from keras_attn_zoo.support.errors import UserError
from tests.tiny_run import TINY


@pytest.fixture
def machine(monkeypatch):
    """A function that lets the choice believe in another machine: a CPU, and whether it multiplies bfloat16 faster."""

    def set_up(cpu, multiplies=False):
        monkeypatch.setattr(precision, "on_cpu", lambda: cpu)
        monkeypatch.setattr(precision, "is_faster_in_bfloat16", lambda: multiplies)

    return set_up


@pytest.mark.parametrize(
    ("cpu", "multiplies", "chosen"),
    [(False, False, "bfloat16"), (True, False, "float32"), (True, True, "bfloat16")],
)
def test_auto_is_what_is_faster_and_says_so_in_one_line(machine, trained, caplog, cpu, multiplies, chosen):
    machine(cpu, multiplies)
    caplog.set_level(logging.INFO, "keras_attn_zoo")
    assert resolve("auto") == chosen
    (line,) = caplog.messages
    assert line.startswith(f"computing in {chosen}: ") and "\n" not in line
    assert policy("auto") == {"float32": "float32", "bfloat16": "mixed_bfloat16"}[chosen]
    assert [resolve(given) for given in ("float32", "bfloat16")] == ["float32", "bfloat16"]
    assert len(caplog.messages) == 1
    assert load_translator(trained, precision="auto").compute_dtype == chosen


@pytest.fixture(scope="module")
def in_bfloat16(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bfloat16") / "run"
    train_system(TINY.override(precision="bfloat16", epochs=1), corpus, folder)
    return folder


def test_a_run_keeps_its_precision(in_bfloat16, corpus, tmp_path, machine):
    assert json.loads((in_bfloat16 / "config.json").read_text())["system"]["precision"] == "bfloat16"
    folder = shutil.copytree(in_bfloat16, tmp_path / "run")
    system = TINY.override(epochs=1)
    with pytest.raises(
        UserError, match=r"different settings \(system.precision: '\w+', now '\w+'\): resume with the same ones"
    ):
        train_system(system, corpus, folder, resume=True)
    # Whatever this machine is, the run's own.
    machine(cpu=True)
    assert train_system(system.override(precision="auto"), corpus, folder, resume=True).path == folder
    # The same weights, in the precision that was asked for.
    plain, mixed = load_translator(folder), load_translator(folder, precision="bfloat16")
    assert (plain.compute_dtype, mixed.compute_dtype) == ("float32", "bfloat16")
    for one, other in zip(plain.weights, mixed.weights, strict=True):
        assert one.dtype == other.dtype and np.array_equal(one.numpy(), other.numpy())


def test_what_auto_became_stands_in_the_folder(corpus, tmp_path, machine, monkeypatch):
    class TrainedLongEnough(Exception):
        pass

    def stop(self, system, *_):
        raise TrainedLongEnough(system.precision)

    monkeypatch.setattr(RunFolder, "create", stop)
    machine(cpu=False)
    with pytest.raises(TrainedLongEnough, match=r"^bfloat16$"):
        train_system(TINY.override(precision="auto"), corpus, tmp_path / "run")


def test_a_run_of_an_earlier_version_is_in_float32(run, corpus):
    config = json.loads(run.config.read_text())
    del config["system"]["precision"]
    run.config.write_text(json.dumps(config))
    assert run.system() == TINY
    for given in ("float32", "auto"):
        train_system(TINY.override(precision=given), corpus, run.path, resume=True)
    with pytest.raises(UserError, match=r"system\.precision"):
        train_system(TINY.override(precision="bfloat16"), corpus, run.path, resume=True)


def test_scores_say_what_they_were_computed_in(in_bfloat16, corpus, tmp_path):
    folder = shutil.copytree(in_bfloat16, tmp_path / "run")
    scores = score_run(folder, load_translator(folder), corpus.test)
    assert (scores["precision"], scores["training"]["precision"]) == ("float32", "bfloat16")
    *_, line = (line for line in results_table(read_results([folder])).notes if line.startswith("search"))
    assert line.endswith(", in bfloat16") and line.count("bfloat16") == 1
    score_run(folder, load_translator(folder, precision="bfloat16"), corpus.test)
    *_, line = (line for line in results_table(read_results([folder])).notes if line.startswith("search"))
    assert line.count("bfloat16") == 2


def test_a_translator_is_built_in_the_precision_of_its_system(trained, corpus):
    subwords = [Subwords(path) for path in sorted((trained / "data").glob("*/*.spm"))]
    for name, dtype in {"float32": "float32", "bfloat16": "bfloat16"}.items():
        task = build_translator(TINY.override(precision=name), subwords, 12)
        assert task.compute_dtype == dtype and {weight.dtype for weight in task.trainable_weights} == {"float32"}

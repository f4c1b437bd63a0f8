"""Presets and runs that an earlier version saved load with their weights, and give the same translations."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.translators import Translator
from tests import tiny, tiny_run

pytestmark = pytest.mark.one_backend

ARCHIVE = Path(__file__).parent / "saved.zip"
with zipfile.ZipFile(ARCHIVE) as _archive:
    PRESETS = sorted({name.split("/")[1] for name in _archive.namelist() if name.count("/") > 1 and "presets" in name})


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.parametrize("name", PRESETS)
def test_presets_translate_as_they_did(saved, name):
    preset = saved / "presets" / name
    task = Translator.from_preset(str(preset))
    wanted = json.loads(preset.with_suffix(".json").read_text(encoding="utf-8"))
    for here, there in zip(tiny.hypotheses(task, tiny.sentences("source")[:4]), wanted, strict=True):
        assert [text for text, *_ in here] == [text for text, *_ in there]
        np.testing.assert_allclose([one[1:] for one in here], [one[1:] for one in there], rtol=0, atol=1e-4)


def test_a_finished_run_translates_as_it_did(saved):
    run = RunFolder(saved / "runs" / "rnn")
    task = load_translator(run.path)
    found = [best[0].text for best in task.translate([source for source, _ in tiny_run.make_pairs(6, 400)])]
    assert found == run.hypotheses("test").read_text(encoding="utf-8").splitlines()
    assert any(found)


def test_an_interrupted_run_resumes(saved, tmp_path):
    folder = shutil.copytree(saved / "runs" / "transformer", tmp_path / "run")
    run = RunFolder(folder)
    train_system(run.system(), tiny_run.make_corpus(), folder, resume=True)
    log = [json.loads(line) for line in run.log.read_text(encoding="utf-8").splitlines()]
    assert [line["round"] for line in log if "round" in line] == [1, 2, 3, 4]

"""Presets and runs that an earlier version saved load with their weights, and give the same translations."""

import json
import shutil

import pytest

from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.training import train_system
from tests import tiny_run
from tests.earlier import archive

pytestmark = pytest.mark.one_backend


@pytest.mark.parametrize("name", archive.presets())
def test_presets_translate_as_they_did(name):
    archive.check_translations(archive.load(name), name)


def test_a_finished_run_translates_as_it_did():
    run = RunFolder(archive.folder() / "runs" / "rnn")
    task = load_translator(run.path)
    found = [best[0].text for best in task.translate([source for source, _ in tiny_run.make_pairs(6, 400)])]
    assert found == run.hypotheses("test").read_text(encoding="utf-8").splitlines()
    assert any(found)


def test_an_interrupted_run_resumes(tmp_path):
    folder = shutil.copytree(archive.folder() / "runs" / "transformer", tmp_path / "run")
    run = RunFolder(folder)
    train_system(run.system(), tiny_run.make_corpus(), folder, resume=True)
    log = [json.loads(line) for line in run.log.read_text(encoding="utf-8").splitlines()]
    assert [line["round"] for line in log if "round" in line] == [1, 2, 3, 4]

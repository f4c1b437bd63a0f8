"""A run folder that a test may change."""

import shutil

import pytest

from keras_attn_zoo.runs.run_folder import RunFolder


@pytest.fixture
def run(trained, tmp_path):
    """A copy of a trained run."""
    return RunFolder(shutil.copytree(trained, tmp_path / "run"))

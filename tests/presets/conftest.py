"""Fixtures of several tests of presets."""

import shutil

import pytest

from keras_attn_zoo.support.checksums import CHECKSUMS
from tests import tiny
from tests.presets.preset_server import saved, server

__all__ = ["saved", "server"]


@pytest.fixture(scope="module")
def plain_preset(tmp_path_factory):
    """A preset as `save_to_preset` writes it; tests change copies of it."""
    folder = tmp_path_factory.mktemp("saved") / "preset"
    tiny.translator().save_to_preset(folder)
    return folder


@pytest.fixture
def unsummed(plain_preset, tmp_path):
    """A copy of it from before there were checksums."""
    copy = shutil.copytree(plain_preset, tmp_path / "preset")
    (copy / CHECKSUMS).unlink()
    return copy

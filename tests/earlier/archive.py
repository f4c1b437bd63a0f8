"""Presets and runs that an earlier version saved, with what they gave."""

import functools
import json
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from keras_attn_zoo.translators import Translator
from tests import tiny

ARCHIVE = Path(__file__).parent / "saved.zip"


@functools.cache
def presets():
    """Their names."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        parts = [Path(name).parts for name in archive.namelist()]
    return [Path(name[1]).stem for name in parts if name[0] == "presets" and len(name) == 2]


@functools.cache
def _unpacked():
    folder = tempfile.TemporaryDirectory()
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder.name)
    return folder


def folder():
    """Where they are unpacked, until the process ends."""
    return Path(_unpacked().name)


def load(name):
    """The translator of a preset."""
    return Translator.from_preset(str(folder() / "presets" / name))


def check_translations(task, name):
    """A translator gives what that of a preset gave: of PyTorch."""
    wanted = json.loads((folder() / "presets" / f"{name}.json").read_text(encoding="utf-8"))
    for here, there in zip(tiny.hypotheses(task, tiny.sentences("source")[:4]), wanted, strict=True):
        assert [text for text, *_ in here] == [text for text, *_ in there]
        np.testing.assert_allclose([one[1:] for one in here], [one[1:] for one in there], rtol=0, atol=1e-4)

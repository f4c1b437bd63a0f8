"""Translators that keep their programs, as another process would load them."""

import keras
import pytest

from tests import tiny

TEXTS, TARGETS = tiny.sentences("source")[:3], tiny.sentences("target")[:3]
under_jax = pytest.mark.skipif(keras.config.backend() != "jax", reason="programs of JAX")


def kept(folder, **kwargs):
    """A translator that keeps them."""
    task = tiny.translator(**{"body": tiny.transformer, **kwargs})
    task.keep_programs(folder)
    return task


def files(folder):
    """The contents of files by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}

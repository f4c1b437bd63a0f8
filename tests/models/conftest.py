"""Fixtures of several tests of models."""

import pytest

from keras_attn_zoo.models import text_methods
from tests import tiny
from tests.models.preset_server import saved, server

__all__ = ["saved", "server"]


@pytest.fixture(scope="module")
def plain_preset(tmp_path_factory):
    """A preset as `save_to_preset` writes it; tests change copies of it."""
    folder = tmp_path_factory.mktemp("saved") / "preset"
    tiny.translator().save_to_preset(folder)
    return folder


@pytest.fixture
def traced(monkeypatch):
    """A list with an entry for every search that is traced."""
    search, calls = text_methods.search, []

    def counted(*args, **kwargs):
        calls.append(args)
        return search(*args, **kwargs)

    monkeypatch.setattr(text_methods, "search", counted)
    return calls

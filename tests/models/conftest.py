"""Fixtures of several tests of models."""

from tests.models.preset_server import saved, server

__all__ = ["saved", "server"]

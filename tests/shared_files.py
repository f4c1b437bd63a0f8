"""Files that are made once, for the tests of all backends and processes of a run."""

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import keras
import pytest

from tests.__main__ import SHARED_FILES

OTHER_BACKEND = {"jax": "torch", "tensorflow": "jax", "torch": "jax"}


@functools.cache
def _of_this_process():
    """A folder that goes when the process ends."""
    return tempfile.TemporaryDirectory()


def made_once(name, make):
    """Return a folder that `make` has filled, now or for another test."""
    root = Path(os.environ.get(SHARED_FILES) or _of_this_process().name)
    folder = root / name
    if not folder.exists():
        begun = Path(tempfile.mkdtemp(dir=root))
        make(begun)
        try:
            begun.rename(folder)
        except OSError:
            # Another process was quicker.
            shutil.rmtree(begun)
    return folder


def of_another_backend(module, function):
    """Return a folder that a function has filled under another backend; it takes the folder."""
    backend = OTHER_BACKEND[keras.config.backend()]
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"needs {backend}")

    def make(folder):
        script = f"import tests.conftest, sys; from {module} import {function}; {function}(sys.argv[1])"
        environment = {**os.environ, "KERAS_BACKEND": backend}
        subprocess.run([sys.executable, "-c", script, folder], check=True, env=environment)

    return made_once(f"{function}-{backend}", make)

"""Where a run was trained: versions, backend and machine."""

import importlib.metadata
import platform
import sys
from typing import Any

_PACKAGES = [
    *("keras-attn-zoo", "keras", "keras-hub", "jax", "jaxlib", "tensorflow"),
    *("torch", "numpy", "sentencepiece", "sacrebleu", "matplotlib"),
]


def environment() -> dict[str, Any]:
    """Return versions, backend and machine, as plain data."""
    import keras

    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "backend": keras.config.backend(),
        "packages": versions,
        "command": sys.argv,
    }

"""Import paths of version 0.1, which lead to the modules of today."""

import importlib
import importlib.abc
import importlib.machinery
import types
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PACKAGE = "keras_attn_zoo"
_TABLE = Path(__file__).with_suffix(".txt")


def read_table() -> dict[str, list[str]]:
    """Return where the contents of each earlier module are now, by its full name.

    Example:
        >>> read_table()["keras_attn_zoo.models.translator"]
        ['keras_attn_zoo.translators.translator']
    """
    lines = [line for line in _TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    pairs = (line.split(": ") for line in lines)
    return {f"{_PACKAGE}.{old}": [f"{_PACKAGE}.{one}" for one in new.split()] for old, new in pairs}


class EarlierNames(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Find modules under their earlier names, with a `DeprecationWarning` that says the new one.

    A module is found as itself, so that its classes are the same under both names. A package becomes an empty one that
    looks names up in the packages of today.

    Example:
        >>> EarlierNames().find_spec("keras_attn_zoo.models").name
        'keras_attn_zoo.models'
    """

    def __init__(self) -> None:
        self._table = read_table()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the specification of an earlier module; None of any other."""
        if name not in self._table:
            return None
        is_package = any(other.startswith(f"{name}.") for other in self._table)
        return importlib.machinery.ModuleSpec(name, self, is_package=is_package)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        """Return the module of today, or an empty package."""
        homes = self._table[spec.name]
        warnings.warn(f"{spec.name} is now {' and '.join(homes)}.", DeprecationWarning, stacklevel=2)
        if spec.submodule_search_locations is not None:
            return None
        module = importlib.import_module(homes[0])
        # The import system replaces the specification of whatever it is given.
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Give a module its own specification back; have a package look its names up."""
        spec = module.__spec__
        assert spec is not None
        if spec.submodule_search_locations is None:
            module.__spec__ = spec.loader_state
            return
        # As before, whoever imports a package registers its classes with Keras.
        homes = [importlib.import_module(home) for home in self._table[spec.name]]

        def find(name: str) -> Any:
            # Others, `inspect` among them, ask every module for names such as `__file__`.
            for home in () if name.startswith("__") else homes:
                if hasattr(home, name):
                    return getattr(home, name)
            raise AttributeError(f"module {spec.name!r} has no attribute {name!r}")

        module.__getattr__ = find  # type: ignore[method-assign]

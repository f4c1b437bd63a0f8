"""Programs of JAX as they were traced, kept in a folder: another process need not call the model's layers for them.

JAX's compile cache keeps what a program was compiled to, and finds it by what was traced. Tracing a search takes longer
than loading the compiled one.
"""

import contextlib
import hashlib
import importlib.util
import os
import platform
import re
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np

import keras_attn_zoo
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.files import open_output
from keras_attn_zoo.processor import flags, is_jax_on_cpu, processor_name

# Of 100 KB each, for a model of three layers.
MOST_KEPT = 500
_ENDING = ".traced"
# Code whose changes are noticed: by its version, and ours by its files.
_KNOWN = {"keras", "keras_hub", "keras_attn_zoo"}
# With these, JAX does more than run a program.
_DEBUGGING = ("jax_debug_nans", "jax_debug_infs", "jax_disable_jit", "jax_check_tracer_leaks")
_NUMBER = re.compile(r"_\d+(?=/|$)")
_DIGEST = hashlib.sha256().digest_size


class ProgramCache:
    """The traced programs of a model in a folder, each found by all that it depends on.

    These are: what the program is called among those of the model, with its settings; the backbone's configuration; the
    variables, by name, shape and type, but not their values; the shapes and types of the arguments; this package's
    files; the versions of Keras, KerasHub, JAX, NumPy and Python; their settings; and the processor. A file that is
    damaged counts as none, and those used least recently are removed.

    A model with layers from elsewhere has none. A method or an attribute that was replaced in a layer goes unnoticed.

    Args:
        folder: the folder; it is created when there is something to keep.
        model: a translator.
    """

    def __init__(self, folder: Path, model: keras.Model) -> None:
        self._folder, self._model = folder, model
        self._surroundings = _surroundings()

    def keep(self, key: Hashable, program: Callable) -> Callable:
        """Return a jitted function as one that is traced only for shapes for which there is no file.

        Args:
            key: tells the function from others of the model: None, numbers, strings, samplers, and tuples of them.
            program: what `jax.jit` has returned.
        """
        identity = self._identity(key)
        if identity is None:
            return program
        known: dict[Hashable, Callable] = {}

        def run(*arguments: Any) -> Any:
            signature = _signature(arguments)
            if signature not in known:
                name = hashlib.sha256(repr((identity, signature)).encode()).hexdigest()
                known[signature] = _found(self._folder / f"{name}{_ENDING}", program, arguments)
            return known[signature](*arguments)

        return run

    def _identity(self, key):
        """What a program depends on, besides its arguments; None if that cannot be told."""
        name = _name(key)
        if self._surroundings is None or name is None or not all(map(_is_known, self._model._flatten_layers())):
            return None
        backbone = self._model.backbone
        config = {**backbone.get_config(), "name": type(backbone).__qualname__}
        # Keras numbers the layers of a process.
        variables = [(_NUMBER.sub("", one.path), one.trainable) for one in self._model.variables]
        return name, config, variables, self._surroundings


def _is_known(thing):
    return type(thing).__module__.partition(".")[0] in _KNOWN


def _name(key):
    """A key as text that is the same in every process; None if there is none."""
    if isinstance(key, keras_hub.samplers.Sampler):
        return type(key).__qualname__ if _is_known(key) else None
    if isinstance(key, np.integer):
        return repr(int(key))
    if isinstance(key, tuple):
        names = [_name(one) for one in key]
        return None if None in names else f"({', '.join(names)})"
    return repr(key) if key is None or isinstance(key, (bool, int, float, str)) else None


def _surroundings():
    """What every trace depends on besides its model; None where programs are not kept."""
    if not is_jax_on_cpu() or importlib.util.find_spec("flatbuffers") is None:
        return None
    import jax
    import jaxlib

    settings = jax.config.values
    if any(settings.get(name) for name in _DEBUGGING):
        return None
    libraries = (keras, keras_hub, jax, jaxlib, np)
    # Of what is being worked on, the version says too little.
    if not all({"site-packages", "dist-packages"}.intersection(Path(one.__file__).parts) for one in libraries):
        return None
    ours = Path(keras_attn_zoo.__file__).parent
    files = [(str(path.relative_to(ours)), path.stat()) for path in sorted(ours.rglob("*.py"))]
    keras_settings = ("floatx", "epsilon", "image_data_format", "is_flash_attention_enabled", "is_nnx_enabled")
    return (
        [(name, found.st_size, found.st_mtime_ns) for name, found in files],
        [one.__version__ for one in libraries],
        platform.python_version(),
        [getattr(keras.config, name)() for name in keras_settings if hasattr(keras.config, name)],
        sorted((name, repr(value)) for name, value in settings.items()),
        (processor_name(), flags(), os.cpu_count()),
    )


def _signature(arguments):
    """Structure, shapes and types of arguments."""
    import jax

    leaves, structure = jax.tree.flatten(arguments)
    return structure, tuple((x.shape, x.dtype, x.weak_type) for x in leaves)


def _found(path, program, arguments):
    """The program of a file; if there is none, the file is written."""
    import jax
    from jax import export

    exported = _read(path)
    if exported is None:
        try:
            exported = export.export(program)(*arguments)
            data = bytes(exported.serialize())
        except Exception:
            # What cannot be exported; an error in the model itself appears again.
            return program
        _write(path, data)
    return jax.jit(exported.call)


def _read(path):
    from jax import export

    try:
        data = path.read_bytes()
        # What is used stays.
        os.utime(path)
    except OSError:
        return None
    if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        return None
    return export.deserialize(bytearray(data[_DIGEST:]))


def _write(path, data):
    """Write a file, and remove those used least recently; without either where that fails."""
    with contextlib.suppress(OSError, UserError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_output(path) as file:
            file.write(hashlib.sha256(data).digest() + data)
        last_used = {one: one.stat().st_mtime_ns for one in path.parent.glob(f"*{_ENDING}")}
        for old in sorted(last_used, key=last_used.__getitem__)[:-MOST_KEPT]:
            old.unlink()

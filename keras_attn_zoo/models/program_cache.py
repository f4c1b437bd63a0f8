"""Programs of JAX as they were traced, kept in a folder: another process need not call the model's layers for them.

JAX finds a compiled program by its trace, so that each process has to trace first, which takes longer than to load the
program.
"""

import contextlib
import hashlib
import importlib.util
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np

import keras_attn_zoo
from keras_attn_zoo.caches import who_else_writes
from keras_attn_zoo.processor import flags, is_amd, is_intel, is_jax_on_cpu

# Of 100 KB each, for a model of three layers.
MOST_KEPT = 500
# Code whose changes are noticed: by its version, and ours by its files.
_KNOWN = {"keras", "keras_hub", "keras_attn_zoo"}
_RELEASES = {"site-packages", "dist-packages"}
# With these, JAX does more than run a program.
_DEBUGGING = ("jax_debug_nans", "jax_debug_infs", "jax_disable_jit")
_KERAS_SETTINGS = ("floatx", "epsilon", "image_data_format", "is_flash_attention_enabled", "is_nnx_enabled")
# Keras gives instances their own; neither is called in a trace.
_WRAPPED = {"build", "quantize"}
_NUMBER = re.compile(r"_\d+(?=/|$)")
_FILE = re.compile(r"[0-9a-f]{64}\.traced")
_UNFINISHED = ".unfinished"
_SECONDS_TO_WRITE = 3600
_DIGEST = hashlib.sha256().digest_size


class ProgramCache:
    """The traced programs of a translator in a folder, each found by all that it depends on.

    These are: what the program is called among those of the model, with its settings; the backbone's configuration, and
    the public attributes of its layers that are numbers, text or functions; the variables, by name, shape and type, but
    not their values; the shapes and types of the arguments; the contents of this package's files; the versions of
    Keras, KerasHub and JAX, and their settings at the time of the call; and the processor. A file that is damaged
    counts as none, and those used least recently are removed.

    Nothing is kept of a model with layers from elsewhere; where several devices are used; with working copies of Keras
    or JAX; once a file of this package is other than when it was imported; or as JAX looks for faults. A folder that
    somebody else may write to is not used: what is read there is run, see `caches.who_else_writes`.

    Args:
        folder: the folder; it is created when there is something to keep.
        model: the translator.
    """

    def __init__(self, folder: Path, model: keras.Model) -> None:
        self._folder, self._model = folder.absolute(), model
        self._surroundings = _surroundings()

    def keep(self, key: Hashable, program: Callable) -> Callable:
        """Return a jitted function of a state and inputs as one that is traced only where there is no file.

        Args:
            key: tells the function from others of the model: None, numbers, strings, samplers, and tuples of them.
            program: what `jax.jit` has returned.
        """
        name = _name(key)
        if self._surroundings is None or name is None:
            return program
        known: dict[Hashable, Callable] = {}

        def run(state: Any, *inputs: Any) -> Any:
            if (settings := _settings()) is None:
                return program(state, *inputs)
            called = _shapes(state)[0], *_shapes(inputs), settings
            if called not in known:
                identity = name, _description(self._model), *_shapes((state, *inputs)), settings, self._surroundings
                path = self._folder / f"{hashlib.sha256(repr(identity).encode()).hexdigest()}.traced"
                ours = all(map(_is_ours, self._model._flatten_layers()))
                known[called] = _found(path, program, (state, *inputs)) if ours else program
            return known[called](state, *inputs)

        return run


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


def _is_known(thing):
    """Whether a class, a function or an object is from known code."""
    return str(thing.__module__).partition(".")[0] in _KNOWN


def _is_ours(layer):
    """Whether a layer is from known code, and so are its functions."""
    return _is_known(layer) and all(map(_is_known, _functions(layer).values()))


def _functions(layer):
    """What a layer may call that is not a layer, by name: an activation, a method that was replaced."""
    return {
        name: value
        for name, value in vars(layer).items()
        if not name.startswith("_") and name not in _WRAPPED and callable(value) and not isinstance(value, keras.Layer)
    }


def _description(model):
    """What layers read of a translator besides the values of its variables."""
    backbone = model.backbone
    # Keras numbers the layers of a process.
    config = {**backbone.get_config(), "name": type(backbone).__qualname__}
    variables = [_NUMBER.sub("", one.path) for one in model.variables]
    return config, [_attributes(layer) for layer in backbone._flatten_layers()], variables


def _attributes(layer):
    """Attributes of a layer that are numbers, text or functions, or say how it is quantized."""
    plain = (bool, int, float, str, tuple, np.generic, type(None))
    described = (keras.DTypePolicy, keras.quantizers.Quantizer)
    found = {name: value for name, value in vars(layer).items() if not name.startswith("_") and name != "name"}
    functions = [
        (name, value.__module__, getattr(value, "__qualname__", type(value).__qualname__))
        for name, value in sorted(_functions(layer).items())
    ]
    return functions, sorted(
        (name, repr(value.get_config() if isinstance(value, described) else value))
        for name, value in {**found, "dtype_policy": layer.dtype_policy}.items()
        if isinstance(value, (*plain, *described))
    )


def _shapes(arguments):
    """Structure, shapes and types of arguments."""
    import jax

    leaves, structure = jax.tree.flatten(arguments)
    return structure, tuple((x.shape, x.dtype) for x in leaves)


def _settings():
    """Settings of JAX and Keras as they are now; None where nothing is kept."""
    import jax

    values = jax.config.values
    if any(values.get(name) for name in _DEBUGGING):
        return None
    # Folders and limits of JAX's own cache change no trace.
    of_jax = (f"{name}={value}" for name, value in values.items() if "cache" not in name)
    of_keras = (str(getattr(keras.config, name)()) for name in _KERAS_SETTINGS if hasattr(keras.config, name))
    return (*of_jax, *of_keras)


def _surroundings():
    """What does not change while a process runs; None where programs are not kept."""
    if not is_jax_on_cpu() or importlib.util.find_spec("flatbuffers") is None:
        return None
    import jax

    libraries = (keras, keras_hub, jax)
    # Of what is being worked on, the version says too little.
    if not all(_RELEASES.intersection(Path(one.__file__).parts) for one in libraries):
        return None
    contents = hashlib.sha256()
    with contextlib.suppress(OSError):
        for path in _files():
            contents.update(hashlib.sha256(path.read_bytes()).digest())
        return contents.hexdigest(), [one.__version__ for one in libraries], (is_intel(), is_amd(), flags())
    return None


def _files():
    return sorted(Path(keras_attn_zoo.__file__).parent.rglob("*.py"))


def _state_of_files():
    """Tells whether a file was changed."""
    with contextlib.suppress(OSError):
        return [(path, found.st_size, found.st_mtime_ns) for path in _files() for found in [path.stat()]]


_IMPORTED = _state_of_files()


def _found(path, program, arguments):
    """The program of a file; if there is none, the file is written."""
    import jax
    from jax import export

    on_several_devices = any(len(x.devices()) > 1 for x in jax.tree.leaves(arguments))
    if on_several_devices or _state_of_files() != _IMPORTED or who_else_writes(path.parent):
        return program
    exported = _read(path)
    if exported is None:
        # Here, so that an error in the model is its own.
        program.trace(*arguments)
        try:
            exported = export.export(program)(*arguments)
            data = bytes(exported.serialize())
        except Exception:
            # Not everything can be exported.
            return program
        _write(path, data)
    return jax.jit(exported.call)


def _read(path):
    from jax import export

    try:
        if path.is_symlink() or not path.is_file():
            return None
        data = path.read_bytes()
        if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
            return None
        exported = export.deserialize(bytearray(data[_DIGEST:]))
    except Exception:
        # What cannot be read, for whatever reason, is traced again.
        return None
    with contextlib.suppress(OSError):
        # What is used stays.
        os.utime(path)
    return exported


def _write(path, data):
    """Write a file, and remove those used least recently; without either where that fails."""
    # Not by `files.open_output`, which writes to what a link or a pipe of this name leads to.
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=_UNFINISHED, delete=False) as file:
            try:
                file.write(hashlib.sha256(data).digest() + data)
                file.close()
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
        _remove(path.parent)


def _remove(folder):
    kept = _used_last(path for path in folder.iterdir() if _FILE.fullmatch(path.name))
    left = _used_last(folder.glob(f"tmp*{_UNFINISHED}"))
    killed = [path for path, used in left.items() if time.time() - used / 1e9 > _SECONDS_TO_WRITE]
    for path in [*sorted(kept, key=kept.__getitem__)[:-MOST_KEPT], *killed]:
        with contextlib.suppress(OSError):
            path.unlink()


def _used_last(paths: Iterable[Path]) -> dict[Path, int]:
    """When each of them that is a file was used last."""
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found[path] = status.st_mtime_ns
    return found

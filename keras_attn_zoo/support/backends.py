"""The choice of the command line's backend, made before Keras is imported."""

import contextlib
import ctypes
import importlib.util
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

from keras_attn_zoo.support import caches
from keras_attn_zoo.support.compat import without_dynamo
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import shown

# What a command spends its time on, and the backends in the order of their speed at it on a CPU, see
# docs/reference/speed.md.
FASTEST = {
    "training": ("jax", "tensorflow", "torch"),
    "search": ("jax", "tensorflow", "torch"),
    # Two backends compile, which takes longer than the steps.
    "few steps": ("torch", "tensorflow", "jax"),
}
BACKENDS = tuple(sorted(FASTEST["search"]))
# glibc's options, by its numbers: how many arrays may come from the system one by one, how much may lie free (-1:
# anything), how many heaps threads have.
_KEEP_ALL = {-4: 0, -1: -1}
_KEEP = {"tensorflow": _KEEP_ALL, "torch": _KEEP_ALL, "jax": {**_KEEP_ALL, -8: 1}}
# What Keras and KerasHub import if it is installed, for what no command uses of them: pictures of data sets, models of
# JAX, scores of summaries; presets of Kaggle, unless an argument names one; images and a callback.
_NEEDLESS = ("matplotlib", "jax", "rouge_score", "kagglehub", "PIL", "requests")
# What TensorFlow needs itself, and what Kaggle does.
_OF_TENSORFLOW = ("requests",)
_OF_KAGGLE = ("kagglehub", "requests")
# GB of address space without which a backend ends the process, or hangs, as it starts and translates a sentence.
_ADDRESS_SPACE = {"jax": 2.0, "tensorflow": 3.0, "torch": 1.5}
# Without which TensorFlow ends the process while it trains even smaller models; large ones need more.
_TO_TRAIN = {"tensorflow": 6.5}
# Devices that may be made of a CPU, however few cores it has: to try out what several devices do.
_MOST_PARTS = 8
# Bytes of programs that JAX keeps: of a hundred models and more. It looks at every file whenever it adds one.
MOST_COMPILED = 200_000_000
_LOG = logging.getLogger(__name__)
# Those that they shall not find, see `import_keras`.
_hidden: list[str] = []


def choose_backend(
    name: str | None = None,
    job: str = "search",
    own: str | None = None,
    devices: int | str | None = None,
    arguments: Iterable[str] = (),
) -> str:
    """Set Keras' backend: the given one, the run's own, the configured one, or the fastest one installed.

    Call this before anything imports Keras.

    Args:
        name: "jax", "tensorflow" or "torch"; with None, `own` decides, then the environment variable KERAS_BACKEND,
            then Keras' configuration file, then the fastest at the job that is installed. A file that says
            "tensorflow" is ignored, because Keras itself writes that when it is first imported.
        job: what takes most of the time: a key of `FASTEST`.
        own: the backend of a run to be resumed.
        devices: the number of devices that will be used, which TensorFlow has to know when it starts on a CPU.
        arguments: the command line, which may need packages that others do not.

    Returns:
        the backend's name.

    Raises:
        UserError: an unknown backend, one that is not installed, or one that needs more address space than the process
            may have.

    Example:
        >>> choose_backend("jax")
        'jax'
    """
    installed = _installed(job)
    source = ""
    if name is None and own is not None:
        name, source = own, " of the run"
    # As in Keras, an empty name is no name.
    if name is None and (name := os.environ.get("KERAS_BACKEND") or None):
        source = " in KERAS_BACKEND"
    if name is None:
        configured = _configured()
        chosen = configured in installed and configured != "tensorflow"
        name = configured if chosen else next(iter(installed), None)
    if name is None:
        raise UserError("no backend is installed: pip install 'keras-attn-zoo[jax]' (or [tensorflow], [torch]).")
    if name not in BACKENDS:
        raise UserError(f"unknown backend {name!r}{source}: choose one of {', '.join(BACKENDS)}.")
    if name not in installed:
        raise UserError(
            f"the backend {name}{source} is not installed: pip install 'keras-attn-zoo[{name}]', "
            f"or choose one of {', '.join(installed) or 'none'}."
        )
    _check_address_space(name, job)
    os.environ["KERAS_BACKEND"] = name
    needed = _OF_TENSORFLOW if name == "tensorflow" else ()
    if any("kaggle://" in argument for argument in arguments):
        needed = (*needed, *_OF_KAGGLE)
    _hidden[:] = [module for module in _NEEDLESS if module != name and module not in needed]
    if name != "jax" or job != "search":
        keep_freed_memory(name)
    _quieten(name, devices if isinstance(devices, int) else 1)
    return name


def _check_address_space(backend, job):
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = _ADDRESS_SPACE[backend] if job == "search" else _TO_TRAIN.get(backend, _ADDRESS_SPACE[backend])
    if limit != resource.RLIM_INFINITY and limit < needed * 1e9:
        raise UserError(
            f"the address space of this process is limited to {limit / 1e9:.1f} GB, and {backend} needs {needed} GB or "
            f"more{'' if job == 'search' else ' to train'}: raise the limit (ulimit -v), or choose another backend "
            "with --backend."
        )


def keep_freed_memory(backend: str) -> None:
    """Keep large arrays that are freed on a CPU for the next ones of their size.

    Call it at the start of a program that trains on Linux, before it imports Keras; commands and recipes do. The
    process then keeps the most memory that it has needed.

    PyTorch and TensorFlow take every array from the C library, JAX one for all that a step needs. glibc hands those
    above 32 MB back to the system, which fills each new one with zeros, page by page: a fifth to a third of a training
    step under PyTorch, up to a quarter under TensorFlow, 5 to 20 % under JAX. JAX's threads have heaps of their own,
    which cannot hold such arrays; that they share one costs searches more than it saves. Nothing happens without
    glibc, or if JAX is imported already, since threads keep the heaps that they have.

    Args:
        backend: "jax", "tensorflow" or "torch".

    Raises:
        ValueError: an unknown backend.
    """
    if backend not in _KEEP:
        raise ValueError(f"`backend` must be one of {', '.join(sorted(_KEEP))}. Received: {backend!r}.")
    if backend == "jax" and "jax" in sys.modules:
        return
    with contextlib.suppress(AttributeError, OSError, TypeError):
        set_option = ctypes.CDLL(None).mallopt
        for option, value in _KEEP[backend].items():
            set_option(option, value)


def take_installed_backend() -> None:
    """Set Keras' backend to one that is installed if nobody has chosen any, and Keras' own, TensorFlow, is not there.

    Example:
        >>> take_installed_backend()
    """
    chosen = os.environ.get("KERAS_BACKEND") or _configured() not in (None, "tensorflow")
    installed = _installed("search")
    if installed and "tensorflow" not in installed and not chosen and "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = installed[0]


def _installed(job):
    """The installed backends, the fastest at a job first."""
    return [backend for backend in FASTEST[job] if importlib.util.find_spec(backend) is not None]


def import_keras(hub: bool = False) -> None:
    """Import Keras; after `choose_backend`, without what the command line does not need of it.

    Args:
        hub: whether to import KerasHub too.
    """
    quickly = without_dynamo() if _hidden and os.environ["KERAS_BACKEND"] == "torch" else contextlib.nullcontext()
    with _without(*_hidden):
        with quickly:
            import keras  # noqa: F401
        if hub:
            import keras_hub  # noqa: F401


@contextlib.contextmanager
def _without(*modules):
    """Let imports of modules fail, as if they were not installed, unless they are imported already."""
    hidden = [module for module in modules if module not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for module in hidden:
            del sys.modules[module]


def configuration_file() -> Path:
    """Return the path of Keras' configuration file."""
    return Path(os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")) / "keras.json"


def _configured():
    try:
        return json.loads(configuration_file().read_text(encoding="utf-8")).get("backend")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error from a backend means that memory is exhausted."""
    # What TensorFlow cannot write has the same name.
    if "No space left on device" in str(error):
        return False
    words = (
        *("RESOURCE_EXHAUSTED", "ResourceExhausted", "allocate memory", "out of memory", "ALLOC_FAILED"),
        "failed to map segment",
    )
    return any(word in f"{type(error).__name__}: {error}" for word in words)


def _quieten(backend, devices):
    """Keep the libraries' own messages off the terminal, and avoid needless imports."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # For notebooks alone, in Keras and in KerasHub.
    sys.modules.setdefault("IPython", None)
    warnings.filterwarnings("ignore", module=r"(keras|keras_hub|jax|tensorflow|torch)\b.*")
    if backend == "jax":
        _keep_compiled()
    if backend == "tensorflow":
        # It warns of several functions traced one after the other, as if one were traced again and again.
        logging.getLogger("tensorflow").setLevel(logging.ERROR)
        with _silent_standard_error(), _without(*_hidden):
            import tensorflow

            if devices > 1:
                divide_processor(devices)
            tensorflow.constant(0)
    else:
        # KerasHub would import TensorFlow if it is installed, which takes seconds and is of no use here.
        sys.modules.setdefault("tensorflow", None)
    # KerasHub would give its tokenizers a second model each; ours split text by SentencePiece itself.
    sys.modules.setdefault("tensorflow_text", None)


def _keep_compiled():
    """Have JAX keep what it compiles, up to a size, in a folder to which nobody else may write."""
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if folder is None:
        with contextlib.suppress(UserError):
            folder = str(caches.cache_of("jax"))
    # An empty name turns it off, and what is not on this machine is its owner's business.
    if folder and "://" not in folder:
        if reason := caches.who_else_writes(folder):
            _LOG.warning(
                "the compiled programs in %s are left alone, since %s, and they would be run: change that, or set "
                "JAX_COMPILATION_CACHE_DIR to a folder of your own",
                shown(folder),
                reason,
            )
            folder = ""
        else:
            with contextlib.suppress(OSError):
                caches.create(folder)
                _limit_compiled(Path(folder))
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder or ""
    # Not only what takes a second: a command's small programs together take a quarter of one.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.02")


def _limit_compiled(folder):
    """Have JAX remove what it used least recently, where it can: it writes at every look."""
    if not os.access(folder, os.W_OK):
        return
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(MOST_COMPILED))
    # It keeps nothing more beside a program without a time, left by a process that was killed or had no limit.
    for path in folder.glob("*-cache"):
        used = path.with_name(f"{path.name.removesuffix('-cache')}-atime")
        if not used.exists():
            used.write_bytes(path.stat().st_mtime_ns.to_bytes(8, "little"))


def parts_of_processor(count: int) -> int:
    """Return how many devices are made of the CPU where so many are asked for: starting thousands takes minutes.

    Example:
        >>> parts_of_processor(2)
        2
    """
    return min(count, max(_MOST_PARTS, os.cpu_count() or 1))


def divide_processor(count: int) -> None:
    """Let TensorFlow make several virtual devices of the CPU; see `parts_of_processor`.

    Raises:
        RuntimeError: TensorFlow has started.
    """
    import tensorflow

    (cpu, *_) = tensorflow.config.list_physical_devices("CPU")
    part = tensorflow.config.LogicalDeviceConfiguration()
    tensorflow.config.set_logical_device_configuration(cpu, [part] * parts_of_processor(count))


@contextlib.contextmanager
def _silent_standard_error():
    """Discard what C++ code writes before it reads its log levels; Python errors are raised as usual."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)

"""Optional packages: which are missing, and the command that installs them."""

import importlib.util
import sys

from keras_attn_zoo.support.backends import BACKENDS, import_keras, take_installed_backend
from keras_attn_zoo.support.errors import UserError

# The modules that the extra `translate` installs, and the names of their packages.
TRANSLATE = {
    "keras_hub": "keras-hub",
    "sentencepiece": "sentencepiece",
    "sacrebleu": "sacrebleu",
    "matplotlib": "matplotlib",
    "tqdm": "tqdm",
}
# What that extra has besides: for some recipes, and for locks.
_FURTHER = {"sacremoses": "sacremoses", "scipy": "scipy", "psutil": "psutil", "filelock": "filelock"}
# Those of the extras `corpora`, `tasks`, `aligners`, `tensorboard`, `onnx` and `docs`.
CORPORA = {"mtdata": "mtdata", "huggingface_hub": "huggingface_hub", "pyarrow": "pyarrow"}
TASKS = {"rouge_score": "rouge-score", "nltk": "nltk"}
ALIGNERS = {"systran_align": "systran-align", "eflomal": "eflomal"}
TENSORBOARD = {"tensorboard": "tensorboard"}
ONNX = {name: name for name in ("onnx", "onnxruntime", "onnxscript", "sentencepiece", "filelock")}
DOCS = {"sphinx": "sphinx", "myst_parser": "myst-parser", "furo": "furo"}
EXTRAS = {
    "translate": {**TRANSLATE, **_FURTHER},
    "corpora": CORPORA,
    "tasks": TASKS,
    "aligners": ALIGNERS,
    "tensorboard": TENSORBOARD,
    "onnx": ONNX,
    "docs": DOCS,
}


class MissingPackageError(UserError, ImportError):
    """A package of an extra is not installed; the message has the command that installs it."""


def require(*modules: str, user: str = "this", backend: bool = False, extra: str = "translate") -> None:
    """Raise if modules of one of the `EXTRAS` are not installed.

    Args:
        *modules: their names; all of `TRANSLATE` if none are given.
        user: what needs them, for the message.
        backend: whether a backend is needed too: the message then names one if none is installed.
        extra: the name of the extra.

    Raises:
        MissingPackageError: names the packages and the command that installs them.

    Example:
        >>> require("keras_hub", "sentencepiece")
    """
    missing = [EXTRAS[extra][module] for module in modules or TRANSLATE if not is_installed(module)]
    if not missing:
        return
    instead = ""
    if backend and not any(map(is_installed, BACKENDS)):
        missing.append("a backend")
        extra, instead = f"{extra},{BACKENDS[0]}", f" (or {', '.join(BACKENDS[1:])} in place of {BACKENDS[0]})"
    raise MissingPackageError(f"{user} needs {', '.join(missing)}: pip install 'keras-attn-zoo[{extra}]'{instead}.")


def require_backend(hub: bool = False) -> None:
    """Import Keras; raise if its backend is not installed, which Keras reports without a remedy.

    If no backend was chosen and TensorFlow, which Keras would take, is not installed, Keras gets one that is.

    Args:
        hub: whether to import KerasHub too.

    Raises:
        MissingPackageError: names the backend, the command that installs it, and the installed backends.

    Example:
        >>> require_backend()
    """
    take_installed_backend()
    try:
        import_keras(hub)
    except ModuleNotFoundError as error:
        backend = (error.name or "").partition(".")[0]
        if backend not in BACKENDS:
            raise
        others = ", ".join(name for name in BACKENDS if is_installed(name))
        instead = f", or set KERAS_BACKEND to an installed one ({others})" if others else ""
        raise MissingPackageError(
            f"Keras needs its backend {backend}: pip install 'keras-attn-zoo[{backend}]'{instead}."
        ) from error


def is_installed(module: str) -> bool:
    """Return whether a module can be imported.

    Example:
        >>> is_installed("keras_hub")
        True
    """
    # A module that must not be imported is listed there as None.
    if module in sys.modules:
        return sys.modules[module] is not None
    return importlib.util.find_spec(module) is not None

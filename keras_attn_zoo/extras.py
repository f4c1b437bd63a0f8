"""Optional packages: which are missing, and the command that installs them."""

import importlib.util
import sys

from keras_attn_zoo.backends import BACKENDS, import_keras
from keras_attn_zoo.errors import UserError

# The modules that the extra `translate` installs, and the names of their packages.
TRANSLATE = {
    "keras_hub": "keras-hub",
    "sentencepiece": "sentencepiece",
    "sacrebleu": "sacrebleu",
    "matplotlib": "matplotlib",
    "tqdm": "tqdm",
}
# Those of the extra `tasks`.
TASKS = {"rouge_score": "rouge-score", "nltk": "nltk"}


class MissingPackageError(UserError, ImportError):
    """A package of an extra is not installed; the message has the command that installs it."""


def require(*modules: str, user: str | None = None, backend: bool = False, extra: str = "translate") -> None:
    """Raise if modules of an extra are not installed.

    Args:
        *modules: names of modules in `TRANSLATE` or `TASKS`; all those of `TRANSLATE` if none are given.
        user: what needs them, for the message.
        backend: whether a backend is needed too: the message then names one if none is installed.
        extra: the extra that brings them.

    Raises:
        MissingPackageError: names the packages and the command that installs them.

    Example:
        >>> require("keras_hub", "sentencepiece")
    """
    packages = {**TRANSLATE, **TASKS}
    missing = [packages[module] for module in modules or TRANSLATE if not is_installed(module)]
    if not missing:
        return
    instead = ""
    if backend and not any(map(is_installed, BACKENDS)):
        missing.append("a backend")
        extra, instead = f"{extra},{BACKENDS[0]}", f" (or {', '.join(BACKENDS[1:])} in place of {BACKENDS[0]})"
    raise MissingPackageError(
        f"{user or 'this'} needs {', '.join(missing)}: pip install 'keras-attn-zoo[{extra}]'{instead}."
    )


def require_backend() -> None:
    """Raise if Keras' backend is not installed, which Keras reports without a remedy.

    Raises:
        MissingPackageError: names the backend, the command that installs it, and the installed backends.

    Example:
        >>> require_backend()
    """
    try:
        import_keras()
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

"""What an installation of the layers alone lacks, and the line that installs it."""

import importlib.util
import sys

from keras_attn_zoo.backends import BACKENDS
from keras_attn_zoo.errors import UserError

# The modules that the extra `translate` brings, by the name under which each is installed.
TRANSLATE = {
    "keras_hub": "keras-hub",
    "sentencepiece": "sentencepiece",
    "sacrebleu": "sacrebleu",
    "matplotlib": "matplotlib",
    "tqdm": "tqdm",
}


class MissingPackageError(UserError, ImportError):
    """A package that an extra brings is not installed; the message is the line that installs it."""


def require(*modules: str, user: str | None = None) -> None:
    """Raise where modules of the extra `translate` are not installed.

    Args:
        *modules: names of modules, of `TRANSLATE`; without any, all of them.
        user: what needs them, as the message names it.

    Raises:
        MissingPackageError: names the packages and the line that installs them.

    Example:
        >>> require("keras_hub", "sentencepiece")
    """
    missing = [TRANSLATE[module] for module in modules or TRANSLATE if not _is_installed(module)]
    if missing:
        raise MissingPackageError(
            f"{user or 'this'} needs {', '.join(missing)}: pip install 'keras-attn-zoo[translate]'."
        )


def require_backend() -> None:
    """Raise where the backend that Keras is set to is not installed, which Keras says without naming the remedy.

    Raises:
        MissingPackageError: names the backend, the line that installs it, and those that are installed.

    Example:
        >>> require_backend()
    """
    try:
        import keras  # noqa: F401
    except ModuleNotFoundError as error:
        backend = (error.name or "").partition(".")[0]
        if backend not in BACKENDS:
            raise
        others = ", ".join(name for name in BACKENDS if _is_installed(name))
        instead = f", or set KERAS_BACKEND to an installed one ({others})" if others else ""
        raise MissingPackageError(
            f"Keras needs its backend {backend}: pip install 'keras-attn-zoo[{backend}]'{instead}."
        ) from error


def _is_installed(module):
    # A module that must not be imported stands there as None.
    if module in sys.modules:
        return sys.modules[module] is not None
    return importlib.util.find_spec(module) is not None

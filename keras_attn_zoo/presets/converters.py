"""What opens checkpoints of other libraries: `from_preset` of this package's classes looks here by "model_type"."""

from collections.abc import Callable
from typing import Any

# By the "model_type" in a checkpoint's config.json.
CONVERTERS: dict[str, Callable[..., Any]] = {}


def opens(model_type: str) -> Callable[[Callable], Callable]:
    """Return a decorator for what opens a kind of checkpoint of Transformers.

    It is a function `(cls, preset, config, load_weights, **kwargs)` that returns an object of a class of presets.

    Args:
        model_type: as in its config.json.

    Example:
        >>> @opens("marian")  # doctest: +SKIP
        ... def open_marian(cls, preset, config, **kwargs): ...
    """

    def register(function):
        CONVERTERS[model_type] = function
        return function

    return register

"""Private names of other packages, each with its reason; `tests/support/test_compat.py` says which one broke.

Keras and KerasHub have no public way to what these do. Nothing else in the package uses a private name of theirs.
"""

from collections.abc import Iterator
from typing import Any


def layers_of(layer: Any, include_self: bool = True) -> Iterator[Any]:
    """Yield a layer and all layers inside it: `keras.Model.layers` has only those of a model's first level.

    Example:
        >>> [one.name for one in layers_of(keras.layers.Dense(1, name="one"))]
        ['one']
    """
    yield from layer._flatten_layers(include_self=include_self)


def replace_variable(layer: Any, name: str, replacement: Any) -> None:
    """Give a built layer a layer in place of a variable, as Keras' own layers do when they are quantized.

    Args:
        layer: the layer, which Keras has locked.
        name: the attribute of the variable, which goes; "" if there is none.
        replacement: pairs of an attribute and what it is set to.
    """
    layer._tracker.unlock()
    for attribute, value in replacement:
        setattr(layer, attribute, value)
    if name:
        layer._untrack_variable(getattr(layer, name))
        delattr(layer, name)
    layer._tracker.lock()


def finish_quantization(model: Any, mode: str) -> None:
    """Have a model forget the variables of kernels that were quantized one by one, as `keras.Model.quantize` does."""
    model.train_function = model.test_function = model.predict_function = None
    model._post_quantize(mode)


def without_autocast() -> Any:
    """Return a context in which variables have their own type, not the one that a layer computes in.

    Example:
        >>> with without_autocast():
        ...     keras.Variable([1.0]).dtype
        'float32'
    """
    from keras.src.backend.common.variables import AutocastScope

    return AutocastScope(None)


def is_stateless() -> bool:
    """Return whether the code runs in a `keras.StatelessScope`.

    Example:
        >>> is_stateless()
        False
    """
    from keras.src.backend.common.stateless_scope import in_stateless_scope

    return in_stateless_scope()


def add_special_token(tokenizer: Any, token: str, name: str) -> None:
    """Give a tokenizer of KerasHub a special token, which it looks up in each vocabulary it is given."""
    tokenizer._add_special_token(token, name)


class WithoutTensorFlowOps:
    """Mixin before KerasHub's `SentencePieceTokenizer`: it makes no TensorFlow operation, which would report on the
    terminal each model that normalises text elsewhere."""

    def _set_proto_tf(self, proto):
        pass


def get_preset_file(preset: str, name: str) -> str:
    """Return the path of a file of a preset that KerasHub finds or downloads.

    Raises:
        FileNotFoundError: the preset has no such file.
    """
    from keras_hub.src.utils.preset_utils import get_file

    return get_file(preset, name)

"""Private names of other packages, each with its reason; `tests/support/test_compat.py` says which one broke.

The packages have no public way to what these do. What a subclass has from its base stands with the subclass: kernels of
Keras' dense layers in `layers.base`, slots and hooks of its optimizer in `training.adam`.
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


def attach_layer(layer: Any, name: str, inner: Any, in_place_of: str | None = None) -> None:
    """Give a built layer, which Keras has locked, one more layer, as Keras' own do when they are quantized.

    Args:
        layer: the layer.
        name, inner: the attribute and the layer that it is set to.
        in_place_of: the attribute of a variable that goes.
    """
    layer._tracker.unlock()
    setattr(layer, name, inner)
    if in_place_of is not None:
        layer._untrack_variable(getattr(layer, in_place_of))
        delattr(layer, in_place_of)
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


def is_transformed_by_torch() -> bool:
    """Return whether `torch.func` transforms the code that runs: what `torch.autograd.Function` asks there.

    Example:
        >>> is_transformed_by_torch()  # doctest: +SKIP
        False
    """
    import torch

    return torch._C._are_functorch_transforms_active()


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

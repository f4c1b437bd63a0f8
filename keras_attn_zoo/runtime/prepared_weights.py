"""Weights prepared for inference: once, for all searches of a model, until they change."""

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_attn_zoo.kernels import PreparedWeight
from keras_attn_zoo.layers.base.dense import LinearMap
from keras_attn_zoo.support.compat import layers_of
from keras_attn_zoo.support.types import Tensor


class PreparedWeights:
    """The kernels of a model as inference on this machine multiplies by them, prepared once for all searches.

    Arrays of JAX never change, so what was made of a kernel holds as long as its variable has the same array. Training
    makes new ones, and what was made of the old ones is dropped with these.

    Args:
        model: the model.

    Example:
        >>> weights = PreparedWeights(translator)  # doctest: +SKIP
        >>> weights.prepare(weights.wanted(rows=32))  # doctest: +SKIP
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._made: dict[tuple[tuple[int, str], ...], _Results] = {}

    def wanted(self, rows: int | None = None) -> list[tuple[LinearMap, str]]:
        """Return the layers that gain from prepared weights, each with its preparation, until layers are changed.

        Going through all layers takes a twentieth of a short search: a compiled function asks once.

        Args:
            rows: the rows of each product in the steps of a search; None if there are no such steps.
        """
        in_steps = set() if rows is None else {id(one) for one in maps_of_steps(self._model)}
        maps = [one for one in layers_of(self._model) if isinstance(one, LinearMap)]
        found = ((one, one.preparation(rows if id(one) in in_steps else None)) for one in maps)
        return [(one, how) for one, how in found if how is not None]

    def prepare(self, wanted: Sequence[tuple[LinearMap, str]]) -> dict[int, PreparedWeight]:
        """Return weights by the identity of their variables, as `kernels.inference` takes them.

        Args:
            wanted: what `wanted` returned.
        """
        if not wanted:
            return {}
        read = [one.stored_kernel.value for one, _ in wanted]
        read += [one.kernel_scale.value for one, _ in wanted if one.quantization_mode is not None]  # type: ignore[attr-defined]
        results = self._made.setdefault(tuple((id(one), how) for one, how in wanted), _Results())
        return results.get(read, lambda: {id(one.stored_kernel): one.prepared_kernel(how) for one, how in wanted})


def maps_of_steps(model: keras.Model) -> list[LinearMap]:
    """Return the layers whose kernels the steps of a search multiply by."""
    layers = layers_of(model.backbone)
    return [one for layer in layers if hasattr(layer, "step_maps") for one in layer.step_maps()]


class _Results:
    """What a function made of arrays, as long as these are the same and somebody holds them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrays: list[weakref.ref[Any]] = []
        self._result: Any = None

    def get(self, arrays: Sequence[Tensor], function: Callable[[], Any]) -> Any:
        """Return the result of a function that reads these arrays."""
        with self._lock:
            known = len(self._arrays) == len(arrays)
            if not known or any(one() is not array for one, array in zip(self._arrays, arrays, strict=True)):
                result = function()
                self._arrays = [weakref.ref(array, self._forget) for array in arrays]
                self._result = result
                return result
            return self._result

    def _forget(self, _):
        self._arrays, self._result = [], None

"""Weights as searches read them: in the type that a model computes in, and turned for their products."""

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras

from keras_attn_zoo.layers.base.products import StepMap
from keras_attn_zoo.support.types import Tensor


class WeightCopies:
    """Copies of a model's weights as its searches read them, made once for all searches.

    Keras converts a weight each time that a layer reads it, and a compiled program once per call: for a search of few
    sentences, a tenth of its time, and so is what a product moves of its kernel. Arrays of JAX never change, so a copy
    holds as long as the weight has the same one.

    Args:
        model: the model.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._converted, self._turned, self._floating = _Copies(), _Copies(), _Copies()

    def of(self, arrays: Sequence[Tensor]) -> list[Tensor | None]:
        """Return a copy of every array in the type that the model computes in; None for those that have it."""
        wanted, given = self._model.compute_dtype, self._model.variable_dtype
        if wanted == given:
            return [None] * len(arrays)

        def converted(x):
            return x.astype(wanted) if keras.backend.standardize_dtype(x.dtype) == given else None

        return self._converted.of(arrays, [converted] * len(arrays))

    def turned(self, layers: Sequence[StepMap]) -> list[Tensor]:
        """Return the kernel of every layer as `product` wants it: Wᵀ."""
        return self._of_kernels(self._turned, layers, [layer.turn for layer in layers])

    def floating(self, layers: Sequence[StepMap]) -> list[Tensor]:
        """Return the kernel of every layer, which is in int8, in floating point."""
        return self._of_kernels(self._floating, layers, [layer.float_of for layer in layers])

    def _of_kernels(self, copies, layers, functions):
        """The results of functions of kernels, which also hold as long as the scales of those in int8."""
        scales = [layer.kernel_scale.value for layer in layers if layer.quantization_mode is not None]
        return copies.of([layer._kernel.value for layer in layers], functions, scales)


class _Copies:
    """What functions make of arrays, as long as these and those beside them are the same and somebody holds them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._originals: list[weakref.ref[Any]] = []
        self._copies: list[Any] = []

    def of(
        self, arrays: Sequence[Tensor], functions: Sequence[Callable[[Tensor], Any]], beside: Sequence[Tensor] = ()
    ) -> list[Any]:
        """Return the result of every function of its array, which may depend on all `beside`."""
        with self._lock:
            read = [*arrays, *beside]
            known = len(self._originals) == len(read)
            if not known or any(one() is not array for one, array in zip(self._originals, read, strict=True)):
                copies = [function(x) for function, x in zip(functions, arrays, strict=True)]
                # Training makes new weights, and must not pay for copies of the old ones.
                self._originals = [weakref.ref(array, self._forget) for array in read]
                self._copies = copies
                return copies
            return self._copies

    def _forget(self, _):
        self._originals, self._copies = [], []


class CopiesScope(keras.StatelessScope):
    """Gives variables these values, and a layer that would convert one the copy instead.

    Args:
        variables: the variables.
        values: a value for each.
        copies: for each, the value in another type, or None.
    """

    def __init__(
        self, variables: Iterable[keras.Variable], values: Iterable[Tensor], copies: Iterable[Tensor | None]
    ) -> None:
        variables = list(variables)
        super().__init__(state_mapping=list(zip(variables, values, strict=True)))
        original = super().get_current_value
        given = zip(variables, copies, strict=True)
        self._copies = {id(one): (original(one), copy) for one, copy in given if copy is not None}
        self._asking = False

    def get_current_value(self, variable: keras.Variable) -> Tensor | None:
        """Return the value that `variable.value` takes here, and converts where a layer asks for another type."""
        value = super().get_current_value(variable)
        original, copy = self._copies.get(id(variable), (None, None))
        # A value that was assigned since has no copy.
        if copy is None or value is not original or self._asking:
            return value
        self._asking = True
        try:
            asked = variable.value.dtype
        finally:
            self._asking = False
        return copy if asked == copy.dtype else value

"""Private names of other packages, each with its reason; `tests/support/test_compat.py` says which one broke.

The packages have no public way to what these do.
"""

import contextlib
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

# What the state of a step under JAX consists of, by its length: training, validation, prediction.
_STATES = {
    4: ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables"),
    3: ("trainable_variables", "non_trainable_variables", "metrics_variables"),
    2: ("trainable_variables", "non_trainable_variables"),
}


def layers_of(layer: Any, include_self: bool = True) -> Iterator[Any]:
    """Yield a layer and all layers inside it: `keras.Model.layers` has only those of a model's first level.

    Example:
        >>> [one.name for one in layers_of(keras.layers.Dense(1, name="one"))]
        ['one']
    """
    yield from layer._flatten_layers(include_self=include_self)


def attach_layer(layer: Any, name: str, inner: Any) -> None:
    """Give a built layer, which Keras has locked, one more layer as an attribute, as Keras' own do."""
    layer._tracker.unlock()
    setattr(layer, name, inner)
    layer._tracker.lock()


def replace_policy(layer: Any, policy: Any) -> None:
    """Give a layer a dtype policy of its own: set in public, it would be written into a map that others share."""
    layer._dtype_policy = policy


def finish_quantization(model: Any, mode: str) -> None:
    """Have a model forget the variables of kernels that were quantized one by one, as `keras.Model.quantize` does."""
    model.train_function = model.test_function = model.predict_function = None
    model._post_quantize(mode)


def stateless_scope() -> Any | None:
    """Return the `keras.StatelessScope` that the code runs in, which knows the one around it as `original_scope`.

    Example:
        >>> stateless_scope()  # None
    """
    from keras.src.backend.common.stateless_scope import get_stateless_scope

    return get_stateless_scope()


def is_transformed_by_torch() -> bool:
    """Return whether `torch.func` transforms the code that runs: what `torch.autograd.Function` asks there."""
    import torch

    return torch._C._are_functorch_transforms_active()


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


class BuiltForReplicas:
    """Mixin before a Keras model whose `build_for_replicas` may build what TensorFlow's replicas need before they run.

    Otherwise Keras averages a batch over them, masks too, for shapes that a functional model does not need.
    """

    def _maybe_symbolic_build(self, *args: Any, **kwargs: Any) -> None:
        if not self.build_for_replicas():  # type: ignore[attr-defined]
            super()._maybe_symbolic_build(*args, **kwargs)  # type: ignore[misc]


class WholeVariables:
    """Mixin before a Keras model: its variables stay whole whatever ends `fit`, `evaluate` or `predict` under JAX.

    Keras takes the values off the variables while it runs steps, hands each step the memory of the one before, and puts
    values back at the end. An exception in between, such as an interrupt or a batch that the model does not take, would
    leave a model without weights. Other backends have no such state.
    """

    def _get_jax_state(self, *args: Any, **kwargs: Any) -> Any:
        """Leave the values on the variables too: a step that fails before it runs then changes nothing."""
        return super()._get_jax_state(*args, **{**kwargs, "purge_model_variables": False})  # type: ignore[misc]

    def _make_function(self, step_function: Any, *args: Any, **kwargs: Any) -> Any:
        """Note the new state as soon as there is one, before Keras does."""
        if not hasattr(self, "jax_state_sync"):
            return super()._make_function(step_function, *args, **kwargs)  # type: ignore[misc]

        def step(state, data):
            results: list[Any] = []
            try:
                # Nothing of Python runs between the compiled step and the list, so an interrupt finds the state there.
                results.extend(map(step_function, (state,), (data,)))
            finally:
                if results:
                    state = results[0][1]
                    self._jax_state = dict(zip(_STATES[len(state)], state, strict=True))
            return results[0]

        return super()._make_function(step, *args, **kwargs)  # type: ignore[misc]


@contextlib.contextmanager
def kept_whole(model: Any) -> Iterator[None]:
    """Put the last state back on a model's variables if a method of Keras, which is run inside, ends early."""
    try:
        yield
    except BaseException:
        if hasattr(model, "jax_state_sync"):
            model.jax_state_sync()
            model._jax_state = None
        raise


@contextlib.contextmanager
def without_dynamo() -> Iterator[None]:
    """Let Keras find a stand-in for PyTorch's compiler, which takes longer to import than the rest of PyTorch.

    Keras only keeps it away from two functions. So does the stand-in, which imports the compiler when one is called.
    """
    import torch

    name = "torch._dynamo"
    if name in sys.modules:
        yield
        return

    def disable():
        def decorate(function):
            return functools.wraps(function)(lambda *args, **kwargs: torch.compiler.disable(function)(*args, **kwargs))

        return decorate

    stand_in = types.ModuleType(name)
    vars(stand_in)["disable"] = disable
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        del sys.modules[name]

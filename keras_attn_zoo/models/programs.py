"""Functions that read a model's variables, each compiled once, as the backend requires.

Keras compiles one function each for `predict`, `evaluate` and KerasHub's `generate`, and keeps what they need between
calls on the model. These functions keep nothing, so several threads may run them on one model.
"""

from collections.abc import Callable, Hashable, Sequence

import keras
import numpy as np
from keras import ops, tree

from keras_attn_zoo.types import TensorTree


class Programs:
    """The compiled functions of a model, each created on first use.

    Example:
        >>> programs = Programs(translator)
        >>> found = programs.run("logits", lambda: lambda x: translator(x)["logits"], inputs)  # doctest: +SKIP
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._compiled: dict[Hashable, Callable] = {}

    def run(self, key: Hashable, make: Callable[[], Callable], *inputs: TensorTree) -> TensorTree:
        """Run the function of a key on trees of arrays; return arrays.

        Args:
            key: identifies the function among those of the model.
            make: returns the function; called if the key is new.
            *inputs: arguments of the function.
        """
        # TensorFlow's graphs hold the variables that they were traced with, and LoRA and `quantize` replace variables.
        key = key, tuple(map(id, self._model.variables))
        if key not in self._compiled:
            # If two threads get here at once, one function is kept.
            self._compiled.setdefault(key, compiled(self._model, make()))
        found = self._compiled[key](*inputs)
        return tree.map_structure(lambda x: np.asarray(ops.convert_to_numpy(x)), found)


def compiled(model: keras.Model, function: Callable, changing: Sequence[keras.Variable] = ()) -> Callable:
    """Compile a function of tensors that reads the variables of a model, without gradients.

    Args:
        model: the model; if it runs eagerly, the function is not compiled.
        function: function of trees of tensors.
        changing: variables that the function changes, such as the random states of a sampler.
    """
    backend = keras.config.backend()
    if backend == "tensorflow" and not model.run_eagerly:
        import tensorflow as tf

        # No AutoGraph: rewriting the function and all that it calls takes longer than tracing it.
        return tf.function(function, jit_compile=getattr(model, "jit_compile", True), autograph=False)
    if backend == "jax" and not model.run_eagerly:
        return _on_tensors(_compiled_by_jax(model, function, changing))
    if backend == "torch":
        import torch

        return torch.no_grad()(_on_tensors(function))
    return _on_tensors(function)


def _on_tensors(function):
    """Return the function with its arrays converted to tensors."""
    return lambda *inputs: function(*tree.map_structure(ops.convert_to_tensor, inputs))


def _compiled_by_jax(model, function, changing):
    import jax

    def variables():
        return [*changing, *model.trainable_variables, *model.non_trainable_variables]

    @jax.jit
    def stateless(values, *inputs):
        with keras.StatelessScope(state_mapping=zip(variables(), values, strict=True)) as scope:
            outputs = function(*inputs)
        return outputs, [scope.get_current_value(variable) for variable in changing]

    def call(*inputs):
        outputs, changed = stateless([variable.value for variable in variables()], *inputs)
        for variable, value in zip(changing, changed, strict=True):
            variable.assign(value)
        return outputs

    return call

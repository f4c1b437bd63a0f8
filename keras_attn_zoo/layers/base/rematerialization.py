"""Layers that a `keras.RematScope` computes again in the backward pass, with the same random numbers."""

import contextvars
import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree

from keras_attn_zoo.support.compat import stateless_scope
from keras_attn_zoo.support.types import Tensor, TensorTree


class _Again(keras.StatelessScope):
    """The scope of a layer that will be computed again, and with it those inside."""


class Rematerialized(keras.layers.Layer):
    """Mixin for layers whose call branches on an argument, such as `training`, or draws random numbers.

    In a `keras.RematScope`, Keras makes tensors of all arguments, which no branch of Python can read, and computes the
    layer again with the random numbers of its next call. Here only tensors of floating point are arguments; whatever
    else the call changes, such as the state of random numbers, leaves it as a result. Layers inside such a layer are
    computed again with it, and not a second time.
    """

    def rematerialized_call(self, layer_call: Callable, *args: Any, **kwargs: Any) -> Callable:
        """Return the call of a scope; `args` and `kwargs` are those it will be called with."""
        if _is_computed_again():
            return layer_call
        given = dict(inspect.signature(layer_call).bind(*args, **kwargs).arguments)
        leaves = tree.flatten(given)
        places = [place for place, leaf in enumerate(leaves) if _is_floating(leaf)]
        changed: list[keras.Variable] = []
        state = self._given_state()
        # What is set around the call, such as whose scores are read, is no longer set in the backward pass.
        around = contextvars.copy_context()

        def run(*tensors):
            filled = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            with _Again(state, collect_losses=True) as scope:
                before = {id(v): scope.get_current_value(v) for v in self.variables}
                found = around.copy().run(layer_call, **tree.pack_sequence_as(given, filled))
            changed[:] = [v for v in self.variables if scope.get_current_value(v) is not before[id(v)]]
            return found, [scope.get_current_value(v) for v in changed], scope.losses

        again = super().rematerialized_call(run, *args, **kwargs)
        if again is run:
            return layer_call

        def call(*args, **kwargs):
            found, values, losses = again(*(leaves[place] for place in places))
            for variable, value in zip(changed, values, strict=True):
                variable.assign(value)
            self.add_loss(losses)
            return found

        return call

    def _given_state(self):
        """The values that a call begins with: of random states and, in a stateless scope, of weights too."""
        weights, scope = {id(v) for v in self.weights}, stateless_scope()
        # Copies: PyTorch would change the state in place before it is read again.
        state = [(v, v.value * 1) for v in self.variables if id(v) not in weights]
        if scope is None:
            return state
        # Of the scope: `v.value` would be cast to the type in which the layer computes.
        known = [(v, scope.get_current_value(v)) for v in self.weights]
        return state + [(v, value) for v, value in known if value is not None]


def _is_computed_again():
    scope = stateless_scope()
    while scope is not None and not isinstance(scope, _Again):
        scope = scope.original_scope
    return scope is not None


class RematerializedByLayer:
    """Mixin before a Keras model: in a `keras.RematScope`, its layers are computed again, each by itself.

    Computed again as a whole, it would hold as many activations in the backward pass as without a scope, and what its
    layers change, such as the state of random numbers, could not leave it.
    """

    def rematerialized_call(self, layer_call: Callable, *args: Any, **kwargs: Any) -> Callable:
        """Return the call as it is."""
        return layer_call


def _is_floating(x: Tensor) -> bool:
    return ops.is_tensor(x) and keras.backend.is_float_dtype(keras.backend.standardize_dtype(x.dtype))


def may_be(training: bool | Tensor | None) -> bool:
    """Return whether `training` is true, or a tensor, as which a model in a `keras.RematScope` passes it on."""
    return ops.is_tensor(training) or bool(training)


def where_training(training: bool | Tensor | None, trained: TensorTree, used: Tensor | float) -> TensorTree:
    """Return the first result, but the second where `training` is a tensor that turns out to be false."""
    if not ops.is_tensor(training):
        return trained
    return tree.map_structure(lambda x: ops.where(training, x, ops.cast(used, x.dtype)), trained)

"""Layers in a `keras.RematScope`: flags, dropout and losses, in all modes of a scope."""

import functools

import keras
import numpy as np
import pytest

from keras_attn_zoo.layers import get_attention
from keras_attn_zoo.layers.base.heads import HeadProjection
from tests.layers.calls import BACKEND
from tests.layers.cases import numbers
from tests.weights import fill_weights


@functools.cache
def plain(name, **options):
    """The same without a scope."""
    return trained(name, **options)


def trained(name, model_in_scope=True, scope=None, **options):
    """Weights after two steps of `fit`, of a model with one cross-attention, which a scope may be around."""
    with keras.RematScope(**scope or {"mode": None}):
        layer = get_attention(name, 6, num_heads=2, name="attention", **options)
        if model_in_scope:
            return _fitted(layer)
    return _fitted(layer)


def _fitted(layer):
    query, value = numbers("query", 2, 3, 6), numbers("value", 2, 5, 6)
    x, y = keras.Input((3, 6)), keras.Input((5, 6))
    model = keras.Model([x, y], layer(x, y))
    fill_weights(model)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit([query, value], numbers("wanted", 2, 3, 6), epochs=2, shuffle=False, verbose=0)
    return model.get_weights()


# With a state and without; one that draws its dropout before a loop.
MECHANISMS = ["multi_head", "bahdanau_feedback", "previous_context", "expanded_key_value_1"]


@pytest.mark.skipif(BACKEND == "tensorflow", reason="Keras 3.15's own models fail there in a scope")
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_model_in_a_scope(name):
    """Under JAX, the model makes a tensor of `training`."""
    wanted = plain(name)
    for actual, desired in zip(trained(name, scope={"mode": "full"}), wanted, strict=True):
        np.testing.assert_allclose(actual, desired, atol=1e-6)


@pytest.mark.parametrize("mode", ["list_of_layers", "activations"])
@pytest.mark.parametrize("name", ["multi_head", "previous_context"])
def test_a_model_with_dropout_in_a_scope(name, mode):
    """In the other modes, Keras computes the model again as a whole, with other random numbers."""
    wanted = plain(name, dropout=0.4, seed=1)
    found = trained(name, scope={"mode": mode, "layer_names": ["attention"]}, dropout=0.4, seed=1)
    for actual, desired in zip(found, wanted, strict=True):
        np.testing.assert_allclose(actual, desired, atol=1e-6)


def test_positions_and_norms_in_a_scope():
    options = {"positions": "shaw", "query_key_norm": True, "num_key_value_heads": 1}
    wanted = plain("multi_head", **options)
    found = trained("multi_head", scope={"mode": "list_of_layers", "layer_names": ["attention"]}, **options)
    for actual, desired in zip(found, wanted, strict=True):
        np.testing.assert_allclose(actual, desired, atol=1e-6)


@pytest.mark.parametrize(
    "scope",
    [
        {"mode": "full"},
        {"mode": "larger_than", "output_size_threshold": 1},
        # Of these, the test above has a model under every backend.
        pytest.param({"mode": "list_of_layers", "layer_names": ["attention"]}, marks=pytest.mark.slow_compiled),
        pytest.param({"mode": "activations"}, marks=pytest.mark.slow_compiled),
    ],
    ids=lambda scope: scope["mode"],
)
@pytest.mark.parametrize(
    "name",
    [
        "expanded_key_value_1",
        *(pytest.param(name, marks=pytest.mark.slow_compiled) for name in ("multi_head", "previous_context")),
    ],
)
def test_dropout_in_a_scope(name, scope):
    """The backward pass has the dropout of the forward pass, and every step one of its own."""
    wanted = plain(name, dropout=0.4, seed=1)
    found = trained(name, model_in_scope=False, scope=scope, dropout=0.4, seed=1)
    for actual, desired in zip(found, wanted, strict=True):
        np.testing.assert_allclose(actual, desired, atol=1e-6)


def test_losses_of_a_recomputed_layer():
    """What projections add to the loss leaves the scope."""

    def losses():
        layer = get_attention("multi_head", 6, num_heads=2, activity_regularizer="l2", name="attention")
        layer.build((2, 3, 6), (2, 5, 6))
        fill_weights(layer)
        layer(numbers("query", 2, 3, 6), numbers("value", 2, 5, 6))
        return [float(x) for x in layer.losses]

    wanted = losses()
    with keras.RematScope(mode="full"):
        np.testing.assert_allclose(sum(losses()), sum(wanted), rtol=1e-6)
    assert len(wanted) == 4


@pytest.mark.skipif(BACKEND != "torch", reason="the others trace a layer more often than they compute it")
def test_what_stands_inside_is_computed_again_once(monkeypatch):
    names, call = [], HeadProjection.call

    def counted(self, *args, **kwargs):
        names.append(self.name)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(HeadProjection, "call", counted)
    with keras.RematScope(mode="full"):
        layer = get_attention("multi_head", 6, num_heads=2)
    x = keras.ops.convert_to_tensor(numbers("query", 2, 3, 6)).requires_grad_()
    layer(x, x)
    names.clear()
    keras.ops.sum(layer(x, x)).backward()
    assert len(names) == 6 and {names.count(name) for name in names} == {2}

"""The law of transformations: recomputed for the backward pass, compiled or mapped, gradients stay what they are.

What is compared is the derivative that the backend takes of the plain call, which other laws compare with the equation.
"""

import keras
import numpy as np
import pytest
from keras import ops, tree

from tests.layers.calls import BACKEND, assert_close, to_numpy
from tests.layers.cases import BATCH, CASES, ONE_OF_EACH_BASE


class Given:
    """A layer of a case, one that was made in a scope and has its weights, and a loss of every element."""

    def __init__(self, case):
        self.case, self.layer = case, case.layer()
        with keras.RematScope(mode="full"):
            self.in_scope = case.layer()
        self.weights = [ops.convert_to_tensor(v.value) for v in self.layer.trainable_variables]
        context, scores = case.coefficients
        masks = {name: case.masks[name] for name in (("query_mask", "value_mask") if case.cross else ("query_mask",))}
        self.arrays = tree.map_structure(
            ops.convert_to_tensor,
            {"inputs": case.inputs(), "masks": masks, "times": [context[..., : case.context_dim()], scores]},
        )

    def loss(self, weights, inputs, masks, times, in_scope=False):
        """The sum of the elements of context and scores, each times a number of its own."""
        layer = self.in_scope if in_scope else self.layer
        with keras.StatelessScope(list(zip(layer.trainable_variables, weights, strict=True))):
            found = layer(**inputs, **masks, **self.case.causal, return_attention_scores=True, training=True)
        return sum(ops.sum(x * by) for x, by in zip(found, times, strict=True))


def under_jax(given):
    """Losses and gradients, in one program: plain; recomputed; of a layer made in a scope; of each sentence alone."""
    import jax

    inputs, masks, times = given.arrays.values()

    def plain(weights, inputs, masks=masks, times=times):
        return given.loss(weights, inputs, masks, times)

    def in_scope(weights, inputs):
        return given.loss(weights, inputs, masks, times, in_scope=True)

    def of_sentence(weights, *arrays):
        return plain(weights, *tree.map_structure(lambda x: x[None], arrays))

    def run(weights):
        found = [
            jax.value_and_grad(function, argnums=(0, 1))(weights, inputs)
            for function in (plain, jax.checkpoint(plain), in_scope)
        ]
        alone = jax.vmap(jax.value_and_grad(of_sentence, argnums=(0, 1)), in_axes=(None, 0, 0, 0))
        loss, (of_weights, of_inputs) = alone(weights, inputs, masks, times)
        return [*found, (ops.sum(loss), ([ops.sum(x, axis=0) for x in of_weights], of_inputs))]

    return jax.jit(run)(given.weights)


def under_tensorflow(given):
    """Losses and gradients in one graph: plain; recomputed; of a layer made in a scope."""
    import tensorflow as tf

    inputs, masks, times = given.arrays.values()
    names = list(inputs)

    def of(layer):
        def loss(*tensors):
            found = layer(
                **dict(zip(names, tensors, strict=True)),
                **masks,
                **given.case.causal,
                return_attention_scores=True,
                training=True,
            )
            return sum(ops.sum(x * by) for x, by in zip(found, times, strict=True))

        return loss

    @tf.function(autograph=False)
    def run(tensors):
        found = []
        plain = of(given.layer)
        for layer, function in (
            (given.layer, plain),
            (given.layer, tf.recompute_grad(plain)),
            (given.in_scope, of(given.in_scope)),
        ):
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                loss = function(*tensors)
            variables = [v.value for v in layer.trainable_variables]
            of_weights, of_inputs = tape.gradient(loss, [variables, tensors], unconnected_gradients="zero")
            found.append((loss, (of_weights, dict(zip(names, of_inputs, strict=True)))))
        return found

    return run([inputs[name] for name in names])


def under_torch(given):
    """Losses and gradients: plain; recomputed in both ways; of a layer made in a scope; of each sentence alone."""
    import torch
    from torch.utils.checkpoint import checkpoint

    inputs, masks, times = given.arrays.values()

    def plain(weights, inputs, masks=masks, times=times):
        return given.loss(weights, inputs, masks, times)

    def recomputed(reentrant):
        def function(weights, inputs):
            names, count = list(inputs), len(weights)

            def of(*tensors):
                return plain(tensors[:count], dict(zip(names, tensors[count:], strict=True)))

            return checkpoint(of, *weights, *inputs.values(), use_reentrant=reentrant)

        return function

    def in_scope(weights, inputs):
        return given.loss(weights, inputs, masks, times, in_scope=True)

    def gradients(function):
        arrays = tree.map_structure(lambda x: x.detach().clone().requires_grad_(), (given.weights, inputs))
        loss = function(*arrays)
        loss.backward()
        return loss, tree.map_structure(lambda x: torch.zeros_like(x) if x.grad is None else x.grad, arrays)

    def of_sentence(weights, *arrays):
        return plain(weights, *tree.map_structure(lambda x: x[None], arrays))

    found = [gradients(function) for function in (plain, recomputed(False), recomputed(True), in_scope)]
    alone = torch.func.vmap(torch.func.grad_and_value(of_sentence, argnums=(0, 1)), in_dims=(None, 0, 0, 0))
    (of_weights, of_inputs), loss = alone([x.detach() for x in given.weights], inputs, masks, times)
    return [*found, (ops.sum(loss), ([ops.sum(x, axis=0) for x in of_weights], of_inputs))]


RUN = {"jax": under_jax, "tensorflow": under_tensorflow, "torch": under_torch}[BACKEND]


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case in ONE_OF_EACH_BASE else (pytest.mark.slow_compiled,)) for case in CASES],
    ids=str,
)
def test_transformed_gradients(case):
    """Law 11."""
    plain, *transformed = (tree.map_structure(to_numpy, found) for found in RUN(Given(case)))
    assert len(transformed) >= 2 and BATCH > 1
    assert np.any(plain[1][1]["value" if case.cross else "query"])
    for number, found in enumerate(transformed):
        for x, wanted in zip(tree.flatten(found), tree.flatten(plain), strict=True):
            assert_close(x, wanted, "float32", f"transformation {number}")

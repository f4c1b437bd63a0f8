"""The examples of docs/add-a-mechanism.md are layers that keep the laws, in mixed precision too."""

import re
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import AttentionLayer
from tests.layers.calls import to_numpy
from tests.layers.cases import numbers
from tests.weights import fill_weights

pytestmark = pytest.mark.skipif(keras.config.backend() != "torch", reason="alike on all; nothing is compiled on torch")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "add-a-mechanism.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
QUERY, VALUE = numbers("query", 2, 3, 6), numbers("value", 2, 5, 6)


def diagonal():
    """The first example, a module of its own."""
    [code] = [block for block in BLOCKS if "class DiagonalAttention" in block]
    names = {}
    exec(compile(code, PAGE.name, "exec"), names)
    return names["DiagonalAttention"]


def with_a_state():
    """The second example: methods that stand in the class of a mechanism."""
    [methods] = [block for block in BLOCKS if "def advance" in block]
    names = {"ops": ops, "AttentionLayer": AttentionLayer}
    exec(compile(f"class WithAState(AttentionLayer):\n{methods}", PAGE.name, "exec"), names)
    return names["WithAState"]


def energy_of_diagonal(weights, query, key, past):
    return np.sum(weights["scale"] * query * key, axis=-1)


def energy_with_a_state(weights, query, key, past):
    return key @ query - weights["penalty"] * past.sum(axis=0)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize(
    ("make", "energy"), [(diagonal, energy_of_diagonal), (with_a_state, energy_with_a_state)], ids=["plain", "state"]
)
def test_examples(make, energy, policy):
    layer = make()(dtype=policy, name="attention")
    layer.build(QUERY.shape, VALUE.shape)
    fill_weights(layer)
    weights = {w.name: ops.convert_to_numpy(w.value) for w in layer.weights}
    wanted = np.zeros((2, 3, 5))
    for b in range(2):
        for i in range(3):
            e = np.exp(energy(weights, QUERY[b, i], VALUE[b], wanted[b, :i]))
            wanted[b, i] = e / e.sum()
    context, scores = layer(QUERY, VALUE, return_attention_scores=True)
    memory = layer.prepare(VALUE)
    assert {keras.backend.standardize_dtype(memory[part].dtype) for part in ("key", "value")} == {layer.compute_dtype}
    state, steps = layer.initial_state(memory), []
    for i in range(3):
        of_step, row, state = layer.step(QUERY[:, i], memory, state)
        assert of_step.dtype == context.dtype
        steps.append(to_numpy(row)[:, 0])
    tolerance = 1e-5 if policy == "float32" else 3e-2
    np.testing.assert_allclose(to_numpy(scores)[:, 0], wanted, atol=tolerance)
    np.testing.assert_allclose(np.stack(steps, axis=1), wanted, atol=tolerance)
    np.testing.assert_allclose(to_numpy(context), wanted @ VALUE, atol=3 * tolerance)

"""The laws that every attention layer of the registry keeps, under every backend and both policies.

A mechanism joins by standing in the registry and giving one NumPy reference in `references.py`.
"""

import importlib.util
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops, tree

from keras_attn_zoo.layers import get_attention
from tests.layers.calls import BACKEND, compiled, of_unknown_sizes
from tests.layers.cases import (
    ATTENTION_MASK,
    BATCH,
    CROSS,
    MASKS,
    QUERY_MASK,
    SOURCE,
    TARGET,
    VALUE_MASK,
    coefficients,
    combined_mask,
    expected,
    expected_loss_and_gradients,
    inputs_of,
    layer_of,
    model_of,
    numbers,
    weights_of,
)
from tests.layers.references import REFERENCES
from tests.weights import fill_weights

# Largest difference, relative to the largest number that is expected, or to 1.
TOLERANCE = {"float32": 2e-6, "mixed_bfloat16": 2e-2}
COMPUTE_TYPE = {"float32": "float32", "mixed_bfloat16": "bfloat16"}
OTHER_BACKEND = "jax" if BACKEND == "torch" else "torch"
# PyTorch has no XLA, and its own compiler takes minutes. TensorFlow runs once without and once with XLA.
FITS = [("float32", BACKEND == "jax"), ("mixed_bfloat16", BACKEND != "torch")]

every_mechanism = pytest.mark.parametrize("name", CROSS)
both_policies = pytest.mark.parametrize("policy", TOLERANCE)


def assert_close(actual, desired, policy, what=""):
    largest = max(1.0, np.max(np.abs(desired), initial=0))
    np.testing.assert_allclose(actual, desired, rtol=0, atol=TOLERANCE[policy] * largest, err_msg=what)


def test_every_mechanism_has_a_reference():
    assert sorted(REFERENCES) == sorted(CROSS)


@keras.saving.register_keras_serializable(package="keras_attn_zoo_tests")
class Linear(keras.losses.Loss):
    """Coefficients times outputs, summed."""

    def call(self, y_true, y_pred):
        products = y_true * ops.cast(y_pred, "float32")
        # Keras takes the mean over the batch.
        return ops.shape(products)[0] * ops.sum(products, axis=tuple(range(1, len(products.shape))))


@every_mechanism
@pytest.mark.parametrize(("policy", "jit_compile"), FITS)
def test_gradients_of_a_fit(name, policy, jit_compile, tmp_path):
    """Laws 1, 6, 7, 8 and 9: a model of unknown lengths, saved and loaded, takes one step of gradient descent.

    All masks are at work, and a row has nothing to attend. With a learning rate of 1 the gradient is what the
    step takes off a weight.
    """
    model = model_of(name, policy)
    assert [(x.shape[1:], x.dtype) for x in model.outputs] == [
        ((None, REFERENCES[name].value_dim), COMPUTE_TYPE[policy]),
        ((model.get_layer(name).num_heads, None, None), "float32"),
    ]
    model.compile(keras.optimizers.SGD(1.0), [Linear(), Linear()], jit_compile=jit_compile)
    model.save(tmp_path / "model.keras")
    model = keras.saving.load_model(tmp_path / "model.keras")
    before = weights_of(model)
    inputs = {**inputs_of(name, with_key=True), **MASKS}
    history = model.fit(inputs, list(coefficients(name)), batch_size=BATCH, shuffle=False, verbose=0).history

    loss, by_weight, by_input = expected_loss_and_gradients(name)
    assert_close(history["loss"][0], loss, policy, "loss")
    gradients = {path: before[path] - after for path, after in weights_of(model).items()}
    for weight in model.get_layer(name).trainable_weights:
        assert np.any(gradients[weight.path]), f"{weight.path} gets no gradient"
    wanted = {f"{name}/{weight}": gradient for weight, gradient in by_weight.items()}
    wanted |= {f"{part}_offset/offset": gradient for part, gradient in by_input.items()}
    assert gradients.keys() == wanted.keys()
    for path, gradient in gradients.items():
        assert_close(gradient, wanted[path], policy, f"gradient of {path}")


@every_mechanism
@both_policies
def test_call_and_step(name, policy):
    """Laws 1 to 5: the layer gets two rows of noise as padding on both sides, the reference does not."""
    layer = layer_of(name, policy)

    def call(query, value, query_mask, value_mask):
        masks = {"query_mask": query_mask, "value_mask": value_mask}
        return layer(query, value, **masks, return_attention_scores=True)

    def check(context, scores, query, value, query_mask, value_mask, what):
        masks = {"query_mask": query_mask, "value_mask": value_mask}
        inputs = {"query": query, "value": value}
        wanted = expected(name, weights_of(layer), inputs, layer.num_heads, **masks)
        assert_close(context[:, :TARGET], wanted[0], policy, f"context, {what}")
        assert_close(scores[:, :, :TARGET, :SOURCE], wanted[1], policy, f"scores, {what}")

    call, step = compiled(call), compiled(lambda *args: step_through(layer, *args))
    query, value = inputs_of(name).values()
    padded_query, padded_value = (np.concatenate([x, 50 * x[:, :2]], axis=1) for x in (query, value))
    query_mask, value_mask = (np.pad(x, ((0, 0), (0, 2))) for x in (QUERY_MASK, VALUE_MASK))

    context, scores = call(padded_query, padded_value, query_mask, value_mask)
    check(context, scores, query, value, QUERY_MASK, VALUE_MASK, "call")

    # Scores are weights, in float32 whatever the policy: a softmax in bfloat16 misses one by a thousandth.
    mask = np.broadcast_to((query_mask[:, :, None] & value_mask[:, None])[:, None], scores.shape)
    assert np.all(scores >= 0)
    assert not np.any(scores[~mask])
    np.testing.assert_allclose(scores.sum(axis=-1), mask.any(axis=-1), atol=1e-6)
    assert not np.any(context[~query_mask])

    # Later target positions change nothing earlier.
    later_query = np.concatenate([padded_query[:, :1], 1 - padded_query[:, 1:]], axis=1)
    later_context, later_scores = call(later_query, padded_value, query_mask, value_mask)
    np.testing.assert_array_equal(later_context[:, :1], context[:, :1])
    np.testing.assert_array_equal(later_scores[:, :, :1], scores[:, :, :1])

    # Steps equal the call; hypotheses of one sentence that change places take their state with them;
    # a row of padding, such as fills up a batch, gets nothing.
    everywhere = np.ones_like(QUERY_MASK)
    for rows, order, real in (([0, 1], [0, 1], True), ([1, 1], [1, 0], True), ([1, 1], [0, 1], False)):
        mask = value_mask[rows]
        mask[1] &= real
        context, scores = step(query, padded_value[rows], mask, np.array(order))
        what = f"steps in sentences {rows}"
        check(context, scores, query, value[rows], everywhere, mask[:, :SOURCE], what)


def step_through(layer, query, value, value_mask, order):
    """Context and scores of all positions from steps; after the first, rows of the batch take a new order."""

    def reorder(xs):
        return tree.map_structure(lambda x: ops.take(x, order, axis=0), xs)

    def signature(state):
        return tree.map_structure(lambda x: (tuple(x.shape), str(x.dtype)), state)

    memory = layer.prepare(value, value_mask=value_mask)
    context, scores, state = layer.step(query[:, 0], memory, layer.initial_state(memory))
    assert signature(state) == signature(layer.initial_state(memory)), "no loop could carry this state"
    dtypes = [keras.backend.standardize_dtype(x.dtype) for x in (context, scores)]
    assert dtypes == [layer.compute_dtype, "float32"]
    contexts, all_scores = [reorder(context)], [reorder(scores)]
    query, state = reorder(query), reorder(state)
    for i in range(1, TARGET):
        context, scores, state = layer.step(query[:, i], memory, state)
        contexts.append(context)
        all_scores.append(scores)
    return reorder(ops.stack(contexts, axis=1)), reorder(ops.stack(all_scores, axis=2))


@every_mechanism
def test_forms_of_masks(name):
    """Masks in parts, in one piece, with an axis of heads, and causal; scores are taken before dropout."""
    layer = layer_of(name)
    inputs = inputs_of(name)
    whole = combined_mask(TARGET, SOURCE, **MASKS)
    triangle = ATTENTION_MASK & np.tril(np.ones((TARGET, SOURCE), dtype=bool))

    def everything(inputs):
        return {
            "parts": layer(**inputs, **MASKS),
            "scores": layer(**inputs, attention_mask=whole, return_attention_scores=True, training=True)[1],
            "heads": layer(**inputs, attention_mask=whole[:, None]),
            "causal": layer(**inputs, attention_mask=ATTENTION_MASK, use_causal_mask=True),
        }

    found = compiled(everything)(inputs)
    weights = weights_of(layer)
    context, scores = expected(name, weights, inputs, layer.num_heads, attention_mask=whole)
    assert_close(found["parts"], context, "float32", "masks in parts")
    assert_close(found["scores"], scores, "float32", "scores in training")
    assert_close(found["heads"], context, "float32", "a mask with an axis of heads")
    context, _ = expected(name, weights, inputs, layer.num_heads, attention_mask=triangle)
    assert_close(found["causal"], context, "float32", "causal")


@every_mechanism
def test_lengths_unknown_when_traced(name):
    """Law 9: one trace for all lengths; a single position on either side."""
    layer = layer_of(name)
    call = of_unknown_sizes(
        lambda inputs: layer(**inputs, return_attention_scores=True),
        {**inputs_of(name), "value_mask": VALUE_MASK},
    )
    for target, source in ((1, 2), (2, 1), (5, 3)):
        inputs = inputs_of(name, target, source)
        mask = np.ones((2, source), dtype=bool)
        mask[1, source // 2 :] = False
        context, scores = call({**inputs, "value_mask": mask})
        wanted = expected(name, weights_of(layer), inputs, layer.num_heads, value_mask=mask)
        assert_close(context, wanted[0], "float32", f"context at {target}, {source}")
        assert_close(scores, wanted[1], "float32", f"scores at {target}, {source}")


@every_mechanism
def test_weights_do_not_start_equal(name):
    """One initialiser for two kernels of a shape would draw the same numbers twice."""
    layer = get_attention(name, width=11)
    layer.build((None, None, 11), (None, None, 11))
    kernels = [w for w in (ops.convert_to_numpy(w.value) for w in layer.weights) if np.ptp(w) > 0]
    for a, b in itertools.combinations(kernels, 2):
        assert not np.array_equal(a.ravel(), b.ravel())


@every_mechanism
def test_config_round_trip(name):
    """Law 8: the configuration is plain data and makes the same layer."""
    layer = layer_of(name, "mixed_bfloat16")
    config = json.loads(json.dumps(layer.get_config()))
    assert type(layer).from_config(config).get_config() == layer.get_config()


def test_weights_of_another_backend(tmp_path):
    """Law 8: weights saved under another backend arrive whole; by law 1 they give the same outputs there."""
    if importlib.util.find_spec(OTHER_BACKEND) is None:
        pytest.skip(f"needs {OTHER_BACKEND}")
    script = f"import tests.conftest; from tests.layers.cases import save_weights; save_weights({str(tmp_path)!r})"
    subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "KERAS_BACKEND": OTHER_BACKEND},
        cwd=Path(__file__).parents[2],
        check=True,
    )
    for name in CROSS:
        model = model_of(name)
        wanted = weights_of(model)
        fill_weights(model, seed=1)
        model.load_weights(tmp_path / f"{name}.weights.h5")
        tree.map_structure(np.testing.assert_array_equal, weights_of(model), wanted)


@every_mechanism
@pytest.mark.parametrize(
    ("part", "shape", "message"),
    [
        ("query", (2, 7), r"`query` must have shape \(batch, target, query_dim\). Received: shape \(2, 7\)"),
        ("value", (2, 5, 1, 11), r"`value` must have shape .* Received: shape \(2, 5, 1, 11\)"),
        ("value", (3, 5, 11), r"`value` must have shape .* with batch 2. Received: shape \(3, 5, 11\)"),
        ("key", (2, 4, 11), r"`key` must have shape .*\(2, 5, ...\). Received: shape \(2, 4, 11\)"),
        ("query_mask", (2, 5), r"`query_mask` must have shape .*\(2, 3\). Received: shape \(2, 5\)"),
        ("value_mask", (2, 3), r"`value_mask` must have shape .*\(2, 5\). Received: shape \(2, 3\)"),
        ("value_mask", (2, 1, 5), r"`value_mask` must have shape .*\(2, 5\). Received: shape \(2, 1, 5\)"),
        ("attention_mask", (3, 5), r"`attention_mask` must .*\(2, 3, 5\).* Received: shape \(3, 5\)"),
        ("attention_mask", (2, 5, 3), r"`attention_mask` must .*\(2, 3, 5\).* Received: shape \(2, 5, 3\)"),
        ("attention_mask", (2, 3, 3, 5), r"`attention_mask` must .* Received: shape \(2, 3, 3, 5\)"),
    ],
)
@pytest.mark.parametrize("symbolic", [False, True])
def test_shapes_that_do_not_fit(name, part, shape, message, symbolic):
    layer = layer_of(name)
    inputs = inputs_of(name)
    inputs[part] = numbers("bad", *shape) if "mask" not in part else np.ones(shape, dtype=bool)
    if symbolic:
        inputs = {k: keras.KerasTensor(x.shape, str(x.dtype)) for k, x in inputs.items()}
    with pytest.raises(ValueError, match=message):
        layer(**inputs)

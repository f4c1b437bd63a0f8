"""The laws that every attention layer of the registry keeps, under every backend and both policies.

A mechanism joins by its decorator and a file of its own in `references/`. Under PyTorch, which compiles nothing, every
mechanism keeps every law. Under the others values, gradients and steps are compared by day for each base class, and
under TensorFlow, which takes no two types together, for each class that has casts of its own; at night for all.
"""

import itertools
import json

import keras
import numpy as np
import pytest
from keras import ops, tree

from keras_attn_zoo.kernels import combine_masks
from keras_attn_zoo.layers import ATTENTIONS, get_attention
from tests.layers.calls import BACKEND, assert_close, compiled, of_unknown_sizes
from tests.layers.cases import (
    BATCH,
    CASES,
    OF_BASES,
    ONE_OF_EACH_BASE,
    WITH_CASTS,
    expected_loss_and_gradients,
    weights_of,
)
from tests.layers.references import REFERENCES
from tests.shared_files import of_another_backend
from tests.weights import fill_weights

# JAX compiles for each.
OTHER_LENGTHS = ((1, 2), (2, 1)) if BACKEND == "jax" else ((1, 2), (2, 1), (5, 3), (3, 7))
COMPUTE_TYPE = {"float32": "float32", "mixed_bfloat16": "bfloat16"}
# PyTorch has no XLA, and its own compiler takes minutes. TensorFlow runs once without and once with XLA.
JIT_COMPILE = {"float32": BACKEND == "jax", "mixed_bfloat16": BACKEND != "torch"}
COMPILED = BACKEND != "torch"
IN_POLICY = {"float32": CASES, "mixed_bfloat16": WITH_CASTS if COMPILED else CASES}
OF_FLOAT32 = WITH_CASTS if BACKEND == "tensorflow" else OF_BASES
BY_DAY = {"float32": OF_FLOAT32, "mixed_bfloat16": OF_BASES} if COMPILED else IN_POLICY


@pytest.fixture(autouse=True)
def without_determinism():
    """Keras leaves XLA aside while TensorFlow is deterministic, as a test of a run folder made it for its process."""
    if BACKEND == "tensorflow":
        from tensorflow.python.framework.config import disable_op_determinism

        disable_op_determinism()


every_base = pytest.mark.parametrize("case", OF_BASES, ids=str)
every_base_without_state = pytest.mark.parametrize("case", [case for case in OF_BASES if case.has_no_state], ids=str)


def marks(case, policy):
    """References find sparse weights by bisection, which takes a while; normalisers have tests of their own."""
    if case not in BY_DAY[policy] or (case.normalizer != "softmax" and policy != "float32"):
        return (pytest.mark.slow,)
    return () if case in WITH_CASTS and case.normalizer == "softmax" and policy == "float32" else (pytest.mark.long,)


both_policies = pytest.mark.parametrize(
    ("case", "policy"),
    [pytest.param(case, policy, marks=marks(case, policy)) for policy, cases in IN_POLICY.items() for case in cases],
    ids=str,
)


def assert_weights(scores, mask, case, atol=1e-6):
    """Law 5: weights sum to one over what may be attended, or leave a share to what is no source position.

    Those of a sigmoid do not compete: each has a share of one for itself.
    """
    assert np.all(scores >= 0)
    assert not np.any(scores[~mask])
    total, some = scores.sum(axis=-1), mask.any(axis=-1)
    if case.normalizer == "sigmoid":
        assert np.all((scores[mask] > 0) & (scores[mask] < 1))
    elif case.reference.share or case.normalizer == "softmax1":
        assert np.all(total < 1 + atol)
        assert np.all(total[some] > 0)
    else:
        np.testing.assert_allclose(total, some, atol=atol)


def with_bad_padding(x):
    """A sequence with two more positions, of NaN and of infinity."""
    bad = np.ones_like(x[:, :2]) * np.array([[np.nan], [np.inf]], dtype="float32")
    return np.concatenate([x, bad], axis=1)


def test_every_mechanism_has_a_reference():
    assert sorted(REFERENCES) == sorted(ATTENTIONS)


@keras.saving.register_keras_serializable(package="keras_attn_zoo_tests")
class Linear(keras.losses.Loss):
    """Coefficients times outputs, summed."""

    def call(self, y_true, y_pred):
        products = y_true * ops.cast(y_pred, "float32")
        # Keras takes the mean over the batch.
        return ops.shape(products)[0] * ops.sum(products, axis=tuple(range(1, len(products.shape))))


@both_policies
def test_gradients_of_a_fit(case, policy, tmp_path):
    """Laws 1, 3, 6, 7, 8 and 9: a model of unknown lengths, saved and loaded, takes one step of gradient descent.

    All masks are at work, NaN and infinity stand in the padding, and a row has nothing to attend. With a learning
    rate of 1 the gradient is what the step takes off a weight.
    """
    model, jit_compile = case.model(policy), JIT_COMPILE[policy]
    assert [(x.shape[1:], x.dtype) for x in model.outputs] == [
        ((None, case.context_dim(with_key=True)), COMPUTE_TYPE[policy]),
        ((case.reference.num_heads, None, None), "float32"),
    ]
    model.compile(keras.optimizers.SGD(1.0), [Linear(), Linear()], jit_compile=jit_compile)
    model.save(tmp_path / "model.keras")
    model = keras.saving.load_model(tmp_path / "model.keras")
    assert model.jit_compile == jit_compile
    before = weights_of(model)
    inputs = {**case.with_nan_in_padding(case.inputs(with_key=True)), **case.masks}
    history = model.fit(inputs, list(case.coefficients), batch_size=BATCH, shuffle=False, verbose=0).history

    loss, by_weight, by_input = expected_loss_and_gradients(case)
    assert_close(history["loss"][0], loss, policy, "loss")
    gradients = {path: before[path] - after for path, after in weights_of(model).items()}
    for weight in model.get_layer(str(case)).trainable_weights:
        without = weight.path.removeprefix(f"{case}/") in case.reference.without_gradient
        assert without or np.any(gradients[weight.path]), f"{weight.path} gets no gradient"
    wanted = {f"{case}/{weight}": gradient for weight, gradient in by_weight.items()}
    wanted |= {f"{part}_offset/offset": gradient for part, gradient in by_input.items()}
    assert gradients.keys() == wanted.keys()
    for path, gradient in gradients.items():
        assert_close(gradient, wanted[path], policy, f"gradient of {path}")


@both_policies
def test_call(case, policy):
    """Laws 1, 3, 4, 5, 6 and 9: one trace for all lengths; NaN and infinity are the padding on both sides.

    JAX traces nothing whose sizes it does not know, and compiles for each length anew.
    """
    layer = case.layer(policy)
    inputs, masks = case.inputs(), {"query_mask": case.masks["query_mask"]}
    if case.cross:
        masks["value_mask"] = case.masks["value_mask"]
    padded = {part: with_bad_padding(x) for part, x in inputs.items()}
    padded_masks = {part: np.pad(x, ((0, 0), (0, 2))) for part, x in masks.items()}
    call = of_unknown_sizes(
        lambda inputs: layer(**inputs, **case.causal, return_attention_scores=True), {**padded, **padded_masks}
    )

    context, scores = call({**padded, **padded_masks})
    wanted = case.expected(weights_of(layer), inputs, **masks, **case.causal)
    assert_close(context[:, : case.target], wanted[0], policy, "context")
    assert_close(scores[:, :, : case.target, : case.source], wanted[1], policy, "scores")

    # Scores are weights, in float32 whatever the policy: a softmax in bfloat16 misses one by a thousandth.
    query_mask, value_mask = padded_masks["query_mask"], padded_masks.get("value_mask", padded_masks["query_mask"])
    mask = query_mask[:, :, None] & value_mask[:, None]
    if case.causal:
        mask &= np.tril(np.ones(mask.shape[1:], dtype=bool))
    assert_weights(scores, np.broadcast_to(mask[:, None], scores.shape), case)
    assert not np.any(context[~query_mask])

    # Later target positions change nothing earlier.
    query = padded["query"]
    later = {**padded, "query": np.concatenate([query[:, :1], 1 - query[:, 1:]], axis=1)}
    later_context, later_scores = call({**later, **padded_masks})
    np.testing.assert_array_equal(later_context[:, :1], context[:, :1])
    np.testing.assert_array_equal(later_scores[:, :, :1], scores[:, :, :1])

    # A single position on either side; a row of padding alone.
    for target, source in OTHER_LENGTHS if policy == "float32" and (BACKEND != "jax" or case in WITH_CASTS) else ():
        inputs = case.inputs(target, source)
        masks = {f"{part}_mask": np.ones(x.shape[:2], dtype=bool) for part, x in inputs.items()}
        padding = masks["value_mask" if case.cross else "query_mask"]
        padding[1, padding.shape[1] // 2 :] = False
        context, scores = call({**inputs, **masks})
        wanted = case.expected(weights_of(layer), inputs, **masks, **case.causal)
        assert_close(context, wanted[0], policy, f"context at {target}, {source}")
        assert_close(scores, wanted[1], policy, f"scores at {target}, {source}")


@both_policies
def test_step(case, policy):
    """Laws 2 and 6: steps equal the call, and hypotheses that change places take their state with them."""
    layer = case.layer(policy)
    weights, inputs = weights_of(layer), case.inputs()
    if case.cross:
        prepare = compiled(lambda value, value_mask: layer.prepare(value, value_mask=value_mask), to_arrays=False)
        value = with_bad_padding(inputs["value"])
        value_mask = np.pad(case.masks["value_mask"], ((0, 0), (0, 2)))
        step = compiled(lambda query, order, memory: step_through(layer, query, order, memory))
    else:

        def step(query, order):
            memory = layer.prepare(max_length=7, **case.asking_for_scores)
            return step_through(layer, query, order, memory)

        step = compiled(step)

    # Different sentences; then two hypotheses of one; then a row of padding, such as fills up a batch.
    for rows, order, real in (([0, 1], [0, 1], True), ([1, 1], [1, 0], True), ([1, 1], [0, 1], False)):
        if case.cross:
            mask = value_mask[rows]
            mask[1] &= real
            found = step(inputs["query"], np.array(order), prepare(value[rows], mask))
            these = {**inputs, "value": inputs["value"][rows]}
            wanted = case.expected(weights, these, value_mask=mask[:, : case.source])
        elif real:
            found = step(inputs["query"], np.array(order))
            wanted = case.expected(weights, inputs, **case.causal)
        assert_close(found[0], wanted[0], policy, f"context, rows {rows}")
        assert_close(found[1][..., : case.source], wanted[1], policy, f"scores, rows {rows}")
        assert not np.any(found[1][..., case.source :])


@every_base_without_state
def test_rows_of_one_sentence_share_its_memory(case):
    """Several rows of a query for each sentence, where there is no state: as if each had a copy of the memory."""
    layer = case.layer()
    inputs = case.inputs()
    assert not layer.initial_state(layer.prepare(inputs["value"]))
    query = np.random.default_rng(8).standard_normal((3 * BATCH, inputs["query"].shape[-1])).astype("float32")

    def run(query, value, value_mask):
        memory = layer.prepare(value, value_mask=value_mask)
        copies = tree.map_structure(lambda x: ops.repeat(x, 3, axis=0), memory)
        return layer.step(query, memory, {}, position=2)[:2], layer.step(query, copies, {}, position=2)[:2]

    shared, copied = compiled(run)(query, inputs["value"], case.masks["value_mask"])
    assert shared[0].shape[0] == shared[1].shape[0] == 3 * BATCH
    for found, wanted, what in zip(shared, copied, ("context", "scores"), strict=True):
        assert_close(found, wanted, "float32", what)


@pytest.mark.one_backend
@every_base
def test_attend_is_the_body_of_a_call(case):
    """From a memory and one mask, what a call makes of its masks; with scores or without."""
    layer, inputs = case.layer(), case.inputs()
    masks = {part: case.masks[part] for part in ("query_mask", "value_mask") if part in case.masks}
    query, value = inputs["query"] * masks["query_mask"][..., None], inputs.get("value", inputs["query"])
    value_mask = masks.get("value_mask", masks["query_mask"])

    def run():
        mask = combine_masks(masks["query_mask"], value_mask, None, not case.cross, query.shape[1], value.shape[1])
        return (
            layer(**inputs, **masks, **case.causal, return_attention_scores=True),
            layer(**inputs, **masks, **case.causal),
            layer.attend(query, layer.prepare(value, value_mask=value_mask), mask),
        )

    wanted, alone, found = compiled(run)()
    assert_close(alone, wanted[0], "float32", "context alone")
    assert_close(found[0], wanted[0], "float32", "context of attend")
    assert_close(found[1], wanted[1], "float32", "scores of attend")


def step_through(layer, query, order, memory):
    """Context and scores of all positions from steps; after the first, rows of the batch take a new order."""

    def reorder(xs):
        return tree.map_structure(lambda x: ops.take(x, order, axis=0), xs)

    def signature(state):
        return tree.map_structure(lambda x: (tuple(x.shape), str(x.dtype)), state)

    start = layer.initial_state(memory, batch_size=BATCH)
    context, scores, state = layer.step(query[:, 0], memory, start, position=0)
    assert signature(state) == signature(start), "no loop could carry this state"
    dtypes = [keras.backend.standardize_dtype(x.dtype) for x in (context, scores)]
    assert dtypes == [layer.compute_dtype, "float32"]
    contexts, all_scores = [reorder(context)], [reorder(scores)]
    query, state = reorder(query), reorder(state)
    for i in range(1, query.shape[1]):
        context, scores, state = layer.step(query[:, i], memory, state, position=i)
        contexts.append(context)
        all_scores.append(scores)
    return reorder(ops.stack(contexts, axis=1)), reorder(ops.stack(all_scores, axis=2))


@every_base
def test_weights_do_not_start_equal(case):
    """One initialiser for two kernels of a shape would draw the same numbers twice."""
    layer = get_attention(case.name, 12, 1, 12, case.place)
    shape = (None, None, 12)
    layer.build(shape, shape) if case.cross else layer.build(shape)
    kernels = [w for w in (ops.convert_to_numpy(w.value) for w in layer.weights) if np.ptp(w) > 0]
    for a, b in itertools.combinations(kernels, 2):
        assert not np.array_equal(a.ravel(), b.ravel())


@every_base
def test_config_round_trip(case):
    """Law 8: the configuration is plain data and makes the same layer."""
    layer = case.layer("mixed_bfloat16")
    config = json.loads(json.dumps(layer.get_config()))
    assert type(layer).from_config(config).get_config() == layer.get_config()


@pytest.mark.long
@pytest.mark.slow_compiled
def test_weights_of_another_backend():
    """Law 8: weights saved under another backend arrive whole; by law 1 they give the same outputs there."""
    folder = of_another_backend("tests.layers.cases", "save_weights")
    for case in ONE_OF_EACH_BASE:
        model = case.model()
        wanted = weights_of(model)
        fill_weights(model, seed=1)
        model.load_weights(folder / f"{case}.weights.h5")
        tree.map_structure(np.testing.assert_array_equal, weights_of(model), wanted)

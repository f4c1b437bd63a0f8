"""The laws that every attention layer of the registry keeps, under every backend and both policies.

A mechanism joins by its decorator and a file of its own in `references/`. Under PyTorch, which compiles nothing, every
mechanism keeps every law. Under the others every mechanism has its values, gradients and steps compared in float32;
what the base classes do for all is looked at once for each base class, and mixed precision there, and wherever a class
has casts of its own.
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

from keras_attn_zoo.layers import ATTENTIONS, get_attention
from tests.layers.calls import BACKEND, compiled, of_unknown_sizes, to_numpy
from tests.layers.cases import (
    BATCH,
    CASES,
    ONE_OF_EACH_BASE,
    WITH_CASTS,
    expected_loss_and_gradients,
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
JIT_COMPILE = {"float32": BACKEND == "jax", "mixed_bfloat16": BACKEND != "torch"}
COMPILED = BACKEND != "torch"
IN_POLICY = {"float32": CASES, "mixed_bfloat16": WITH_CASTS if COMPILED else CASES}
OF_BASES = ONE_OF_EACH_BASE if COMPILED else CASES


@pytest.fixture(autouse=True)
def without_determinism():
    """Keras leaves XLA aside while TensorFlow is deterministic, as a test of a run folder made it for its process."""
    if BACKEND == "tensorflow":
        from tensorflow.python.framework.config import disable_op_determinism

        disable_op_determinism()


every_base = pytest.mark.parametrize("case", OF_BASES, ids=str)
every_base_across = pytest.mark.parametrize("case", [case for case in OF_BASES if case.cross], ids=str)
every_base_within = pytest.mark.parametrize("case", [case for case in OF_BASES if not case.cross], ids=str)
both_policies = pytest.mark.parametrize(
    ("case", "policy"), [(case, policy) for policy, cases in IN_POLICY.items() for case in cases], ids=str
)


def assert_close(actual, desired, policy, what=""):
    largest = max(1.0, np.max(np.abs(desired), initial=0))
    np.testing.assert_allclose(actual, desired, rtol=0, atol=TOLERANCE[policy] * largest, err_msg=what)


def assert_weights(scores, mask, share, atol=1e-6):
    """Law 5: weights sum to one over what may be attended, or leave a share to what is no source position."""
    assert np.all(scores >= 0)
    assert not np.any(scores[~mask])
    total, some = scores.sum(axis=-1), mask.any(axis=-1)
    if share:
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
    """Laws 1, 3, 4, 5 and 6: the layer gets NaN and infinity as padding on both sides, the reference does not."""
    layer = case.layer(policy)
    call = compiled(lambda inputs: layer(**inputs, **case.causal, return_attention_scores=True))
    inputs, masks = case.inputs(), {"query_mask": case.masks["query_mask"]}
    if case.cross:
        masks["value_mask"] = case.masks["value_mask"]
    padded = {part: with_bad_padding(x) for part, x in inputs.items()}
    padded_masks = {part: np.pad(x, ((0, 0), (0, 2))) for part, x in masks.items()}

    context, scores = call({**padded, **padded_masks})
    wanted = case.expected(weights_of(layer), inputs, **masks, **case.causal)
    assert_close(context[:, : case.target], wanted[0], policy, "context")
    assert_close(scores[:, :, : case.target, : case.source], wanted[1], policy, "scores")

    # Scores are weights, in float32 whatever the policy: a softmax in bfloat16 misses one by a thousandth.
    query_mask, value_mask = padded_masks["query_mask"], padded_masks.get("value_mask", padded_masks["query_mask"])
    mask = query_mask[:, :, None] & value_mask[:, None]
    if case.causal:
        mask &= np.tril(np.ones(mask.shape[1:], dtype=bool))
    assert_weights(scores, np.broadcast_to(mask[:, None], scores.shape), case.reference.share)
    assert not np.any(context[~query_mask])

    # Later target positions change nothing earlier.
    query = padded["query"]
    later = {**padded, "query": np.concatenate([query[:, :1], 1 - query[:, 1:]], axis=1)}
    later_context, later_scores = call({**later, **padded_masks})
    np.testing.assert_array_equal(later_context[:, :1], context[:, :1])
    np.testing.assert_array_equal(later_scores[:, :, :1], scores[:, :, :1])


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
        step = compiled(lambda query, order: step_through(layer, query, order, layer.prepare(max_length=7)))

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


@every_base_across
def test_rows_of_one_sentence_share_its_memory(case):
    """Several rows of a query for each sentence, where there is no state: as if each had a copy of the memory."""
    layer = case.layer()
    inputs = case.inputs()
    if layer.initial_state(layer.prepare(inputs["value"])):
        pytest.skip("has a state")
    query = np.random.default_rng(8).standard_normal((3 * BATCH, inputs["query"].shape[-1])).astype("float32")

    def run(query, value, value_mask):
        memory = layer.prepare(value, value_mask=value_mask)
        copies = tree.map_structure(lambda x: ops.repeat(x, 3, axis=0), memory)
        return layer.step(query, memory, {})[:2], layer.step(query, copies, {})[:2]

    shared, copied = compiled(run)(query, inputs["value"], case.masks["value_mask"])
    assert shared[0].shape[0] == shared[1].shape[0] == 3 * BATCH
    for found, wanted, what in zip(shared, copied, ("context", "scores"), strict=True):
        assert_close(found, wanted, "float32", what)


def step_through(layer, query, order, memory):
    """Context and scores of all positions from steps; after the first, rows of the batch take a new order."""

    def reorder(xs):
        return tree.map_structure(lambda x: ops.take(x, order, axis=0), xs)

    def signature(state):
        return tree.map_structure(lambda x: (tuple(x.shape), str(x.dtype)), state)

    start = layer.initial_state(memory, batch_size=BATCH)
    context, scores, state = layer.step(query[:, 0], memory, start)
    assert signature(state) == signature(start), "no loop could carry this state"
    dtypes = [keras.backend.standardize_dtype(x.dtype) for x in (context, scores)]
    assert dtypes == [layer.compute_dtype, "float32"]
    contexts, all_scores = [reorder(context)], [reorder(scores)]
    query, state = reorder(query), reorder(state)
    for i in range(1, query.shape[1]):
        context, scores, state = layer.step(query[:, i], memory, state)
        contexts.append(context)
        all_scores.append(scores)
    return reorder(ops.stack(contexts, axis=1)), reorder(ops.stack(all_scores, axis=2))


@every_base
def test_forms_of_masks(case):
    """Masks in parts, in one piece, with an axis of heads, and causal; scores are taken before dropout."""
    layer = case.layer()
    inputs, masks = case.inputs(), case.masks
    # What stands for padding is said by the value's mask alone: the window of some mechanisms leaves padding out.
    value_mask = {"value_mask": masks["value_mask"]}
    whole = masks["attention_mask"] & masks["query_mask"][:, :, None] & masks["value_mask"][:, None]
    of_all = masks["attention_mask"][1]
    of_source = "key_mask" if case.cross else "value_mask"
    by_position = [ops.convert_to_tensor(x) for x in (masks["query_mask"], masks["value_mask"][:1], of_all[None])]
    by_position.insert(2, None)

    def everything(inputs):
        return {
            "parts": layer(**inputs, **masks),
            "scores": layer(**inputs, **value_mask, attention_mask=whole, return_attention_scores=True, training=True)[
                1
            ],
            "heads": layer(**inputs, **value_mask, attention_mask=whole[:, None]),
            "causal": layer(**inputs, attention_mask=masks["attention_mask"], use_causal_mask=True),
            # One column for all source positions.
            "queries": layer(**inputs, query_mask=masks["query_mask"], **case.causal),
            "column": layer(**inputs, attention_mask=masks["query_mask"][:, :, None], **case.causal),
            # As users of Keras' layer write it: by position, as lists, for all sentences alike.
            "by_position": layer(inputs["query"], inputs.get("value"), None, *by_position),
            "lists": layer(**inputs, attention_mask=of_all.tolist(), **{of_source: masks["value_mask"].tolist()}),
        }

    found = compiled(everything)(inputs)
    weights = weights_of(layer)
    context, scores = case.expected(weights, inputs, **value_mask, attention_mask=whole)
    assert_close(found["parts"], context, "float32", "masks in parts")
    assert_close(found["scores"], scores, "float32", "scores in training")
    assert_close(found["heads"], context, "float32", "a mask with an axis of heads")
    context, _ = case.expected(weights, inputs, attention_mask=masks["attention_mask"], use_causal_mask=True)
    assert_close(found["causal"], context, "float32", "causal")
    context, _ = case.expected(weights, inputs, query_mask=masks["query_mask"], **case.causal)
    assert_close(found["queries"], context, "float32", "a mask of the query alone")
    context, _ = case.expected(weights, inputs, attention_mask=masks["query_mask"][:, :, None], **case.causal)
    assert_close(found["column"], context, "float32", "a column")
    value_mask = {"value_mask": np.repeat(masks["value_mask"][:1], BATCH, axis=0)}
    context, _ = case.expected(weights, inputs, masks["query_mask"], **value_mask, attention_mask=of_all)
    assert_close(found["by_position"], context, "float32", "by position")
    context, _ = case.expected(weights, inputs, value_mask=masks["value_mask"], attention_mask=of_all)
    assert_close(found["lists"], context, "float32", "lists")


@every_base
@pytest.mark.filterwarnings("error::UserWarning")
def test_masks_that_keras_carries(case):
    """Law 10: what `Embedding(mask_zero=True)` knows of padding arrives, however the tensor is given, and goes on."""
    layer = case.layer()
    real = {"query": np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], dtype=bool)[:, : case.target]}
    real["value"] = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]], dtype=bool)
    inputs = case.inputs()

    def carried(inputs):
        """The inputs as Keras passes them on, without padding and with its mask."""
        masking = keras.layers.Masking()
        return {
            part: masking(ops.where(ops.convert_to_tensor(real[part])[..., None], x, 0.0)) for part, x in inputs.items()
        }

    def everything(inputs):
        x = carried(inputs)
        if case.cross:
            calls = {"by_name": layer(**x, return_attention_scores=True)}
        else:
            query = x["query"]
            alone = layer(query, **case.causal, return_attention_scores=True)
            calls = {
                "alone": alone,
                "twice": layer(query, query, **case.causal, return_attention_scores=True),
                "value": layer(query, value=query, **case.causal, return_attention_scores=True),
            }
        explicit = layer(**x, query_mask=np.ones((BATCH, case.target), dtype=bool), **case.causal)
        [(context, _), *_] = calls.values()
        return calls, keras.layers.GlobalAveragePooling1D()(context), explicit

    calls, pooled, explicit = compiled(everything)(inputs)
    weights = weights_of(layer)
    inputs = {part: np.where(real[part][..., None], x, 0) for part, x in inputs.items()}
    value_mask = {"value_mask": real["value"]} if case.cross else {}
    wanted = case.expected(weights, inputs, real["query"], **value_mask, **case.causal)
    for form, outputs in calls.items():
        assert_close(outputs[0], wanted[0], "float32", f"context, {form}")
        assert_close(outputs[1], wanted[1], "float32", f"scores, {form}")
    of_real = wanted[0].sum(axis=1) / real["query"].sum(axis=1, keepdims=True)
    assert_close(pooled, of_real, "float32", "the mask of the query goes on")
    context, _ = case.expected(weights, inputs, **value_mask, **case.causal)
    assert_close(explicit, context, "float32", "a mask that is given wins")


@pytest.mark.parametrize("case", WITH_CASTS if BACKEND == "jax" else CASES, ids=str)
def test_lengths_unknown_when_traced(case):
    """Law 9: one trace for all lengths; a single position on either side; a fully padded row.

    JAX traces nothing whose sizes it does not know, and compiles for each length anew.
    """
    layer = case.layer()
    mask_name = "value_mask" if case.cross else "query_mask"
    call = of_unknown_sizes(
        lambda inputs: layer(**inputs, **case.causal, return_attention_scores=True),
        {**case.inputs(), mask_name: case.masks[mask_name]},
    )
    for target, source in ((1, 2), (2, 1), (5, 3), (3, 7)):
        inputs = case.inputs(target, source)
        mask = np.ones((BATCH, source if case.cross else target), dtype=bool)
        mask[1, mask.shape[1] // 2 :] = False
        context, scores = call({**inputs, mask_name: mask})
        wanted = case.expected(weights_of(layer), inputs, **{mask_name: mask}, **case.causal)
        assert_close(context, wanted[0], "float32", f"context at {target}, {source}")
        assert_close(scores, wanted[1], "float32", f"scores at {target}, {source}")


@every_base
def test_weights_do_not_start_equal(case):
    """One initialiser for two kernels of a shape would draw the same numbers twice."""
    layer = get_attention(case.name, 11, 1, 11, case.place)
    shape = (None, None, 11)
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
    for case in CASES:
        model = case.model()
        wanted = weights_of(model)
        fill_weights(model, seed=1)
        model.load_weights(tmp_path / f"{case}.weights.h5")
        tree.map_structure(np.testing.assert_array_equal, weights_of(model), wanted)


def assert_refused(case, part, shape, message, symbolic):
    layer = case.layer()
    inputs = case.inputs()
    inputs[part] = numbers("bad", *shape) if "mask" not in part else np.ones(shape, dtype=bool)
    if symbolic:
        inputs = {k: keras.KerasTensor(x.shape, str(x.dtype)) for k, x in inputs.items()}
    with pytest.raises(ValueError, match=message):
        layer(**inputs)


@every_base
@pytest.mark.parametrize(
    ("part", "shape", "message"),
    [
        ("query", (2, 7), r"`query` must have shape \(batch, target, query_dim\). Received: shape \(2, 7\)"),
        ("query_mask", (2, 4), r"`query_mask` must have shape .*Received: shape \(2, 4\)"),
        ("value_mask", (2, 3), r"`value_mask` must have shape .*\(2, 5\). Received: shape \(2, 3\)"),
        ("value_mask", (2, 1, 5), r"`value_mask` must have shape .*\(2, 5\). Received: shape \(2, 1, 5\)"),
        ("attention_mask", (4, 5), r"`attention_mask` must .*, 5\).* Received: shape \(4, 5\)"),
        ("attention_mask", (2, 5, 3), r"`attention_mask` must .*, 5\).* Received: shape \(2, 5, 3\)"),
        ("attention_mask", (2, 3, 3, 5), r"`attention_mask` must .* Received: shape \(2, 3, 3, 5\)"),
    ],
)
@pytest.mark.parametrize("symbolic", [False, True])
def test_shapes_that_do_not_fit(case, part, shape, message, symbolic):
    assert_refused(case, part, shape, message, symbolic)


@every_base_across
@pytest.mark.parametrize(
    ("part", "shape", "message"),
    [
        ("value", (2, 5, 1, 11), r"`value` must have shape .* Received: shape \(2, 5, 1, 11\)"),
        ("value", (3, 5, 11), r"`value` must have shape .* with batch 2. Received: shape \(3, 5, 11\)"),
        ("key", (2, 4, 11), r"`key` must have shape .*\(2, 5, ...\). Received: shape \(2, 4, 11\)"),
    ],
)
@pytest.mark.parametrize("symbolic", [False, True])
def test_values_that_do_not_fit(case, part, shape, message, symbolic):
    assert_refused(case, part, shape, message, symbolic)


@every_base
def test_what_a_mechanism_does_not_take(case):
    """A value where there is none to take, none where one is needed; the query itself is none."""
    layer = case.layer()
    query = numbers("query", BATCH, 5, case.reference.query_dim)
    if layer.attends_to == "value":
        with pytest.raises(ValueError, match=f"{type(layer).__name__} is cross-attention: it needs a `value`"):
            layer(query)
    if layer.attends_to == "itself":
        with pytest.raises(ValueError, match=f"{type(layer).__name__} is self-attention: leave `value` and `key` out"):
            layer(query, query + 1)
    if layer.attends_to != "value" and not case.cross:
        np.testing.assert_array_equal(*(ops.convert_to_numpy(layer(*x)) for x in ([query], [query, query])))


@every_base
def test_what_has_no_positions(case):
    """Without target or source positions contexts are empty, or 0: nothing is attended to."""
    layer = case.layer()
    for target, source in ((0, 5), (3, 0)) if case.cross else ((0, 0),):
        inputs = case.inputs(1, 1)
        inputs = {part: np.repeat(x, target if part == "query" else source, axis=1) for part, x in inputs.items()}
        context, scores = to_numpy(layer(**inputs, return_attention_scores=True))
        assert context.shape == (BATCH, target, case.context_dim())
        assert scores.shape == (BATCH, case.reference.num_heads, target, source)
        assert not context.any()


@every_base
def test_wrong_use(case):
    """Each mistake gets one line of the layer's own, whatever the mechanism."""
    layer, inputs = case.layer(), case.inputs()
    name = type(layer).__name__
    unbuilt = type(layer).from_config(layer.get_config())
    if layer.attends_to == "value":
        with pytest.raises(ValueError, match=f"^{name} is cross-attention: it needs a `value`"):
            unbuilt(inputs["query"])
    if layer.weights:
        with pytest.raises(ValueError, match=f"^{name}: steps need the weights that a first call makes"):
            unbuilt.prepare(inputs["value"]) if case.cross else unbuilt.prepare(max_length=3)
    with pytest.raises(ValueError, match=f"^{name}: `query_mask` must be an array of booleans, or lists of equal"):
        layer(**inputs, query_mask=[[True, False], [True]])
    for part in (*inputs, "value_mask", "attention_mask"):
        with pytest.raises(ValueError, match=f"^{name}: `{part}` must be a tensor of shape .* Received: 'words'"):
            layer(**{**inputs, part: "words"})
    for part, width in layer.built_widths.items():
        if part in inputs:
            wider = {**inputs, part: np.repeat(inputs[part], 2, axis=-1)}
            with pytest.raises(ValueError, match=f"^{name}: the layer was built for a {part} of width {width}. Rec"):
                layer(**wider)
    for given in (inputs, {part: keras.KerasTensor(x.shape) for part, x in inputs.items()}):
        with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
            layer(**given, foo=1)


@every_base_within
def test_steps_beyond_the_length_that_was_prepared(case):
    """What can be known is refused; what a compiled loop hides becomes NaN, and no weights that are too short."""
    layer = case.layer()
    query = case.inputs()["query"]

    def steps(query):
        memory = layer.prepare(max_length=2)
        state = layer.initial_state(memory, batch_size=BATCH)
        contexts = []
        for i in range(3):
            context, _, state = layer.step(query[:, i], memory, state)
            contexts.append(context)
        return ops.stack(contexts)

    with pytest.raises(ValueError, match=f"^{type(layer).__name__}: a step beyond the `max_length`=2 of `prepare`"):
        steps(query)
    if BACKEND != "torch":
        contexts = of_unknown_sizes(lambda inputs: steps(inputs["query"][:BATCH]), {"query": query})({"query": query})
        assert np.isnan(contexts).all(axis=(1, 2)).tolist() == [False, False, True]


@every_base
def test_sizes_of_numpy(case):
    """Numbers of NumPy are taken as what they are, and saved as plain ones."""
    layer = case.layer()
    types = {bool: np.bool_, int: np.int64, float: np.float64}
    config = {key: types.get(type(x), type(x))(x) if x is not None else None for key, x in layer.get_config().items()}
    keep = {key: layer.get_config()[key] for key in ("name", "dtype", "trainable") if key in config}
    again = type(layer).from_config({**config, **keep}).get_config()
    assert json.dumps(again) == json.dumps(layer.get_config())


@every_base
def test_initialisers_that_are_plain_functions(case):
    layer = case.layer()
    names = [name for name in layer.get_config() if name.endswith("_initializer")]

    def halves(shape, dtype=None):
        return ops.full(shape, 0.5, dtype=dtype)

    config = {**layer.get_config(), **dict.fromkeys(names, halves)}
    layer = type(layer).from_config(config)
    layer.build(**{f"{part}_shape": x.shape for part, x in case.inputs().items()})
    values = [ops.convert_to_numpy(w.value) for w in layer.weights]
    assert not values or not names or sum(np.all(x == 0.5) for x in values) >= len(names)

"""Calls that hold no array of all pairs of positions: longer than a chunk, they are still the equation."""

import functools

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import (
    ATTENTIONS,
    AttentionLayer,
    MultiHeadAttention,
    SlidingWindowAttention,
    get_attention,
)
from keras_attn_zoo.layers.base.matrix_recurrence import CHUNK
from keras_attn_zoo.layers.base.matrix_state import MatrixStateAttention
from keras_attn_zoo.layers.base.positions import POSITIONS
from tests.layers.calls import BACKEND, compiled, value_and_gradients
from tests.layers.cases import BATCH, CASES, numbers, weights_of
from tests.layers.test_memory import bytes_of_gradient
from tests.weights import fill_weights

# More than two chunks.
LENGTH = 2 * CHUNK + 5
IN_CHUNKS = [
    case
    for case in CASES
    if ATTENTIONS[case.name].layer.attend_in_chunks is not AttentionLayer.attend_in_chunks
    and case.normalizer == "softmax"
]
# Of the forms of several mechanisms, compiled by day: the base class with all that it has, and the blocks.
BY_DAY = {("gated_delta", True), ("sliding_window", False)}


def directions():
    """Each mechanism in both directions, unless it has one alone."""
    for case in IN_CHUNKS:
        for causal in (True, False)[: 1 if ATTENTIONS[case.name].layer.always_causal else 2]:
            marks = () if (case.name, causal) in BY_DAY else (pytest.mark.slow_compiled,)
            yield pytest.param(case, causal, marks=marks, id=f"{case.name}-{'causal' if causal else 'both'}")


@pytest.mark.parametrize(("case", "causal"), list(directions()))
def test_values_and_gradients(case, causal):
    """Values are those of the reference, gradients those of the call by all weights, which is held to it elsewhere."""
    layer, x = case.layer(), numbers("long", BATCH, LENGTH, case.reference.query_dim)
    by_weights = case.layer()
    real = np.ones((BATCH, LENGTH), dtype=bool)
    real[0, 1] = real[0, CHUNK - 1 : CHUNK + 1] = real[1, 0] = real[1, LENGTH - 7 :] = False
    times = numbers("times", BATCH, LENGTH, case.context_dim())

    def gradients(layer, **options):
        def loss(inputs):
            found = layer(inputs["query"], query_mask=real, use_causal_mask=causal, **options)
            return ops.sum((found[0] if options else found) * ops.convert_to_tensor(times)) / LENGTH

        return value_and_gradients(layer, loss, {"query": x})

    found = compiled(lambda x: layer(x, query_mask=real, use_causal_mask=causal))(x)
    masks = {"query_mask": real, "use_causal_mask": causal}
    wanted, _ = case.expected(weights_of(layer), {"query": x.astype("float64")}, **masks)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5)
    _, *own = gradients(layer)
    _, *others = gradients(by_weights, return_attention_scores=True)
    for one, other in zip(own, others, strict=True):
        for name, wanted in other.items():
            largest = max(1, np.abs(wanted).max())
            np.testing.assert_allclose(one[name], wanted, rtol=0, atol=2e-5 * largest, err_msg=name)


@pytest.mark.skipif(BACKEND != "jax", reason="the other backends do not tell it beforehand")
@pytest.mark.parametrize(("case", "causal"), list(directions()))
def test_memory_does_not_grow_as_pairs_of_positions(case, causal):
    length, heads, width = 2048, 4, 16
    layer = get_attention(case.name, width, heads, place="decoder")
    layer.build((1, length, width))
    layer.call = functools.partial(layer.call, use_causal_mask=causal)
    assert bytes_of_gradient(layer, (1, length, width)) < 4 * heads * length**2 / 2


MATRICES = [case for case in IN_CHUNKS if issubclass(ATTENTIONS[case.name].layer, MatrixStateAttention)]


@pytest.mark.one_backend
@pytest.mark.parametrize("case", MATRICES, ids=str)
def test_the_state_has_a_constant_size_unless_scores_are_asked_for(case):
    layer, x = case.layer(), case.inputs()["query"]

    def steps(max_length, **asked):
        memory = layer.prepare(max_length=max_length, **asked)
        state, found = layer.initial_state(memory, batch_size=BATCH), []
        for i in range(x.shape[1]):
            context, scores, state = layer.step(x[:, i], memory, state)
            found.append((context, scores))
        return {name: tuple(one.shape) for name, one in state.items()}, found

    (short, found), (long, _) = steps(5), steps(500)
    assert short == long
    asked, with_scores = steps(5, return_attention_scores=True)
    assert asked.pop("columns")[-1] == 5
    assert asked == short
    for (context, scores), (other, rows) in zip(found, with_scores, strict=True):
        np.testing.assert_array_equal(*map(ops.convert_to_numpy, (context, other)))
        assert (scores.shape[-1], rows.shape[-1]) == (0, 5)


@pytest.mark.one_backend
def test_a_window_is_all_that_steps_keep():
    layer = get_attention("sliding_window", 8, num_heads=2, place="decoder", window=5, sinks=2)
    layer.build((None, None, 8))
    state = layer.initial_state(layer.prepare(max_length=100), batch_size=3)
    assert state["key"].shape == state["value"].shape == (3, 2, 7, 4)


@pytest.mark.parametrize(
    ("options", "sinks"),
    [
        *(({"positions": kind}, 1) for kind in POSITIONS),
        ({"positions": "t5"}, 0),
        ({"num_key_value_heads": 2}, 1),
        ({"query_key_norm": True}, 1),
    ],
)
def test_a_window_of_what_dot_products_take(options, sinks):
    """Blocks and steps give what the weights of all pairs give, which for positions is multi-head attention's."""
    layer = SlidingWindowAttention(4, 6, window=3, sinks=sinks, **options)
    x = numbers("options", BATCH, 11, 8)
    layer.build(x.shape)
    fill_weights(layer)
    near = np.abs(np.subtract.outer(range(11), range(11))) < 3
    near[:, :sinks] = True
    base = MultiHeadAttention(4, 6, **options)
    base.build(x.shape, x.shape)
    base.set_weights(layer.get_weights())
    for causal in (True, False):
        wanted = base(x, attention_mask=np.broadcast_to(near, (BATCH, 11, 11)), use_causal_mask=causal)
        found = layer(x, use_causal_mask=causal)
        np.testing.assert_allclose(*map(ops.convert_to_numpy, (found, wanted)), atol=1e-5)
    whole, _ = layer(x, use_causal_mask=True, return_attention_scores=True)
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (layer(x, use_causal_mask=True), whole)), atol=1e-5)
    memory = layer.prepare(max_length=11)
    state, found = layer.initial_state(memory, batch_size=BATCH), []
    for position in range(11):
        context, _, state = layer.step(ops.convert_to_tensor(x[:, position]), memory, state, position=position)
        found.append(ops.convert_to_numpy(context))
    np.testing.assert_allclose(np.stack(found, axis=1), ops.convert_to_numpy(whole), atol=1e-5)


@pytest.mark.one_backend
def test_dropout_in_blocks():
    """A position that sees itself alone is either dropped or doubled."""
    layer = get_attention("sliding_window", 4, num_heads=1, place="decoder", dropout=0.5, window=1, sinks=0, seed=3)
    layer.build((None, None, 4))
    layer.value_dense.kernel.assign(np.eye(4)[:, None])
    layer.output_dense.kernel.assign(np.eye(4)[None])
    x = numbers("dropped", BATCH, LENGTH, 4) + 2
    found = ops.convert_to_numpy(layer(x, training=True))
    kept = found != 0
    assert 0.4 < kept.mean() < 0.6
    np.testing.assert_allclose(found[kept], 2 * x[kept], rtol=1e-5)

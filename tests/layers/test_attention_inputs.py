"""What every attention layer of the registry takes, and what it refuses, in one line of its own."""

import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import AttentionLayer
from tests.layers.calls import BACKEND, of_unknown_sizes, to_numpy
from tests.layers.cases import BATCH, OF_BASES, numbers

every_base = pytest.mark.parametrize("case", OF_BASES, ids=str)


REFUSED = [
    ("query", (2, 7), r"`query` must have shape \(batch, target, query_dim\). Received: shape \(2, 7\)"),
    ("query_mask", (2, 4), r"`query_mask` must have shape .*Received: shape \(2, 4\)"),
    ("value_mask", (2, 3), r"`value_mask` must have shape .*\(2, 5\). Received: shape \(2, 3\)"),
    ("value_mask", (2, 1, 5), r"`value_mask` must have shape .*\(2, 5\). Received: shape \(2, 1, 5\)"),
    ("attention_mask", (4, 5), r"`attention_mask` must .*, 5\).* Received: shape \(4, 5\)"),
    ("attention_mask", (2, 5, 3), r"`attention_mask` must .*, 5\).* Received: shape \(2, 5, 3\)"),
    ("attention_mask", (2, 3, 3, 5), r"`attention_mask` must .* Received: shape \(2, 3, 3, 5\)"),
]
REFUSED_ACROSS = [
    ("value", (2, 5, 1, 11), r"`value` must have shape .* Received: shape \(2, 5, 1, 11\)"),
    ("value", (3, 5, 11), r"`value` must have shape .* with batch 2. Received: shape \(3, 5, 11\)"),
    ("key", (2, 4, 11), r"`key` must have shape .*\(2, 5, ...\). Received: shape \(2, 4, 11\)"),
]


@pytest.mark.one_backend
@every_base
def test_shapes_that_do_not_fit(case):
    """Of arrays, and of symbolic tensors."""
    layer = case.layer()
    for part, shape, message in REFUSED + REFUSED_ACROSS * case.cross:
        given = {**case.inputs(), part: np.ones(shape, dtype=bool) if "mask" in part else numbers("bad", *shape)}
        symbolic = {name: keras.KerasTensor(x.shape, str(x.dtype)) for name, x in given.items()}
        for inputs in (given, symbolic):
            with pytest.raises(ValueError, match=message):
                layer(**inputs)


@pytest.mark.one_backend
@every_base
def test_values_that_do_not_belong(case):
    layer = case.layer()
    query = numbers("query", BATCH, 5, case.reference.query_dim)
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


@pytest.mark.one_backend
@every_base
def test_wrong_use(case):
    """Each mistake gets one line of the layer's own, whatever the mechanism."""
    layer, inputs = case.layer(), case.inputs()
    name = type(layer).__name__
    unbuilt = type(layer).from_config(layer.get_config())
    if layer.attends_to == "value":
        for one in (layer, unbuilt):
            with pytest.raises(ValueError, match=f"^{name} is cross-attention: it needs a `value`"):
                one(inputs["query"])
    if layer.weights:
        with pytest.raises(ValueError, match=f"^{name}: steps need the weights that a first call creates"):
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


@pytest.mark.one_backend
@every_base
def test_wrong_use_of_steps(case):
    """Nothing that does not fit is broadcast to a batch or a source of another size."""
    layer, inputs, masks = case.layer(), case.inputs(with_key=False), case.masks
    name, query = type(layer).__name__, inputs["query"]
    if case.cross:
        value = inputs["value"]
        for wrong, found in (
            ({"value": value[0]}, "`value` must have shape"),
            ({"key": value[:, :-1]}, "`key` must have shape"),
            ({"value_mask": masks["value_mask"][:, :-1]}, "`value_mask` must have shape"),
        ):
            with pytest.raises(ValueError, match=f"^{name}: {found}"):
                layer.prepare(**{"value": value, **wrong})
        memory = layer.prepare(value)
    else:
        memory = layer.prepare(max_length=3)
    state = layer.initial_state(memory, batch_size=BATCH)
    for wrong in (query[:, :1], query[0, 0]):
        with pytest.raises(ValueError, match=f"^{name}: `query` must have shape .batch, "):
            layer.step(wrong, memory, state, position=0)
    if "query" in layer.built_widths:
        with pytest.raises(ValueError, match=f"^{name}: `query` must have shape .batch, {query.shape[-1]}\\)"):
            layer.step(query[:, 0, :2], memory, state, position=0)


@pytest.mark.one_backend
@pytest.mark.parametrize("case", [case for case in OF_BASES if case.cross], ids=str)
def test_a_mask_of_one_row_or_one_position_is_that_of_all(case):
    """In steps as in a call."""
    layer, inputs, mask = case.layer(), case.inputs(), case.masks["value_mask"]
    for part in (mask[1:], mask[:, :1]):
        whole = np.broadcast_to(part, mask.shape)
        memory, same = layer.prepare(inputs["value"], value_mask=part), layer.prepare(inputs["value"], value_mask=whole)
        found, expected = (
            layer.step(inputs["query"][:, 0], one, layer.initial_state(one), position=0)[:2] for one in (memory, same)
        )
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ops.convert_to_numpy(one), ops.convert_to_numpy(other))


class PlainAttention(AttentionLayer):
    """A mechanism of one's own, without weights; `axis` is where the energies have their heads, None for nowhere."""

    def __init__(self, axis=1, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis

    def energies(self, query, memory):
        energies = ops.matmul(query, ops.transpose(memory["key"], (0, 2, 1)))
        return energies if self.axis is None else ops.expand_dims(energies, self.axis)


@pytest.mark.one_backend
def test_a_mechanism_without_weights_needs_no_build():
    x = np.ones((2, 3, 4), dtype="float32")
    layer = PlainAttention()
    layer.build(x.shape, x.shape)
    assert layer.prepare(x)["key"].shape == layer(x, x).shape == (2, 3, 4)


@pytest.mark.one_backend
def test_energies_without_heads_are_refused():
    """They would be broadcast over the batch."""
    x = np.ones((2, 3, 4), dtype="float32")
    with pytest.raises(ValueError, match=r"PlainAttention: `energies` must have shape .* Received: shape \(2, 3, 3\)"):
        PlainAttention(axis=None)(x, x)


@pytest.mark.parametrize("case", [case for case in OF_BASES if not case.cross], ids=str)
def test_steps_beyond_the_length_that_was_prepared(case):
    """What can be known is refused; what a compiled loop hides becomes NaN, and no weights that are too short."""
    layer = case.layer()
    query = case.inputs()["query"]

    def steps(query):
        memory = layer.prepare(max_length=2)
        state = layer.initial_state(memory, batch_size=BATCH)
        contexts = []
        for i in range(3):
            context, _, state = layer.step(query[:, i], memory, state, position=i)
            contexts.append(context)
        return ops.stack(contexts)

    with pytest.raises(ValueError, match=f"^{type(layer).__name__}: a step beyond the `max_length`=2 of `prepare`"):
        steps(query)
    if BACKEND != "torch":
        contexts = of_unknown_sizes(lambda inputs: steps(inputs["query"][:BATCH]), {"query": query})({"query": query})
        assert np.isnan(contexts).all(axis=(1, 2)).tolist() == [False, False, True]


@pytest.mark.one_backend
@every_base
def test_sizes_of_numpy(case):
    """Numbers of NumPy are taken as what they are, and saved as plain ones."""
    layer = case.layer()
    types = {bool: np.bool_, int: np.int64, float: np.float64}
    config = {key: types.get(type(x), type(x))(x) if x is not None else None for key, x in layer.get_config().items()}
    keep = {key: layer.get_config()[key] for key in ("name", "dtype", "trainable") if key in config}
    again = type(layer).from_config({**config, **keep}).get_config()
    assert json.dumps(again) == json.dumps(layer.get_config())


@pytest.mark.one_backend
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


@every_base
def test_float64(case):
    """Where JAX has none, it computes in float32, as Keras' own layers do."""
    inputs = case.inputs()
    wide, layer = case.layer("float64"), case.layer()
    wide.set_weights([ops.convert_to_numpy(weight) for weight in layer.weights])
    found, wanted = (to_numpy(one(**inputs)) for one in (wide, layer))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)

"""Multi-head attention against Keras' own layer, and dropout in all attentions with heads."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import ATTENTIONS, MultiHeadAttention, get_attention
from tests.layers.calls import compiled, to_numpy
from tests.layers.cases import masks_of, numbers
from tests.weights import fill_weights

QUERY, VALUE, KEY = numbers("query", 2, 3, 7), numbers("value", 2, 5, 13), numbers("key", 2, 5, 11)
HEADED = sorted(
    name
    for name, entry in ATTENTIONS.items()
    if issubclass(entry.layer, MultiHeadAttention) and "cross" in entry.places
)


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_heads": 3, "key_dim": 5},
        {"num_heads": 1, "key_dim": 5, "value_dim": 2, "output_shape": 17},
        {"num_heads": 3, "key_dim": 5, "use_bias": False},
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_equal_to_keras_with_its_weights(arguments, dtype, tmp_path):
    """Weights go from Keras' layer into ours as a list, masks by position as they come in Keras."""
    theirs = keras.layers.MultiHeadAttention(**arguments, dtype=dtype, name="attention")
    ours = MultiHeadAttention(**arguments, dtype=dtype, name="attention")
    masks = masks_of(3, 5)
    # Keras gives a row with nothing to attend weights where ours gives 0.
    masks["attention_mask"][0, 1] = True
    masks["query_mask"][:] = True

    # The mask of the query is without effect here: Keras' layer takes none but what its tensor carries.
    key_mask = np.array([[True, True, True, True, False]] * 2)
    given = [QUERY, VALUE, KEY, masks["query_mask"], masks["value_mask"], key_mask, masks["attention_mask"][1:]]

    def call(layer):
        return compiled(lambda given: layer(*given, return_attention_scores=True))(given)

    call(theirs)
    fill_weights(theirs)
    call(ours)
    ours.set_weights(theirs.get_weights())
    for name in ("weights", "variables", "trainable_variables"):
        assert [w.path for w in getattr(ours, name)] == [w.path for w in getattr(theirs, name)]
    tolerance = 2e-6 if dtype == "float32" else 3e-2
    for found, wanted in zip(call(ours), call(theirs), strict=True):
        np.testing.assert_allclose(found, wanted, atol=tolerance)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", HEADED)
def test_weights_of_a_mechanism_come_after_those_of_keras(name):
    layer, theirs = get_attention(name, 6, num_heads=2), keras.layers.MultiHeadAttention(2, 3)
    for each in (layer, theirs):
        each.build((None, None, 6), (None, None, 6))
    shared = [w.path.split("/", 1)[1] for w in theirs.weights]
    assert [w.path.split("/", 1)[1] for w in layer.weights][: len(shared)] == shared


@pytest.mark.one_backend
def test_configuration_of_keras():
    """What Keras' layer writes of itself makes ours, built or not."""
    theirs = keras.layers.MultiHeadAttention(2, 3, output_shape=(5,), flash_attention=False)
    theirs.build((None, None, 6), (None, None, 6))
    config = MultiHeadAttention.from_config(theirs.get_config()).get_config()
    assert {key: config[key] for key in ("num_heads", "key_dim", "output_shape")} == {
        "num_heads": 2,
        "key_dim": 3,
        "output_shape": 5,
    }
    # By position, as far as the arguments go that both have.
    assert MultiHeadAttention(2, 3, 4, 0.5, False, 5, (1,)).get_config()["dropout"] == 0.5


@pytest.mark.one_backend
def test_int8_in_steps():
    """`tests/strangers` has calls of every mechanism in int8, and with LoRA."""
    for kind in ("int4", "int8"):
        layer = MultiHeadAttention(num_heads=2, key_dim=3)
        inputs = keras.Input((None, 7)), keras.Input((None, 13))
        model = keras.Model(inputs, layer(*inputs))
        fill_weights(layer)
        before = to_numpy(layer(QUERY, VALUE))
        if kind == "int4":
            with pytest.raises(ValueError, match="only quantization to 'int8' is supported"):
                model.quantize(kind)
    model.quantize("int8")
    memory = layer.prepare(VALUE)
    context, _, _ = layer.step(QUERY[:, 0], memory, layer.initial_state(memory))
    np.testing.assert_allclose(to_numpy(context), before[:, 0], atol=0.03 * np.abs(before).max())


def test_weight_files_of_keras(tmp_path):
    """A model saved with Keras' layer loads with ours in its place, and the other way round."""

    def model(layer):
        query, value = keras.Input((None, 7)), keras.Input((None, 13))
        built = keras.Model([query, value], layer(num_heads=2, key_dim=4, name="attention")(query, value))
        return built

    for a, b in (
        (keras.layers.MultiHeadAttention, MultiHeadAttention),
        (MultiHeadAttention, keras.layers.MultiHeadAttention),
    ):
        first, second = model(a), model(b)
        fill_weights(first)
        first.save_weights(tmp_path / "model.weights.h5")
        second.load_weights(tmp_path / "model.weights.h5")
        found, wanted = (ops.convert_to_numpy(m([QUERY, VALUE])) for m in (second, first))
        np.testing.assert_allclose(found, wanted, atol=2e-6)


@pytest.mark.one_backend
def test_options_of_keras():
    layer = MultiHeadAttention(
        num_heads=2,
        key_dim=4,
        kernel_initializer="ones",
        bias_initializer=keras.initializers.Constant(2.0),
        kernel_regularizer=keras.regularizers.L2(0.5),
        bias_constraint="non_neg",
        seed=3,
    )
    layer = MultiHeadAttention.from_config(layer.get_config())
    layer(QUERY, VALUE)
    assert len(layer.weights) == 8
    for weight in layer.weights:
        kernel = weight.name == "kernel"
        assert np.all(ops.convert_to_numpy(weight.value) == (1 if kernel else 2))
        assert (weight.regularizer is not None) == kernel
        assert (weight.constraint is not None) != kernel
    kernels = [w for w in layer.weights if w.name == "kernel"]
    assert float(sum(layer.losses)) == 0.5 * sum(np.prod(w.shape) for w in kernels)


@pytest.mark.parametrize("name", HEADED)
def test_dropout_on_weights(name):
    """Dropout changes the context in training alone, and the scores of a position in no case."""
    dropped = get_attention(name, 6, num_heads=2, dropout=0.5, seed=1, name="attention")
    plain = get_attention(name, 6, num_heads=2, name="attention")
    query, value = numbers("query", 4, 5, 6), numbers("value", 4, 7, 6)
    for layer in (dropped, plain):
        layer.build(query.shape, value.shape)
        fill_weights(layer)

    def everything(q, v):
        calls = ((plain, False), (plain, True), (dropped, False), (dropped, True))
        return [layer(q, v, return_attention_scores=True, training=training) for layer, training in calls]

    (context, scores), (trained, _), (used, _), (one, shown) = compiled(everything)(query, value)
    np.testing.assert_array_equal(trained, context)
    np.testing.assert_array_equal(used, context)
    assert np.abs(one - context).max() > 0.01
    # The first position has no past in which anything was dropped.
    np.testing.assert_allclose(shown[:, :, 0], scores[:, :, 0], atol=1e-6)


def test_dropout_drops_whole_weights():
    """With an identity for the maps the context shows the weights: each is 0 or twice its score."""
    layer = MultiHeadAttention(num_heads=1, key_dim=5, dropout=0.5, use_bias=False, seed=2)
    query, value = numbers("query", 64, 3, 5), np.broadcast_to(np.eye(5, dtype="float32"), (64, 5, 5))
    layer.build(query.shape, value.shape)
    layer.value_dense.kernel.assign(np.eye(5)[:, None])
    layer.output_dense.kernel.assign(np.eye(5)[None])
    context, scores = to_numpy(layer(query, value, training=True, return_attention_scores=True))
    kept = context != 0
    assert 0.4 < kept.mean() < 0.6
    np.testing.assert_allclose(context[kept], 2 * scores[:, 0][kept], rtol=1e-5)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", [name for name, entry in ATTENTIONS.items() if "decoder" in entry.places])
def test_steps_of_self_attention_need_a_length_and_a_batch(name):
    layer = get_attention(name, 8, num_heads=2, place="decoder")
    layer.build((None, None, 8))
    with pytest.raises(ValueError, match=f"{type(layer).__name__}: steps of self-attention need `max_length`"):
        layer.prepare()
    with pytest.raises(ValueError, match=f"{type(layer).__name__}: steps of self-attention need `batch_size`"):
        layer.initial_state(layer.prepare(max_length=5))

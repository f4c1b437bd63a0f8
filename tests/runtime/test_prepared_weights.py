"""Copies of weights that are made once for all searches: of which, when again, and that no number changes."""

import gc

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.kernels import small_batch_products
from keras_attn_zoo.layers.base import products
from keras_attn_zoo.runtime import compiled_functions
from keras_attn_zoo.runtime.prepared_weights import CopiesScope, WeightCopies
from tests import tiny
from tests.layers.calls import BACKEND

pytestmark = pytest.mark.skipif(BACKEND != "jax", reason="of JAX alone")
TEXTS = tiny.sentences("source")[:3]
TURNED = WeightCopies.turned
# The maps of a decoder layer that a step multiplies by.
IN_A_STEP = [
    *(f"self_attention/{name}" for name in ("query", "key", "value", "attention_output")),
    *(f"cross_attention/{name}" for name in ("query", "attention_output")),
    "ffn_hidden",
    "ffn_output",
]


class TwoTypes(keras.layers.Layer):
    """Reads its weight in the type of the computation and, around that, in its own."""

    def build(self, shape):
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")
        self.exact = self.add_weight(shape=(), initializer="ones", name="exact", autocast=False)

    def call(self, x):
        return x * self.scale, ops.cast(x, "float32") * self.exact


def test_a_layer_gets_a_weight_in_the_type_that_it_reads_it_in():
    layer = TwoTypes(dtype="mixed_bfloat16")
    layer(np.ones(()))
    values = [ops.convert_to_tensor(3.0), ops.convert_to_tensor(5.0)]
    # Other numbers, to tell which was read.
    copies = [ops.cast(value + 1, "bfloat16") for value in values]
    with CopiesScope(layer.variables, values, copies):
        converted, exact = layer(np.ones(()))
        outside = layer.scale.value
        layer.scale.assign(7)
        assigned, _ = layer(np.ones(()))
    assert (float(converted), float(exact), float(outside), float(assigned)) == (4, 5, 3, 7)


def test_copies_are_made_again_if_a_weight_has_another_value():
    model = tiny.translator(dtype="mixed_bfloat16")
    copies, weights = WeightCopies(model), model.weights
    first = copies.of([v.value for v in weights])
    assert copies.of([v.value for v in weights]) is first
    for copy, weight in zip(first, weights, strict=True):
        wanted = None if weight.dtype != "float32" else "bfloat16"
        assert (None if copy is None else keras.backend.standardize_dtype(copy.dtype)) == wanted
    weights[0].assign(weights[0].value + 1)
    second = copies.of([v.value for v in weights])
    np.testing.assert_array_equal(second[0], ops.cast(weights[0].value, "bfloat16"))
    assert not np.array_equal(first[0], second[0])
    # Copies of weights that are gone are gone too.
    for weight in weights:
        weight.assign(weight.value + 0)
    gc.collect()
    assert copies._converted._copies == []
    assert WeightCopies(tiny.translator()).of([v.value for v in weights]) == [None] * len(weights)


@pytest.mark.long
def test_no_number_changes(monkeypatch):
    model = tiny.translator(dtype="mixed_bfloat16")
    found = model.translate(TEXTS, n_best=2, attention=True)
    monkeypatch.setattr(WeightCopies, "of", lambda self, arrays: [None] * len(arrays))
    wanted = tiny.translator(dtype="mixed_bfloat16").translate(TEXTS, n_best=2, attention=True)
    for one, other in zip(found, wanted, strict=True):
        assert [h.log_prob for h in one] == [h.log_prob for h in other]
        np.testing.assert_array_equal(one[0].attention, other[0].attention)


@pytest.mark.long
def test_a_search_reads_weights_that_were_changed():
    model = tiny.translator(dtype="mixed_bfloat16")
    before = [best[0].text for best in model.translate(TEXTS)]
    values = [v.value for v in model.backbone.weights]
    for variable in model.backbone.weights:
        variable.assign(ops.zeros_like(variable.value))
    for [best] in model.translate(TEXTS):
        # Without weights, all tokens are equally likely.
        np.testing.assert_allclose(best.log_prob, -len(best.tokens) * np.log(tiny.PIECES), rtol=1e-5)
    for variable, value in zip(model.backbone.weights, values, strict=True):
        variable.assign(value)
    assert [best[0].text for best in model.translate(TEXTS)] == before


def test_kernels_of_the_decoder_are_turned():
    model = tiny.translator(body=tiny.transformer)
    copies, layers = WeightCopies(model), compiled_functions.step_maps(model)
    first = copies.turned(layers)
    assert copies.turned(layers) is first
    decoders = range(len(model.backbone._decoders))
    assert {layer.path for layer in layers} == {f"decoder_{i}/{name}" for i in decoders for name in IN_A_STEP}
    for copy, layer in zip(first, layers, strict=True):
        kernel = ops.convert_to_numpy(layer._kernel)
        # The maps of Keras' own einsum, or its dense layer's.
        inputs = {"cde->abe": 2}.get(getattr(layer, "equation", "").split(",")[-1], 1)
        np.testing.assert_array_equal(copy, kernel.reshape(np.prod(kernel.shape[:inputs]), -1).T)
    layers[0]._kernel.assign(layers[0]._kernel.value + 1)
    assert not np.array_equal(copies.turned(layers)[0], first[0])


@pytest.mark.parametrize("kind", ["float32", "mixed_bfloat16"])
def test_a_search_multiplies_by_turned_kernels(kind, monkeypatch):
    monkeypatch.setattr(small_batch_products, "columns_are_faster", lambda: True)
    model = tiny.translator(body=tiny.transformer, dtype=kind)
    found = [best.log_prob for [best] in model.translate(TEXTS)]
    kept = model._programs._copies._turned._copies
    assert len(kept) == len(compiled_functions.step_maps(model))
    # Others neither make copies nor lose them.
    model.score(TEXTS, tiny.sentences("target")[:3])
    model.translate(TEXTS)
    assert model._programs._copies._turned._copies is kept

    def log_probs(turned):
        monkeypatch.setattr(WeightCopies, "turned", turned)
        return [best.log_prob for [best] in tiny.translator(body=tiny.transformer, dtype=kind).translate(TEXTS)]

    np.testing.assert_allclose(found, log_probs(lambda self, layers: []), rtol=1e-5 if kind == "float32" else 0.02)
    assert not np.allclose(found, log_probs(lambda self, layers: [0 * x for x in TURNED(self, layers)]), rtol=0.05)


def test_a_search_of_many_rows_makes_no_copies(monkeypatch):
    monkeypatch.setattr(small_batch_products, "columns_are_faster", lambda: True)
    model = tiny.translator(body=tiny.transformer)
    model.translate(TEXTS * 50)
    assert model._programs._copies._turned._copies == []


def test_kernels_are_turned_in_the_type_of_their_layer(monkeypatch):
    monkeypatch.setattr(small_batch_products, "columns_are_faster", lambda: True)
    policy = keras.dtype_policies.DTypePolicyMap("mixed_bfloat16", {".*/ffn_hidden": keras.DTypePolicy("float32")})
    layers = compiled_functions._turning(tiny.translator(body=tiny.transformer, dtype=policy))
    types = {layer.path: keras.backend.standardize_dtype(layer.turn(layer._kernel.value).dtype) for layer in layers}
    assert {kind for path, kind in types.items() if path.endswith("ffn_hidden")} == {"float32"}
    assert {kind for path, kind in types.items() if not path.endswith("ffn_hidden")} == {"bfloat16"}


def test_what_is_not_turned(monkeypatch):
    """Kernels that are not what a layer multiplies by, as those of int8 are not where integers are fast."""
    monkeypatch.setattr(small_batch_products, "columns_are_faster", lambda: True)
    model = tiny.translator(body=tiny.transformer)
    assert compiled_functions._turning(model) == compiled_functions.step_maps(model) != []
    quantized = tiny.translator(body=tiny.transformer)
    quantized.quantize("int8")
    for slow in (False, True):
        monkeypatch.setattr(products, "integers_are_slow", lambda slow=slow: slow)
        assert compiled_functions._turning(quantized) == (compiled_functions.step_maps(quantized) if slow else [])
    assert len(compiled_functions.step_maps(quantized)) == len(compiled_functions.step_maps(model)) + 1
    model.backbone.enable_lora(2)
    wanted = [layer for layer in compiled_functions.step_maps(model) if not layer.lora_enabled]
    assert compiled_functions._turning(model) == wanted and len(wanted) < len(compiled_functions.step_maps(model))
    monkeypatch.setattr(small_batch_products, "columns_are_faster", lambda: False)
    assert compiled_functions._turning(tiny.translator(body=tiny.transformer)) == []


@pytest.mark.parametrize("change", ["fit", "lora", "quantize"])
def test_a_search_after_a_change_is_that_of_a_new_model(change, monkeypatch):
    monkeypatch.setattr(small_batch_products, "columns_are_faster", lambda: True)
    model = tiny.translator(body=tiny.transformer)
    before = [best.log_prob for [best] in model.translate(TEXTS)]
    if change == "quantize":
        model.quantize("int8")
    else:
        if change == "lora":
            model.backbone.enable_lora(2)
        x, y, weights = tiny.batch()
        model.compile(optimizer=keras.optimizers.Adam(0.05), sampler=model.sampler)
        model.fit(x, y, sample_weight=weights, epochs=3, verbose=0)
    found = [best.log_prob for [best] in model.translate(TEXTS)]
    monkeypatch.setattr(compiled_functions, "_turning", lambda model: [])
    model._programs = compiled_functions.Programs(model)
    np.testing.assert_allclose(found, [best.log_prob for [best] in model.translate(TEXTS)], rtol=1e-4)
    assert not np.allclose(found, before, rtol=1e-4)

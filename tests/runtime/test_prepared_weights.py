"""Weights prepared for inference: which, when again, and that no number changes."""

import gc

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.kernels import PreparedWeight, jax_cpu
from keras_attn_zoo.runtime.compiled_functions import Programs
from keras_attn_zoo.runtime.prepared_weights import PreparedWeights, maps_of_steps
from tests import tiny
from tests.layers.calls import BACKEND

pytestmark = pytest.mark.skipif(BACKEND != "jax", reason="of JAX alone")
TEXTS = tiny.sentences("source")[:3]
# The maps of a decoder layer that a step multiplies by.
IN_A_STEP = [
    *(f"self_attention/{name}" for name in ("query", "key", "value", "attention_output")),
    *(f"cross_attention/{name}" for name in ("query", "attention_output")),
    "ffn_hidden",
    "ffn_output",
]


@pytest.fixture
def gains(monkeypatch):
    """A processor that gains from transposed kernels."""
    monkeypatch.setattr(jax_cpu, "is_intel", lambda: True)


def transformer(**arguments):
    return tiny.translator(body=tiny.transformer, encoder_layers=1, decoder_layers=1, **arguments)


def prepared(model, rows, weights=None):
    weights = weights or PreparedWeights(model)
    return weights.prepare(weights.wanted(rows))


def log_probs(model):
    return [best.log_prob for [best] in model.translate(TEXTS)]


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


def test_kernels_of_the_decoder_are_transposed_until_they_change(gains):
    model = transformer()
    weights, layers = PreparedWeights(model), maps_of_steps(model)
    first = prepared(model, 12, weights)
    assert prepared(model, 20, weights) is first
    assert {layer.path for layer in layers} == {f"decoder_0/{name}" for name in IN_A_STEP}
    assert first.keys() == {id(layer.stored_kernel) for layer in layers}
    for layer in layers:
        kernel = ops.convert_to_numpy(layer.stored_kernel)
        # The maps of Keras' own einsum, or its dense layer's.
        inputs = {"cde->abe": 2}.get(getattr(layer, "equation", "").split(",")[-1], 1)
        matrix, transposed = first[id(layer.stored_kernel)]
        assert transposed
        np.testing.assert_array_equal(matrix, kernel.reshape(np.prod(kernel.shape[:inputs]), -1).T)
    changed = layers[0].stored_kernel
    # Somebody may still hold the array that it had.
    held = changed.value
    changed.assign(held + 1)
    second = prepared(model, 12, weights)
    assert not np.array_equal(first[id(changed)].matrix, second[id(changed)].matrix)
    # What was made of weights that are gone is gone too.
    for layer in layers:
        layer.stored_kernel.assign(layer.stored_kernel.value + 0)
    gc.collect()
    assert all(one._result is None for one in weights._made.values())


def test_what_is_not_prepared(gains, monkeypatch):
    """No steps, one row or many, LoRA, int8 where integers are fast; a processor that does not gain."""
    model = transformer()
    weights = PreparedWeights(model)
    assert [rows for rows in (None, 1, 2, 64, 65) if prepared(model, rows, weights)] == [2, 64]
    quantized = transformer()
    quantized.quantize("int8")
    for slow in (False, True):
        monkeypatch.setattr(jax_cpu, "integers_are_slow", lambda slow=slow: slow)
        found = prepared(quantized, 8)
        steps = {id(one.stored_kernel) for one in maps_of_steps(quantized)}
        assert {key for key, one in found.items() if one.transposed} == (steps if slow else set())
        # Those of the encoder are in floating point.
        assert (len(found) > len(steps)) == slow
    model.backbone.enable_lora(2)
    wanted = {id(one.stored_kernel) for one in maps_of_steps(model) if not one.lora_enabled}
    assert prepared(model, 8).keys() == wanted and len(wanted) < len(maps_of_steps(model))
    monkeypatch.setattr(jax_cpu, "is_intel", lambda: False)
    monkeypatch.setattr(jax_cpu, "is_amd", lambda: False)
    assert prepared(transformer(), 8) == {}


@pytest.mark.parametrize("kind", ["float32", "mixed_bfloat16"])
def test_a_search_multiplies_by_them(kind, gains, monkeypatch):
    model = transformer(dtype=kind)
    found, [kept] = log_probs(model), model._programs._weights._made.values()
    result = kept._result
    assert len(result) == len(maps_of_steps(model))
    # Others neither make any nor lose them.
    model.score(TEXTS, tiny.sentences("target")[:3])
    model.translate(TEXTS)
    assert kept._result is result
    prepare = PreparedWeights.prepare

    def others(self, wanted):
        return {key: PreparedWeight(0 * one.matrix, True) for key, one in prepare(self, wanted).items()}

    monkeypatch.setattr(PreparedWeights, "prepare", lambda self, wanted: {})
    plain = log_probs(transformer(dtype=kind))
    np.testing.assert_allclose(found, plain, rtol=1e-5 if kind == "float32" else 0.02)
    monkeypatch.setattr(PreparedWeights, "prepare", others)
    assert not np.allclose(found, log_probs(transformer(dtype=kind)), rtol=0.05)


def test_kernels_are_prepared_in_the_type_of_their_layer(gains):
    policy = keras.dtype_policies.DTypePolicyMap("mixed_bfloat16", {".*/ffn_hidden": keras.DTypePolicy("float32")})
    model = transformer(dtype=policy)
    found = prepared(model, 8)
    types = {
        layer.path: keras.backend.standardize_dtype(found[id(layer.stored_kernel)].matrix.dtype)
        for layer in maps_of_steps(model)
    }
    assert {kind for path, kind in types.items() if path.endswith("ffn_hidden")} == {"float32"}
    assert {kind for path, kind in types.items() if not path.endswith("ffn_hidden")} == {"bfloat16"}


@pytest.mark.parametrize("changes", [("fit", "quantize"), ("lora",)], ids="-".join)
def test_a_search_after_a_change_is_that_of_a_new_model(changes, gains, monkeypatch):
    # Elsewhere, a search multiplies by what integers stand for, and does not round what it multiplies.
    monkeypatch.setattr(jax_cpu, "integers_are_slow", lambda: False)
    model = transformer()
    before = log_probs(model)
    for change in changes:
        if change == "quantize":
            model.quantize("int8")
        else:
            if change == "lora":
                model.backbone.enable_lora(2)
            x, y, weights = tiny.batch()
            model.compile(optimizer=keras.optimizers.Adam(0.05), sampler=model.sampler)
            model.fit(x, y, sample_weight=weights, epochs=3, verbose=0)
        found = log_probs(model)
        with monkeypatch.context() as patch:
            patch.setattr(PreparedWeights, "prepare", lambda self, wanted: {})
            patch.setattr(model, "_programs", Programs(model))
            np.testing.assert_allclose(found, log_probs(model), rtol=1e-4)
        assert not np.allclose(found, before, rtol=1e-4)
        before = found

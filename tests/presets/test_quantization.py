"""Models quantized to int8: after training, quietly, whole or not at all, and as presets."""

import copy
import pickle
import warnings

import keras
import numpy as np
import pytest

from keras_attn_zoo.bodies.output_projection import OutputProjection
from keras_attn_zoo.bodies.token_embedding import TokenEmbedding
from keras_attn_zoo.kernels import jax_cpu
from keras_attn_zoo.layers.base.dense import LinearMap
from keras_attn_zoo.presets.quantization import Quantization
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from tests import tiny

SOURCES, TARGETS = tiny.sentences("source")[:8], tiny.sentences("target")[:8]
# Of a layer of the encoder and one of the decoder: projections of one and of two attentions, and the feed-forward two.
# And the output's.
TRANSFORMER_INT8 = 2 * (4 + 2) + 2 * (2 * 4 + 2) + 1


def int8_layers(translator):
    layers = translator.backbone._flatten_layers()
    return {
        layer.path for layer in layers if getattr(layer, "kernel", None) is not None and layer.kernel.dtype == "int8"
    }


def log_probs(translator):
    return np.array([one.log_prob for one in translator.score(SOURCES, TARGETS)])


def rounded(x):
    """Rows as integers up to 127, and what those are multiples of."""
    unit = np.abs(x).max(axis=-1, keepdims=True) / 127
    return np.round(x / unit), unit


@pytest.mark.parametrize("by", ["method", "policy"])
@pytest.mark.parametrize("tied", [False, True])
def test_logits_are_products_of_integers(by, tied):
    rng = np.random.default_rng(0)
    matrix, bias, x = (rng.normal(size=shape).astype("float32") for shape in ((7, 5), (7,), (2, 3, 5)))
    embedding = TokenEmbedding(7, 5) if tied else None
    layer = OutputProjection(7, embedding, use_bias=True)
    layer.build((None, 5))
    layer.kernel.assign(matrix)
    layer.bias.assign(bias)
    if by == "method":
        layer.quantize("int8")
    else:
        layer.dtype_policy = "int8_from_float32"
    (x, x_unit), (whole, unit) = rounded(x.astype("float64")), rounded(matrix.astype("float64"))
    wanted = x @ whole.T * x_unit * unit[:, 0] + bias
    np.testing.assert_allclose(tiny.as_numpy(layer(x * x_unit)), wanted, rtol=0, atol=1e-5)
    np.testing.assert_allclose(tiny.as_numpy(layer.kernel), whole * unit, rtol=0, atol=1e-5)
    if tied:
        np.testing.assert_array_equal(tiny.as_numpy(embedding.embeddings), matrix)


@pytest.mark.long
@pytest.mark.slow_compiled
def test_a_trained_translator_is_quantized_quietly_and_comes_back_from_a_preset(tmp_path):
    translator = tiny.translator(body=tiny.transformer)
    translator.fit({"encoder_text": SOURCES, "decoder_text": TARGETS}, batch_size=8, verbose=0)
    before = log_probs(translator)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        translator.quantize("int8")
    assert len(int8_layers(translator)) == TRANSFORMER_INT8
    after = log_probs(translator)
    assert 0 < np.abs(after / before - 1).max() < 0.05
    translator.save_to_preset(tmp_path / "preset")
    again = Translator.from_preset(tmp_path / "preset")
    assert int8_layers(again) == int8_layers(translator)
    np.testing.assert_allclose(log_probs(again), after, rtol=1e-5)


def take_kernels(plain, quantized):
    """Give a model in floating point the kernels that those in int8 stand for."""
    of_int8 = {layer.path: layer for layer in quantized.backbone._flatten_layers() if layer.quantization_mode}
    for layer in plain.backbone._flatten_layers():
        if isinstance(layer, OutputProjection):
            layer.kernel.assign(of_int8[layer.path].kernel)
        elif layer.path in of_int8:
            kernel = of_int8[layer.path].prepared_kernel("dequantized").matrix
            layer.stored_kernel.assign(keras.ops.reshape(kernel, layer.stored_kernel.shape))


@pytest.mark.skipif(keras.config.backend() != "jax", reason="of JAX alone")
@pytest.mark.parametrize("body", [tiny.backbone, tiny.transformer], ids=["rnn", "transformer"])
def test_where_integers_are_slow_programs_multiply_by_what_they_stand_for(body, monkeypatch):
    """As a model in floating point does whose kernels are those of int8; with other weights or scales, by those."""
    monkeypatch.setattr(jax_cpu, "integers_are_slow", lambda: True)
    rng, of_steps = np.random.default_rng(0), (LinearMap, OutputProjection)
    plain, translator = tiny.translator(body=body), None
    for _ in range(2):
        for weight in plain.weights:
            weight.assign_add(rng.normal(scale=0.1, size=weight.shape))
        quantized = tiny.translator(body=body)
        quantized.set_weights(plain.get_weights())
        quantized.quantize("int8", filters=lambda layer: isinstance(layer, of_steps))
        translator = translator or quantized
        translator.set_weights(quantized.get_weights())
        take_kernels(plain, translator)
        np.testing.assert_allclose(log_probs(translator), log_probs(plain), rtol=1e-5)
        found, wanted = ([[one.text for one in each] for each in x.translate(SOURCES)] for x in (translator, plain))
        assert found == wanted
    monkeypatch.setattr(jax_cpu, "integers_are_slow", lambda: False)
    assert np.abs(log_probs(quantized) / log_probs(plain) - 1).max() > 1e-4
    monkeypatch.setattr(jax_cpu, "integers_are_slow", lambda: True)
    for layer in translator.backbone._flatten_layers():
        if isinstance(layer, LinearMap) and layer.quantization_mode:
            layer.kernel_scale.assign(2 * layer.kernel_scale)
    before = log_probs(plain)
    take_kernels(plain, translator)
    assert np.abs(log_probs(plain) / before - 1).max() > 0.01
    np.testing.assert_allclose(log_probs(translator), log_probs(plain), rtol=1e-5)


@pytest.mark.skipif(keras.config.backend() != "jax", reason="of JAX alone")
@pytest.mark.parametrize("body", [tiny.backbone, tiny.transformer], ids=["rnn", "transformer"])
def test_every_form_of_the_product_of_integers_translates_alike(body, monkeypatch):
    monkeypatch.setattr(jax_cpu, "integers_are_slow", lambda: False)
    translator, found = tiny.translator(body=body), {}
    translator.quantize("int8")
    product, calls = jax_cpu.unsigned_product, []
    monkeypatch.setattr(jax_cpu, "unsigned_product", lambda *factors: calls.append(factors) or product(*factors))
    for unsigned in (False, True):
        monkeypatch.setattr(jax_cpu, "uses_unsigned", lambda unsigned=unsigned: unsigned)
        # Programs are kept.
        translator.compile(sampler="beam")
        assert not calls
        hypotheses = [one for each in translator.translate(SOURCES, n_best=5) for one in each]
        found[unsigned] = log_probs(translator), [one.score for one in hypotheses], [one.text for one in hypotheses]
    assert calls
    for of_signed, of_unsigned in zip(found[False][:2], found[True][:2], strict=True):
        np.testing.assert_allclose(of_unsigned, of_signed, rtol=1e-5)
    assert found[True][2] == found[False][2] and len(set(found[True][2])) > len(SOURCES)


@pytest.mark.one_backend
@pytest.mark.parametrize("storage", ["float16", "int8"])
def test_a_quantized_body_of_any_storage_loads_in_any_policy(storage, tmp_path):
    translator = tiny.translator(body=tiny.backbone)
    translator.backbone.quantize("int8")
    assert int8_layers(translator) == {"initial_state_0", "decoder/output_projection/int8"}
    translator.save_to_preset(tmp_path / "preset", storage=storage)
    again = Translator.from_preset(tmp_path / "preset", dtype="mixed_bfloat16")
    assert int8_layers(again) == int8_layers(translator)
    assert again.backbone.get_layer("source_embedding").compute_dtype == "bfloat16"
    np.testing.assert_allclose(log_probs(again), log_probs(translator), rtol=0.05)
    for policy in ("float16", "mixed_float16"):
        with pytest.raises(UserError, match=f"preset has int8 layers, which are too inexact in {policy}: load it in"):
            Translator.from_preset(tmp_path / "preset", dtype=policy)


@pytest.mark.long
@pytest.mark.parametrize(
    "body", [tiny.backbone, pytest.param(tiny.transformer, marks=pytest.mark.slow)], ids=["rnn", "transformer"]
)
def test_what_was_loaded_in_int8_can_be_kept_in_every_way(body, tmp_path):
    translator = tiny.translator(body=body)
    translator.quantize("int8")
    expected = log_probs(translator)
    translator.save_to_preset(tmp_path / "preset")
    loaded = Translator.from_preset(tmp_path / "preset")
    loaded.save_to_preset(tmp_path / "again")
    loaded.save(tmp_path / "loaded.keras")
    saved = keras.models.load_model(tmp_path / "loaded.keras")
    saved.save_to_preset(tmp_path / "third")
    others = [loaded, saved, copy.deepcopy(saved), pickle.loads(pickle.dumps(loaded))]
    for other in (*others, *(Translator.from_preset(tmp_path / name) for name in ("again", "third"))):
        assert int8_layers(other) == int8_layers(translator)
        np.testing.assert_array_equal(log_probs(other), expected)


@pytest.mark.long
@pytest.mark.one_backend
def test_filters_choose_and_a_second_call_takes_the_rest():
    translator = tiny.translator(body=tiny.transformer)
    translator.quantize("int8", filters="ffn")
    assert len(int8_layers(translator)) == 2 * 2 * 2
    before = translator.generate(SOURCES)
    translator.compile(sampler=translator.sampler)
    assert translator.generate(SOURCES) == before
    translator.quantize(config=keras.quantizers.Int8QuantizationConfig())
    assert len(int8_layers(translator)) == TRANSFORMER_INT8


@pytest.mark.long
@pytest.mark.parametrize("tie", [pytest.param("target", marks=pytest.mark.slow), "all"])
def test_an_output_that_shares_its_matrix_is_quantized_too(tie, tmp_path):
    translator = tiny.translator(joint=True, body=tiny.transformer, length=24, tie_embeddings=tie)
    before = log_probs(translator)
    translator.quantize("int8", filters="output_projection")
    assert int8_layers(translator) == {"output_projection/int8"}
    after = log_probs(translator)
    assert 0 < np.abs(after / before - 1).max() < 0.05
    translator.quantize("int8")
    assert len(int8_layers(translator)) == TRANSFORMER_INT8
    translator.save_to_preset(tmp_path / "preset")
    again = Translator.from_preset(tmp_path / "preset")
    assert int8_layers(again) == int8_layers(translator)
    np.testing.assert_allclose(log_probs(again), log_probs(translator), rtol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize(
    "body", [tiny.backbone, pytest.param(tiny.transformer, marks=pytest.mark.slow)], ids=["rnn", "transformer"]
)
def test_a_preset_of_some_layers_in_int8_takes_the_rest(body, tmp_path):
    translator = tiny.translator(joint=True, body=body, length=24, tie_embeddings="all")
    translator.quantize("int8", filters=lambda layer: layer.name not in ("output_projection", "ffn_hidden"))
    some = int8_layers(translator)
    translator.save_to_preset(tmp_path / "some")
    loaded = Translator.from_preset(tmp_path / "some")
    assert int8_layers(loaded) == some
    for one in (translator, loaded):
        one.quantize("int8")
        assert int8_layers(one) > some and "output_projection/int8" in {path[-22:] for path in int8_layers(one)}
    assert int8_layers(loaded) == int8_layers(translator)
    loaded.save_to_preset(tmp_path / "all")
    again = Translator.from_preset(tmp_path / "all")
    assert int8_layers(again) == int8_layers(loaded)
    np.testing.assert_allclose(log_probs(again), log_probs(loaded), rtol=1e-5)
    np.testing.assert_allclose(log_probs(loaded), log_probs(translator), rtol=1e-5)


@keras.saving.register_keras_serializable(package="tests")
class Delegating(keras.layers.Layer):
    """A layer that quantizes the layer it holds."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(4, name="held")

    def build(self, shape):
        self.dense.build(shape)

    def call(self, x):
        return self.dense(x)

    def quantize(self, mode=None, type_check=True, config=None):
        self.dense.quantize(mode, config=config)


@pytest.mark.one_backend
def test_layers_are_quantized_once():
    class Model(Quantization, keras.Model):
        pass

    x = keras.Input((3,))
    model = Model(x, Delegating()(x))
    model.quantize("int8")
    assert [layer.quantization_mode for layer in model._flatten_layers() if layer.name == "held"] == ["int8"]


@pytest.mark.one_backend
def test_what_is_refused_changes_nothing():
    translator = tiny.translator(body=tiny.transformer)
    with pytest.raises(UserError, match="only quantization to 'int8' is supported; received 'int4'"):
        translator.quantize("int4")
    half = tiny.translator(body=tiny.transformer, dtype="float16")
    with pytest.raises(ValueError, match="doesn't work well with compute_dtype='float16'"):
        half.quantize("int8")
    assert not int8_layers(translator) and not int8_layers(half)


@pytest.mark.one_backend
def test_a_quantized_policy_that_has_no_layer_is_refused():
    for body in (tiny.backbone, tiny.transformer):
        with pytest.raises(UserError, match=r"'int8_from_float32': give a .*, then call quantize\('int8'\)"):
            body(dtype="int8_from_float32")
    for mode in ("int4", "float8"):
        layer = OutputProjection(7, dtype=f"{mode}_from_float32")
        with pytest.raises(ValueError, match=f"OutputProjection: only .* 'int8' is supported. Received: mode='{mode}'"):
            layer.build((None, 5))


@pytest.mark.parametrize("tied", [False, True])
def test_an_output_projection_is_quantized_once(tied):
    embedding = TokenEmbedding(7, 4) if tied else None
    layer = OutputProjection(7, embedding)
    layer.build((None, 4))
    layer.quantize("int8")
    weights = len(layer.weights)
    with pytest.raises(ValueError, match="quantized already"):
        layer.quantize("int8")
    assert len(layer.weights) == weights

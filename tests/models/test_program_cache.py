"""Kept programs: another process does not trace them, and whatever they depend on makes others of them."""

import importlib.util
import sys

import keras
import keras_hub
import numpy as np
import pytest

from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.models import program_cache, text_methods
from keras_attn_zoo.models.program_cache import ProgramCache
from tests import tiny
from tests.models.kept_programs import TARGETS, TEXTS, files, kept, under_jax


@under_jax
@pytest.mark.parametrize("body", [tiny.transformer, tiny.backbone])
def test_another_process_does_not_trace_and_searches_with_its_own_weights(folder, traced, body):
    wanted = [tiny.hypotheses(tiny.translator(seed=seed, body=body), TEXTS) for seed in (3, 4)]
    assert wanted[0] != wanted[1]
    traced.clear()
    assert tiny.hypotheses(kept(folder, body=body), TEXTS) == wanted[0]
    written = files(folder)
    assert traced and written
    traced.clear()
    assert [tiny.hypotheses(kept(folder, body=body, seed=seed), TEXTS) for seed in (3, 4)] == wanted
    assert traced == []
    assert files(folder) == written


@under_jax
def test_scores_and_attention_are_kept_too(folder, monkeypatch):
    task = kept(folder)
    scores, attention = task.score(TEXTS, TARGETS), task.force(TEXTS, TARGETS)
    written = files(folder)
    assert len(written) == 2
    task = kept(folder)
    monkeypatch.setattr(type(task.backbone), "call", None)
    assert [one.log_prob for one in task.score(TEXTS, TARGETS)] == [one.log_prob for one in scores]
    for one, other in zip(task.force(TEXTS, TARGETS), attention, strict=True):
        assert one.attention.tolist() == other.attention.tolist()
    assert files(folder) == written


def other_end(task):
    task.preprocessor.tokenizer.end_token_id = 5


def quantized(**config):
    """Int8 with another quantizer of activations."""
    return lambda task: task.quantize(config=keras.quantizers.Int8QuantizationConfig(**config))


def adapted(alpha):
    """LoRA whose factors are not zero."""

    def adapt(task):
        projection = next(layer for layer in task._flatten_layers() if isinstance(layer, keras.layers.EinsumDense))
        projection.enable_lora(2, lora_alpha=alpha)
        for factor in (projection.lora_kernel_a, projection.lora_kernel_b):
            factor.assign(np.full(factor.shape, 0.3))

    return adapt


CHANGES = {
    "beams": ({"sampler": BeamSearch(2, length_penalty=0.6)}, None, {}),
    "penalty": ({"sampler": BeamSearch(3, length_penalty=0.0)}, None, {}),
    "configuration": ({"activation": "gelu"}, None, {}),
    "mechanism": ({"cross_attention": "luong_dot"}, None, {}),
    "size": ({"ffn_dim": 12}, None, {}),
    "type": ({"dtype": "bfloat16"}, None, {}),
    "int8": ({}, lambda task: task.quantize("int8"), {}),
    "LoRA": ({}, adapted(2), {}),
    "end": ({}, other_end, {}),
    "length": ({}, None, {"max_length": 9}),
    "attention": ({}, None, {"attention": True}),
    "n-best": ({}, None, {"n_best": 2}),
}


@under_jax
@pytest.mark.parametrize("change", CHANGES)
def test_whatever_a_search_depends_on_makes_it_another(folder, traced, change):
    arguments, then, options = CHANGES[change]

    def changed(make):
        task = make(**arguments)
        if then is not None:
            then(task)
        return task

    wanted = translations(changed(lambda **kwargs: tiny.translator(body=tiny.transformer, **kwargs)), **options)
    translations(kept(folder))
    traced.clear()
    assert translations(changed(lambda **kwargs: kept(folder, **kwargs)), **options) == wanted
    assert traced


def activated(function):
    """Another activation in one network."""

    def activate(task):
        task.backbone.get_layer("encoder_0").ffn_hidden.activation = function

    return activate


def translations(task, **options):
    return [[(one.text, one.score) for one in best] for best in task.translate(TEXTS, **options)]


@under_jax
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda task: None, activated(keras.activations.tanh)),
        (adapted(2), adapted(20)),
        (quantized(), quantized(activation_quantizer=None)),
        (
            quantized(),
            quantized(activation_quantizer=keras.quantizers.AbsMaxQuantizer(axis=-1, value_range=(-7, 7))),
        ),
    ],
    ids=["activation", "LoRA", "weights alone", "narrow"],
)
def test_what_only_layers_know_makes_another(folder, traced, one, other):
    def made(change, folder=None):
        task = tiny.translator(body=tiny.transformer)
        change(task)
        task.keep_programs(folder)
        return translations(task)

    wanted = made(other)
    assert made(one, folder) != wanted
    traced.clear()
    assert made(other, folder) == wanted
    assert traced
    traced.clear()
    assert made(other, folder) == wanted
    assert traced == []


@under_jax
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_which_layers_are_frozen_changes_nothing(folder, traced, dropout):
    """Though their variables have the same shapes, and Keras lists first those that are trained."""
    wanted = translations(tiny.translator(body=tiny.transformer, dropout=dropout))
    traced.clear()
    for frozen in ([], ["source_embedding"], ["encoder_0", "decoder_1"]):
        task = kept(folder, dropout=dropout)
        for name in frozen:
            task.backbone.get_layer(name).trainable = False
        assert translations(task) == wanted
    assert len(traced) == 1


def of_jax(name, value):
    def change(monkeypatch, request):
        import jax

        before = jax.config.values[name]
        request.addfinalizer(lambda: jax.config.update(name, before))
        jax.config.update(name, value)

    return change


def replaced(owner, name, value):
    return lambda monkeypatch, request: monkeypatch.setattr(owner, name, value)


def version(name):
    return lambda monkeypatch, request: monkeypatch.setattr(sys.modules[name], "__version__", "99")


SURROUNDINGS = {
    "Keras": version("keras"),
    "KerasHub": version("keras_hub"),
    "JAX": version("jax"),
    "features of the processor": replaced(program_cache, "flags", lambda: ["none"]),
    "AMD": replaced(program_cache, "is_amd", lambda: "another"),
    "Intel": replaced(program_cache, "is_intel", lambda: "another"),
    "epsilon": replaced(keras.config, "epsilon", lambda: 1e-3),
    "flash attention": replaced(keras.config, "is_flash_attention_enabled", lambda: "another"),
    "precision of products": of_jax("jax_default_matmul_precision", "highest"),
}


@under_jax
@pytest.mark.parametrize("change", SURROUNDINGS)
def test_other_surroundings_make_it_another(folder, traced, monkeypatch, request, change):
    kept(folder).translate(TEXTS)
    written = set(files(folder))
    traced.clear()
    SURROUNDINGS[change](monkeypatch, request)
    kept(folder).translate(TEXTS)
    assert traced
    assert set(files(folder)) > written


@under_jax
def test_settings_count_as_they_are_at_the_call(folder, traced):
    import jax

    task = kept(folder)
    with jax.default_matmul_precision("highest"):
        task.translate(TEXTS)
    (other,) = files(folder)
    task.translate(TEXTS)
    assert len(traced) == 2
    traced.clear()
    kept(folder).translate(TEXTS)
    assert traced == []
    # Neither the folder of JAX's cache, which may be moved, nor other limits of it.
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(folder))
    try:
        kept(folder).translate(TEXTS)
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert traced == []
    # What is left without it is the other one.
    for name in files(folder).keys() - {other}:
        (folder / name).unlink()
    kept(folder).translate(TEXTS)
    assert traced


@under_jax
@pytest.mark.parametrize("why", ["working copy", "flatbuffers"])
def test_nothing_is_kept_without_what_it_needs(folder, monkeypatch, why):
    if why == "working copy":
        monkeypatch.setattr(keras, "__file__", "/home/me/keras/keras/__init__.py")
    else:
        find = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == why else find(name))
    kept(folder).translate(TEXTS)
    assert files(folder) == {}


@under_jax
@pytest.mark.parametrize("by", ["Keras", "JAX"])
def test_nothing_is_kept_where_several_devices_are_used(folder, traced, by):
    import jax

    if jax.device_count() < 2:
        pytest.skip("one device")
    kept(folder).translate(TEXTS)
    written = files(folder)
    traced.clear()
    if by == "Keras":
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=jax.devices()[:2]))
    try:
        task = kept(folder)
        if by == "JAX":
            mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), "devices")
            everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
            for variable in task.variables:
                variable.assign(jax.device_put(variable.value, everywhere))
        task.translate(TEXTS)
    finally:
        keras.distribution.set_distribution(None)
    assert traced
    assert files(folder) == written


class Doubled(keras.layers.LayerNormalization):
    """A layer from elsewhere."""

    def call(self, *args, **kwargs):
        return 2 * super().call(*args, **kwargs)


def doubled(task):
    normalization = next(layer for layer in task._flatten_layers() if "LayerNormalization" in type(layer).__name__)
    normalization.__class__ = Doubled


def replaced_call(task):
    layer = task.backbone.get_layer("encoder_0").ffn_hidden
    call = layer.call
    layer.call = lambda *args, **kwargs: 2 * call(*args, **kwargs)


@under_jax
@pytest.mark.parametrize("change", [doubled, replaced_call, activated(lambda x: keras.ops.tanh(x))])
def test_a_model_with_a_layer_or_a_function_from_elsewhere_keeps_nothing(folder, change):
    plain = tiny.hypotheses(kept(folder), TEXTS)
    written = files(folder)
    task = kept(folder)
    change(task)
    assert tiny.hypotheses(task, TEXTS) != plain
    assert files(folder) == written


@under_jax
@pytest.mark.parametrize("setting", ["jax_debug_nans", "jax_debug_infs", "jax_disable_jit"])
def test_nothing_is_kept_as_jax_looks_for_faults(folder, monkeypatch, request, setting):
    task = kept(folder)
    of_jax(setting, True)(monkeypatch, request)
    task.score(TEXTS[:1], TARGETS[:1])
    assert files(folder) == {}


@under_jax
def test_an_error_in_the_model_is_its_own_and_comes_once(folder, monkeypatch):
    task, calls = kept(folder), []

    def failing(*args, **kwargs):
        calls.append(args)
        raise ArithmeticError("no such sum")

    monkeypatch.setattr(text_methods, "search", failing)
    with pytest.raises(ArithmeticError, match="no such sum"):
        task.translate(TEXTS)
    assert len(calls) == 1


@under_jax
def test_what_cannot_be_exported_is_run_as_it_is(folder, traced, monkeypatch):
    import jax.export

    def export(*args, **kwargs):
        raise NotImplementedError

    wanted = tiny.hypotheses(tiny.translator(body=tiny.transformer), TEXTS)
    monkeypatch.setattr(jax.export, "export", export)
    traced.clear()
    assert tiny.hypotheses(kept(folder), TEXTS) == wanted
    assert len(traced) == 1
    assert files(folder) == {}


@under_jax
def test_random_searches_are_not_kept(folder):
    kept(folder, sampler=keras_hub.samplers.RandomSampler(seed=1)).generate(TEXTS)
    assert files(folder) == {}


class Foreign(BeamSearch):
    """A sampler from elsewhere."""


@under_jax
@pytest.mark.parametrize("key", [object(), (1, object()), frozenset({1}), (1, Foreign(2))])
def test_a_function_whose_name_is_not_that_of_another_process_is_not_kept(folder, key):
    program = object()
    assert ProgramCache(folder, tiny.translator()).keep(key, program) is program


@under_jax
def test_numbers_of_numpy_are_numbers(folder, traced):
    kept(folder).force(TEXTS, TARGETS, layers=[0, 1])
    (written,) = files(folder)
    kept(folder).force(TEXTS, TARGETS, layers=list(np.arange(2)))
    assert list(files(folder)) == [written]


@under_jax
def test_the_end_counts_in_an_explored_search(folder):
    tasks = [kept(folder), kept(folder)]
    other_end(tasks[1])
    for task in tasks:
        task.explore(TEXTS[:1])
    ends = list(files(folder))
    kept(folder).explore(TEXTS[:1])
    assert list(files(folder)) == ends and len(ends) > 2


@pytest.mark.skipif(keras.config.backend() == "jax", reason="other backends")
def test_other_backends_keep_nothing(folder):
    task = kept(folder)
    wanted = tiny.hypotheses(tiny.translator(body=tiny.transformer), TEXTS)
    assert tiny.hypotheses(task, TEXTS) == wanted
    assert files(folder) == {}

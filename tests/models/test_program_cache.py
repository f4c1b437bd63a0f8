"""Kept programs: another process does not trace them, and whatever they depend on makes others of them."""

import os
import shutil
import types
from pathlib import Path

import keras
import keras_hub
import pytest

from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.models import program_cache, text_methods
from keras_attn_zoo.models.program_cache import ProgramCache
from tests import tiny

TEXTS, TARGETS = tiny.sentences("source")[:3], tiny.sentences("target")[:3]
under_jax = pytest.mark.skipif(keras.config.backend() != "jax", reason="programs of JAX")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "programs"


@pytest.fixture
def traced(monkeypatch):
    """A list with an entry for every search that is traced."""
    search, calls = text_methods.search, []

    def counted(*args, **kwargs):
        calls.append(args)
        return search(*args, **kwargs)

    monkeypatch.setattr(text_methods, "search", counted)
    return calls


def kept(folder, **kwargs):
    """A translator as another process would load it."""
    task = tiny.translator(**{"body": tiny.transformer, **kwargs})
    task.keep_programs(folder)
    return task


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


@under_jax
@pytest.mark.parametrize("body", [tiny.transformer, tiny.backbone])
def test_another_process_does_not_trace_and_searches_with_its_own_weights(folder, traced, body):
    wanted = [tiny.hypotheses(tiny.translator(seed=seed, body=body), TEXTS) for seed in (3, 4)]
    assert wanted[0] != wanted[1]
    traced.clear()
    assert tiny.hypotheses(kept(folder, body=body), TEXTS) == wanted[0]
    assert traced
    traced.clear()
    written = files(folder)
    assert written
    for seed in (3, 4):
        assert tiny.hypotheses(kept(folder, body=body, seed=seed), TEXTS) == wanted[seed - 3]
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


def other_files(monkeypatch):
    """As if one of the package's files had another time."""
    stat = Path.stat

    def changed(path, **kwargs):
        found = stat(path, **kwargs)
        if path.name != "transformer_backbone.py":
            return found
        return types.SimpleNamespace(st_size=found.st_size, st_mtime_ns=found.st_mtime_ns + 1)

    monkeypatch.setattr(Path, "stat", changed)


CHANGES = {
    "beams": ({"sampler": BeamSearch(2, length_penalty=0.6)}, None, {}),
    "penalty": ({"sampler": BeamSearch(3, length_penalty=0.0)}, None, {}),
    "configuration": ({"activation": "gelu"}, None, {}),
    "mechanism": ({"cross_attention": "luong_dot"}, None, {}),
    "size": ({"ffn_dim": 12}, None, {}),
    "type": ({"dtype": "bfloat16"}, None, {}),
    "int8": ({}, lambda task: task.quantize("int8"), {}),
    "LoRA": ({}, lambda task: task.backbone.enable_lora(2), {}),
    "end": ({}, other_end, {}),
    "length": ({}, None, {"max_length": 9}),
    "attention": ({}, None, {"attention": True}),
    "n-best": ({}, None, {"n_best": 2}),
}


@under_jax
@pytest.mark.parametrize("change", CHANGES)
def test_whatever_a_search_depends_on_makes_it_another(folder, traced, change):
    arguments, then, options = CHANGES[change]

    def translations(task, **options):
        return [[(one.text, one.score) for one in best] for best in task.translate(TEXTS, **options)]

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


@under_jax
@pytest.mark.parametrize("change", ["files", "version", "processor", "setting of JAX", "setting of Keras"])
def test_other_surroundings_make_it_another(folder, traced, monkeypatch, change):
    kept(folder).translate(TEXTS)
    written = set(files(folder))
    traced.clear()
    if change == "files":
        other_files(monkeypatch)
    elif change == "version":
        monkeypatch.setattr(program_cache.keras, "__version__", "3.99")
    elif change == "processor":
        monkeypatch.setattr(program_cache, "flags", lambda: ["none"])
    elif change == "setting of Keras":
        monkeypatch.setattr(keras.config, "epsilon", lambda: 1e-3)
    else:
        import jax

        before = jax.config.jax_default_matmul_precision
        jax.config.update("jax_default_matmul_precision", "highest")
    try:
        kept(folder).translate(TEXTS)
    finally:
        if change == "setting of JAX":
            jax.config.update("jax_default_matmul_precision", before)
    assert traced
    assert set(files(folder)) > written


class Doubled(keras.layers.LayerNormalization):
    """A layer from elsewhere."""

    def call(self, *args, **kwargs):
        return 2 * super().call(*args, **kwargs)


@under_jax
def test_a_model_with_a_layer_from_elsewhere_keeps_nothing(folder):
    plain = tiny.hypotheses(kept(folder), TEXTS)
    written = files(folder)
    task = kept(folder)
    normalization = next(layer for layer in task._flatten_layers() if "LayerNormalization" in type(layer).__name__)
    normalization.__class__ = Doubled
    assert tiny.hypotheses(task, TEXTS) != plain
    assert files(folder) == written


@under_jax
@pytest.mark.parametrize("setting", ["jax_debug_nans", "jax_disable_jit"])
def test_nothing_is_kept_as_jax_looks_for_faults(folder, setting):
    import jax

    jax.config.update(setting, True)
    try:
        task = kept(folder)
        task.score(TEXTS[:1], TARGETS[:1])
    finally:
        jax.config.update(setting, False)
    assert files(folder) == {}


@under_jax
def test_random_searches_are_not_kept(folder):
    kept(folder, sampler=keras_hub.samplers.RandomSampler(seed=1)).generate(TEXTS)
    assert files(folder) == {}


DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:-1],
    "changed": lambda data: data[:500] + bytes([data[500] ^ 1]) + data[501:],
    "without its checksum": lambda data: data[32:],
}


@under_jax
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_replaced(folder, traced, damage):
    wanted = tiny.hypotheses(kept(folder), TEXTS)
    written = files(folder)
    traced.clear()
    for name, data in written.items():
        (folder / name).write_bytes(DAMAGES[damage](data))
    assert tiny.hypotheses(kept(folder), TEXTS) == wanted
    assert traced
    traced.clear()
    assert tiny.hypotheses(kept(folder), TEXTS) == wanted
    assert traced == []
    assert files(folder).keys() == written.keys()


@under_jax
def test_a_folder_that_cannot_be_written_costs_nothing_but_time(folder, traced):
    wanted = tiny.hypotheses(tiny.translator(body=tiny.transformer), TEXTS)
    folder.write_text("a file")
    assert tiny.hypotheses(kept(folder), TEXTS) == wanted
    assert folder.read_text() == "a file"


@under_jax
def test_what_was_used_last_stays_and_files_of_others_too(folder, monkeypatch):
    monkeypatch.setattr(program_cache, "MOST_KEPT", 2)
    task = kept(folder)
    task.score(TEXTS, TARGETS)
    (score,) = files(folder)
    (folder / "notes.txt").write_text("mine")
    task.force(TEXTS, TARGETS)
    for at, name in enumerate(files(folder)):
        os.utime(folder / name, (at, at))
    # Used again, though written first.
    kept(folder).score(TEXTS, TARGETS)
    task.translate(TEXTS)
    left = files(folder)
    assert len(left) == 3
    assert score in left
    assert left["notes.txt"] == b"mine"


@under_jax
def test_a_copy_of_the_folder_serves_as_well(folder, tmp_path, traced):
    wanted = tiny.hypotheses(kept(folder), TEXTS)
    shutil.copytree(folder, tmp_path / "copy")
    traced.clear()
    assert tiny.hypotheses(kept(tmp_path / "copy"), TEXTS) == wanted
    assert traced == []


@under_jax
def test_compiling_anew_goes_on_keeping(folder):
    task = kept(folder)
    task.compile(sampler="greedy")
    task.translate(TEXTS)
    assert files(folder)


@under_jax
@pytest.mark.parametrize("key", [object(), (1, object()), frozenset({1})])
def test_a_function_whose_name_is_not_that_of_another_process_is_not_kept(folder, key):
    program = object()
    assert ProgramCache(folder, tiny.translator()).keep(key, program) is program


@pytest.mark.skipif(keras.config.backend() == "jax", reason="other backends")
def test_other_backends_keep_nothing(folder):
    task = kept(folder)
    wanted = tiny.hypotheses(tiny.translator(body=tiny.transformer), TEXTS)
    assert tiny.hypotheses(task, TEXTS) == wanted
    assert files(folder) == {}

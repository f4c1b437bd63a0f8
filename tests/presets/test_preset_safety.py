"""Presets that were damaged, put together wrongly, or made by somebody who means harm."""

import base64
import copy
import errno
import functools
import logging
import marshal
import os
import resource
import shutil

import h5py
import keras
import keras_hub
import numpy as np
import pytest

from keras_attn_zoo.bodies import RNNBackbone
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.support.checksums import CHECKSUMS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import read_json, write_json
from keras_attn_zoo.translators import TranslationPreprocessor, TranslationTokenizer, Translator
from tests import tiny
from tests.presets.preset_server import files_of

pytestmark = pytest.mark.one_backend

TEXTS = tiny.sentences("source")[:2]


@pytest.fixture
def preset(plain_preset, tmp_path):
    return shutil.copytree(plain_preset, tmp_path / "preset")


def test_every_flipped_bit_is_found_and_named(preset):
    sums = read_json(preset / CHECKSUMS)["sha256"]
    files = {path.relative_to(preset).as_posix(): path for path in preset.rglob("*") if path.is_file()}
    assert sums.keys() == files.keys() - {CHECKSUMS} and "model.weights.h5" in sums and len(sums) == 9
    rng = np.random.default_rng(0)
    for name in sums:
        whole = files[name].read_bytes()
        for place in (0, len(whole) - 1, *rng.integers(len(whole), size=3)):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << rng.integers(8)
            files[name].write_bytes(damaged)
            for load in (Translator.from_preset, load_translator):
                with pytest.raises(UserError) as error:
                    load(preset)
                message = str(error.value)
                assert message.startswith(f"{files[name]} is damaged or was changed") and "\n" not in message
        files[name].unlink()
        with pytest.raises(UserError, match=f"{name} is missing from the preset"):
            load_translator(preset)
        files[name].write_bytes(whole)


@pytest.mark.parametrize("storage", ["float32", "int8"])
@pytest.mark.parametrize("load", [Translator.from_preset, keras_hub.models.Seq2SeqLM.from_preset], ids=["ours", "hub"])
def test_a_truncated_weight_file_without_checksums_is_named(tmp_path, storage, load):
    tiny.translator().save_to_preset(tmp_path, storage=storage)
    (tmp_path / CHECKSUMS).unlink()
    weights = tmp_path / "model.weights.h5"
    whole = weights.read_bytes()
    for size in (0, 7, len(whole) // 2, len(whole) - 1):
        weights.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"model\.weights\.h5 is damaged or not a file of weights \(.+\): restore"):
            load(str(tmp_path))


def test_a_preset_cannot_be_saved_to_a_file(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=r"cannot save a preset to .*file, which is a file: give a folder\."):
        tiny.translator().save_to_preset(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_parts_are_checked_too_and_saving_a_part_anew_keeps_the_sums_right(preset):
    task = Translator.from_preset(preset)
    task.preprocessor.tokenizer.save_to_preset(preset)
    task.backbone.save_to_preset(preset)
    Translator.from_preset(preset)
    weights = bytearray((preset / "model.weights.h5").read_bytes())
    weights[-1] ^= 1
    (preset / "model.weights.h5").write_bytes(weights)
    for part in (RNNBackbone, type(task.preprocessor), type(task.preprocessor.tokenizer)):
        with pytest.raises(UserError, match=r"model\.weights\.h5 is damaged"):
            part.from_preset(preset)


def test_a_file_without_a_sum_is_refused(preset):
    sums = read_json(preset / CHECKSUMS)["sha256"]
    del sums["model.weights.h5"]
    write_json(preset / CHECKSUMS, {"sha256": sums})
    with pytest.raises(UserError, match=r"without a checksum .*\(model\.weights\.h5\)"):
        Translator.from_preset(preset)


def test_a_preset_without_sums_loads_with_one_line(unsummed, plain_preset, caplog):
    with caplog.at_level(logging.WARNING):
        found = load_translator(unsummed).translate(TEXTS)
    (record,) = ours(caplog.records)
    assert f"{unsummed} has no {CHECKSUMS}" in record.getMessage() and "\n" not in record.getMessage()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert load_translator(plain_preset).translate(TEXTS) == found
    assert not ours(caplog.records)


def ours(records):
    # TensorFlow has words of its own about functions that it compiles, which depend on the tests before.
    return [record for record in records if record.name.startswith("keras_attn_zoo")]


def test_surplus_weights_are_refused(unsummed):
    """A deeper model's, under this configuration: Keras would take what it knows and leave the rest."""
    tiny.backbone(decoder_layers=2).save_weights(unsummed / "model.weights.h5")
    with pytest.raises(UserError, match=r"model\.weights\.h5 has .* load the weights of this model"):
        load_translator(unsummed)
    with pytest.raises(UserError, match="load the weights of this model"):
        keras_hub.models.Seq2SeqLM.from_preset(str(unsummed))


@pytest.mark.parametrize("name", ["config.json", "task.json"])
@pytest.mark.parametrize("setting", ["hidden_dim", "embedding_dim", "encoder_layers", "source_vocabulary_size"])
def test_sizes_beyond_the_weights_are_refused_before_anything_is_built(unsummed, monkeypatch, name, setting):
    never = functools.wraps(RNNBackbone.__init__)(lambda *arguments, **keywords: pytest.fail("a body was built"))
    monkeypatch.setattr(RNNBackbone, "__init__", never)
    tree = read_json(unsummed / name)
    body = tree["config"]["backbone"]["config"] if name == "task.json" else tree["config"]
    body[setting] = 10**9
    write_json(unsummed / name, tree)
    with pytest.raises(
        UserError, match=rf"{name} of the preset .* says {setting}=1,000,000,000, but its weights allow"
    ):
        Translator.from_preset(unsummed)


def test_a_tokenizer_of_another_size_is_refused(unsummed):
    shutil.copytree(unsummed, larger := unsummed.with_name("larger"))
    config = read_json(larger / "task.json")
    for part in (config["config"]["backbone"], other := read_json(larger / "config.json")):
        part["config"]["target_vocabulary_size"] += 1
    write_json(larger / "task.json", config)
    write_json(larger / "config.json", other)
    body = RNNBackbone(tiny.PIECES, tiny.PIECES + 1, **tiny.BACKBONE)
    body.save_weights(larger / "model.weights.h5")
    with pytest.raises(UserError, match=f"target tokenizer has {tiny.PIECES} tokens, but the model was built for 29"):
        load_translator(larger)
    with pytest.raises(UserError, match="use the tokenizer that belongs to the model"):
        Translator(body, tiny.preprocessor())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_neither_loaded_nor_saved(unsummed, value):
    with h5py.File(unsummed / "model.weights.h5", "a") as file:
        names = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        file[names[3]][..., -1] = value
    with pytest.raises(UserError, match=r"is not finite.*model\.weights\.h5"):
        load_translator(unsummed)
    task = tiny.translator()
    task.backbone.weights[2].assign(keras.ops.full(task.backbone.weights[2].shape, value))
    with pytest.raises(UserError, match="is not finite"):
        task.save_to_preset(unsummed.with_name("never"))
    assert not (unsummed.with_name("never") / "model.weights.h5").exists()


def test_a_disk_that_fills_while_weights_are_written_is_one_line(tmp_path):
    task = tiny.translator(cell="lstm", hidden_dim=40, decoder_layers=2)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The system allows no file beyond this size: everything but the weights is smaller.
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, before[1]))
    try:
        with pytest.raises(UserError, match=r"cannot write .*/preset/model\.weights\.h5: File too large"):
            task.save_to_preset(tmp_path / "preset")
        (tmp_path / "preset").mkdir()
        with pytest.raises(UserError, match=r"cannot write .*/preset/model\.weights\.h5: File too large"):
            task.save_to_preset(tmp_path / "preset")
        (tmp_path / "preset").rmdir()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("failure", ["refused", "interrupt", "full disk"])
def test_a_save_that_fails_leaves_the_old_preset(preset, monkeypatch, failure):
    task = Translator.from_preset(preset)
    before, names = files_of(preset), sorted(os.listdir(preset))
    error, storage = {
        "refused": (UserError, "float16"),
        "interrupt": (KeyboardInterrupt, "float32"),
        "full disk": (UserError, "float32"),
    }[failure]
    weight = task.backbone.weights[0]
    weight.assign(keras.ops.full(weight.shape, 1e6))
    if failure != "refused":

        def fails(folder):
            raise KeyboardInterrupt if failure == "interrupt" else OSError(errno.ENOSPC, "No space left on device")

        # The last to be written.
        monkeypatch.setattr(task.preprocessor.source_tokenizer, "save_assets", fails)
    with pytest.raises(error):
        task.save_to_preset(preset, storage=storage)
    assert files_of(preset) == before and sorted(os.listdir(preset)) == names
    Translator.from_preset(preset)


def foreign(module, name, config, registered=None):
    return {"module": module, "class_name": name, "config": config, "registered_name": registered}


def writes(marker):
    """A Lambda layer whose function writes a file when it is called, as Keras writes it down."""
    code = compile(f"lambda x: open({str(marker)!r}, 'w')", "layer", "eval").co_consts[0]
    inside = {"code": base64.b64encode(marshal.dumps(code)).decode(), "defaults": None, "closure": None}
    return foreign("keras.layers", "Lambda", {"function": {"class_name": "__lambda__", "config": inside}})


@pytest.mark.parametrize(
    "harm",
    [
        writes,
        lambda marker: foreign("harmful", "Layer", {}),
        lambda marker: foreign("os", "system", f"touch {marker}", "system"),
        lambda marker: foreign("builtins", "function", "eval", "function"),
    ],
    ids=["lambda", "module", "system", "function"],
)
def test_a_strangers_preset_runs_no_code(unsummed, monkeypatch, harm):
    marker = unsummed.with_name("marker")
    (unsummed.parent / "harmful.py").write_text(f"open({str(marker)!r}, 'w')\nclass Layer: pass\n")
    monkeypatch.syspath_prepend(unsummed.parent)
    body, side = ("config", "backbone"), ("config", "preprocessor")
    for load, name, places in (
        (
            load_translator,
            "task.json",
            [(), body, (*body, "config", "cross_attention"), side, (*side, "config", "tokenizer")],
        ),
        (load_translator, "config.json", [()]),
        (RNNBackbone.from_preset, "config.json", [("config", "cross_attention")]),
        (TranslationPreprocessor.from_preset, "preprocessor.json", [(), ("config", "source_tokenizer")]),
        (TranslationTokenizer.from_preset, "tokenizer.json", [(), ("config", "dtype")]),
    ):
        whole = read_json(unsummed / name)
        for place in places:
            config = changed = copy.deepcopy(whole)
            for key in place[:-1]:
                changed = changed[key]
            if place:
                changed[place[-1]] = harm(marker)
            write_json(unsummed / name, config if place else harm(marker))
            with pytest.raises((ValueError, TypeError, AttributeError)) as error:
                load(unsummed)
            assert not marker.exists(), place
            if load is load_translator:
                assert isinstance(error.value, UserError) and "\n" not in str(error.value)
        write_json(unsummed / name, whole)

"""What the JSON files of a preset may say: arguments, classes and files that this version knows."""

import os
import shutil
from pathlib import Path

import keras_hub
import pytest

import keras_attn_zoo
from keras_attn_zoo.bodies import RNNBackbone, TransformerBackbone
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.support.checksums import CHECKSUMS, read_checksums, write_checksums
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import read_json, write_json
from keras_attn_zoo.translators import TranslationTokenizer, Translator
from tests import tiny

pytestmark = pytest.mark.one_backend

VERSION = keras_attn_zoo.__version__
BODY = ("config", "backbone")
SIDE = ("config", "preprocessor")
PUBLISHED = sorted((Path(__file__).parents[2] / "presets").glob("*/config.json"))


def change(preset, name, place, **values):
    """Change the dict at a place of a JSON file."""
    tree = part = read_json(preset / name)
    for key in place:
        part = part[key]
    part.update(values)
    write_json(preset / name, tree)


def refused(preset, match, load=Translator.from_preset):
    with pytest.raises(UserError, match=match) as error:
        load(str(preset))
    assert "\n" not in str(error.value)


def test_an_argument_that_nothing_takes_is_refused(unsummed):
    with pytest.raises(UserError, match="Translator has no argument dtpye: leave it out, or correct it"):
        Translator.from_preset(unsummed, dtpye="float16")
    with pytest.raises(UserError, match="Translator has no argument beams"):
        Translator(tiny.backbone(), beams=3)


@pytest.mark.parametrize("name", ["config.json", "task.json", "tokenizer.json"])
def test_an_argument_with_two_values_is_refused(unsummed, name):
    """Readers of JSON disagree about which one counts."""
    path = unsummed / name
    path.write_text(path.read_text("utf-8").replace('"config": {', '"config": {"name": "one", ', 1), "utf-8")
    refused(unsummed, rf"{name} is damaged: .*the key 'name' occurs twice")


@pytest.mark.parametrize(
    "name, place, cls",
    [
        ("config.json", (), "RNNBackbone"),
        ("task.json", BODY, "RNNBackbone"),
        ("task.json", SIDE, "TranslationPreprocessor"),
        ("task.json", (*SIDE, "config", "tokenizer"), "TranslationTokenizer"),
        ("source_tokenizer.json", (), "TranslationTokenizer"),
    ],
)
def test_an_unknown_argument_asks_for_a_newer_version(unsummed, name, place, cls):
    change(unsummed, name, (*place, "config"), residual_scale=3)
    change(unsummed, "metadata.json", (), keras_attn_zoo_version="9.1.0")
    refused(
        unsummed,
        rf"^{name} of the preset .* gives {cls} the argument residual_scale, unknown to this version of keras-attn-zoo "
        rf"\(written by version 9\.1\.0; this is {VERSION}\): pip install --upgrade keras-attn-zoo",
    )
    (unsummed / "metadata.json").unlink()
    refused(
        unsummed, rf"residual_scale, unknown to this version of keras-attn-zoo \(this is {VERSION}\)", load_translator
    )


def test_an_unknown_attention_or_argument_of_one_is_named_and_so_is_a_newer_version(unsummed):
    advice = rf" Version 9\.1\.0 of keras-attn-zoo wrote it, this is {VERSION}: pip install --upgrade keras-attn-zoo\.$"
    change(unsummed, "metadata.json", (), keras_attn_zoo_version="9.1.0")
    Translator.from_preset(unsummed)
    for attention, reason in (("hyper", ""), ({"attention": "uniform", "emphasis": 1}, "no argument 'emphasis'.*")):
        for name, place in (("task.json", BODY), ("config.json", ())):
            change(unsummed, name, (*place, "config"), cross_attention=attention)
        refused(unsummed, reason + advice)
    (unsummed / "metadata.json").unlink()
    refused(unsummed, r"the attention 'uniform' has no argument 'emphasis': choose one of normalizer\.$")


def test_an_unknown_argument_is_not_ignored_by_kerashub_or_python(unsummed):
    change(unsummed, "task.json", (*BODY, "config"), residual_scale=3)
    refused(unsummed, "RNNBackbone has no argument residual_scale", keras_hub.models.Seq2SeqLM.from_preset)
    for body, sizes in ((RNNBackbone, tiny.BACKBONE), (TransformerBackbone, tiny.TRANSFORMER)):
        with pytest.raises(UserError, match=f"{body.__name__} has no argument residual_scale: leave it out"):
            body(tiny.PIECES, tiny.PIECES, **sizes, residual_scale=3)


@pytest.mark.parametrize(
    "settings",
    [
        {"beams": 10**9, "length_penalty": 0.6, "search_top_k": None},
        {"beams": True, "length_penalty": 0.6, "search_top_k": None},
        {"beams": 4, "length_penalty": 11, "search_top_k": None},
        {"beams": 4, "length_penalty": -1, "search_top_k": None},
        {"beams": 4, "length_penalty": 0.6},
        {"beams": 4, "length_penalty": 0.6, "search_top_k": 2},
        "beam",
    ],
    ids=str,
)
def test_a_search_that_cannot_be_is_refused(unsummed, settings):
    change(unsummed, "task.json", ("config",), search_settings=settings)
    refused(unsummed, "search_settings must have beams, from 1 to 1000|search_top_k applies only to latent")


@pytest.mark.parametrize("name, place", [("config.json", ()), ("task.json", BODY), ("task.json", SIDE)])
def test_an_unknown_class_asks_for_a_newer_version(unsummed, name, place):
    change(unsummed, name, place, class_name="New", registered_name="keras_attn_zoo>New")
    refused(unsummed, rf"{name} of the preset .* has a New, a class unknown to this version of keras-attn-zoo")


def test_the_version_is_recorded_and_old_presets_load(plain_preset):
    assert read_json(plain_preset / "metadata.json")["keras_attn_zoo_version"] == VERSION
    assert PUBLISHED
    for path in PUBLISHED:
        # Nothing is built: the published presets were saved before versions were recorded.
        assert TranslationTokenizer.from_preset(path.parent).vocabulary_size()


@pytest.mark.parametrize("target", ["../../victim/keras.json", "{}/victim/keras.json"], ids=["relative", "absolute"])
@pytest.mark.parametrize("part", [(*SIDE, "config", "tokenizer"), (*SIDE, "config", "source_tokenizer"), SIDE])
def test_a_preset_writes_to_no_other_files(unsummed, tmp_path, part, target):
    target = target.format(tmp_path)
    change(unsummed, "task.json", (*part, "config"), config_file=target)
    refused(unsummed, r"task\.json of the preset .* has config_file='.*keras\.json', no file that a preset may write")
    # Whatever KerasHub is told, assets are read and written under this name.
    with pytest.raises(UserError, match=r"a tokenizer has config_file=.*, no file that a preset may write: use one of"):
        tiny.tokenizer(config_file=target)


def test_a_preset_reads_no_other_subword_model(unsummed, tmp_path):
    (tmp_path / "secret").write_bytes(tiny.subword_model("target"))
    change(unsummed, "tokenizer.json", ("config",), proto=str(tmp_path / "secret"))
    refused(unsummed, r"tokenizer\.json of the preset .* names a subword model outside of it")


@pytest.mark.parametrize("name", ["config.json", "task.json", "tokenizer.json"])
@pytest.mark.parametrize("text", ["[]", "{}", "3", '{"config": null}', '{"config": []}'])
def test_a_configuration_describes_an_object(unsummed, name, text):
    (unsummed / name).write_text(text)
    refused(unsummed, rf"{name} of the preset .* describes no object of Keras: restore")


@pytest.mark.parametrize("sums", [True, False])
def test_a_missing_file_is_named(plain_preset, tmp_path, sums):
    for name, message in (
        ("config.json", "config.json is missing from the preset" if sums else "is not a preset: it has no config"),
        ("model.weights.h5", "model.weights.h5 is missing from the preset"),
    ):
        copy = shutil.copytree(plain_preset, tmp_path / name)
        (copy / name).unlink()
        if not sums:
            (copy / CHECKSUMS).unlink()
        refused(copy, message)
        refused(copy, message, load_translator)


@pytest.mark.parametrize("text", [b"", b"cut"])
@pytest.mark.parametrize("side", ["tokenizer", "source_tokenizer"])
def test_a_damaged_subword_model_is_named(unsummed, side, text):
    path = unsummed / "assets" / side / "vocabulary.spm"
    path.write_bytes(text and path.read_bytes()[:200])
    refused(unsummed, rf"{side}{os.sep}vocabulary\.spm is not a SentencePiece model .*, or is damaged: restore it")


@pytest.mark.parametrize(
    "setting, value",
    [("encoder_cell", 3), ("dropout", "x"), ("hidden_dim", [5]), ("dtype", "unheard-of"), ("hidden_dim", None)],
)
def test_any_other_defect_is_one_line_that_names_the_preset(unsummed, setting, value):
    change(unsummed, "task.json", (*BODY, "config"), **{setting: value})
    change(unsummed, "config.json", ("config",), **{setting: value})
    if setting == "dtype":
        Translator.from_preset(unsummed)
        refused(unsummed, "preset", lambda one: Translator.from_preset(one, dtype=value))
    else:
        refused(unsummed, setting)


def test_sums_do_not_make_a_preset_honest(plain_preset, tmp_path):
    copy = shutil.copytree(plain_preset, tmp_path / "copy")
    change(copy, "task.json", (*BODY, "config"), residual_scale=3)
    write_checksums(copy, read_checksums(copy / CHECKSUMS))
    refused(copy, "residual_scale")

"""Parts of a preset that say one thing in their own file and another in that of the whole."""

import copy
import shutil
import zipfile
from pathlib import Path

import pytest

from keras_attn_zoo.checksums import CHECKSUMS
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.files import read_json, write_json
from keras_attn_zoo.models import RNNBackbone, TranslationPreprocessor, Translator
from keras_attn_zoo.models.preset_agreement import check_agreement
from tests import tiny

pytestmark = pytest.mark.one_backend

ROOT = Path(__file__).parents[2]
OTHER = {bool: lambda x: not x, int: lambda x: x + 1, float: lambda x: x + 0.5, str: lambda x: f"{x}_"}
# Names, precision and Python's modules say nothing about what is computed.
NEUTRAL = ("name", "dtype", "trainable", "module", "build_config", "compile_config")


@pytest.fixture
def preset(plain_preset, tmp_path):
    folder = shutil.copytree(plain_preset, tmp_path / "preset")
    (folder / CHECKSUMS).unlink()
    return folder


def leaves(tree, place=()):
    """Places of all plain values that count."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key not in NEUTRAL:
                yield from leaves(value, (*place, key))
    elif not isinstance(tree, list):
        yield place


def settings(folder):
    return [
        (name, place)
        for name in ("config.json", "preprocessor.json", "tokenizer.json", "source_tokenizer.json")
        for place in leaves(read_json(folder / name))
    ]


def test_every_setting_that_differs_is_named(preset):
    """In each file, one after the other; `task.json` is what the whole model would be built from."""
    places = settings(preset)
    assert len(places) > 50
    read = {path.name: read_json(path) for path in preset.glob("*.json")}
    check_agreement(read.get, preset)
    for name, place in places:
        tree = copy.deepcopy(read[name])
        inside = tree
        for key in place[:-1]:
            inside = inside[key]
        inside[place[-1]] = OTHER.get(type(inside[place[-1]]), lambda x: 1)(inside[place[-1]])
        with pytest.raises(UserError) as error:
            check_agreement((read | {name: tree}).get, preset)
        said = str(error.value)
        assert name in said and f"{place[-1]}=" in said and ("task.json" in said or "preprocessor.json" in said), said


@pytest.mark.parametrize(
    ("cls", "name", "change"),
    [
        (Translator, "config.json", {"hidden_dim": 7}),
        (Translator, "preprocessor.json", {"decoder_sequence_length": 9}),
        (Translator, "tokenizer.json", {"truecased": True}),
        (Translator, "source_tokenizer.json", {"add_eos": True}),
        (RNNBackbone, "config.json", {"dropout": 0.5}),
        (TranslationPreprocessor, "tokenizer.json", {"sequence_length": 3}),
    ],
)
def test_such_a_preset_is_not_loaded(preset, cls, name, change):
    tree = read_json(preset / name)
    tree["config"] |= change
    write_json(preset / name, tree)
    (key,) = change
    with pytest.raises(UserError, match=rf"{name} of the preset .* says {key}=.*, but (task|preprocessor)\.json says"):
        cls.from_preset(preset)


def test_a_setting_that_is_left_out_is_that_of_its_default(preset):
    """An earlier version does not write what it does not know; but what differs from the default is a contradiction."""
    tree = read_json(preset / "config.json")
    assert tree["config"].pop("tie_embeddings") == "none"
    write_json(preset / "config.json", tree)
    Translator.from_preset(preset)
    assert tree["config"].pop("hidden_dim") == tiny.BACKBONE["hidden_dim"]
    write_json(preset / "config.json", tree)
    with pytest.raises(UserError, match=r"hidden_dim"):
        Translator.from_preset(preset)


def test_a_part_that_does_not_fit_is_not_saved_into_a_preset(plain_preset, tmp_path):
    folder = shutil.copytree(plain_preset, tmp_path / "preset")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match=r"config\.json .* says hidden_dim=9, but task\.json says"):
        tiny.backbone(hidden_dim=9).save_to_preset(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    # The whole model may be another one.
    tiny.translator(hidden_dim=9).save_to_preset(folder)
    assert Translator.from_preset(folder).backbone.get_config()["hidden_dim"] == 9


@pytest.mark.parametrize("body", [tiny.backbone, tiny.transformer], ids=["rnn", "transformer"])
@pytest.mark.parametrize("joint", [True, False])
def test_what_this_version_writes_agrees(tmp_path, body, joint):
    translator = tiny.translator(body=body, joint=joint)
    translator.save_to_preset(tmp_path)
    again = Translator.from_preset(tmp_path, dtype="mixed_bfloat16")
    again.quantize("int8")
    again.save_to_preset(tmp_path)
    Translator.from_preset(tmp_path).backbone.save_to_preset(tmp_path)
    Translator.from_preset(tmp_path)


def test_published_presets_and_those_of_earlier_versions_agree(tmp_path):
    with zipfile.ZipFile(ROOT / "tests" / "models" / "presets_of_0.1.0.zip") as old:
        old.extractall(tmp_path)
    folders = {path.parent for top in (ROOT / "presets", tmp_path) for path in top.rglob("task.json")}
    assert len(folders) > 12
    for folder in folders:
        check_agreement({path.name: read_json(path) for path in folder.glob("*.json")}.get, folder)

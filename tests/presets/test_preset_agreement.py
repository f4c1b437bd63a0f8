"""Parts of a preset that say one thing in their own file and another in that of the whole."""

import copy
import shutil
import zipfile
from pathlib import Path

import pytest

from keras_attn_zoo.bodies import RNNBackbone
from keras_attn_zoo.layers.registry import get_attention
from keras_attn_zoo.presets.preset_agreement import check_agreement
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import read_json, write_json
from keras_attn_zoo.translators import TranslationPreprocessor, TranslationTokenizer, Translator
from tests import tiny

pytestmark = pytest.mark.one_backend

ROOT = Path(__file__).parents[2]
OTHER = {bool: lambda x: not x, int: lambda x: x + 1, float: lambda x: x + 0.5, str: lambda x: f"{x}_"}
# Name and precision of a part itself say nothing about what is computed, nor do the modules of registered classes.
NEUTRAL = (("config", "name"), ("config", "dtype"))


def leaves(tree, place=()):
    """Places of all plain values that count."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if (*place, key) not in NEUTRAL and key != "module":
                yield from leaves(value, (*place, key))
    elif not isinstance(tree, list):
        yield place


def merged(tree, changes):
    """A tree with values at some places replaced."""
    if not isinstance(changes, dict) or not isinstance(tree, dict):
        return changes
    return tree | {key: merged(tree.get(key), value) for key, value in changes.items()}


def test_every_setting_that_differs_is_named(unsummed):
    """In each file, one after the other; `task.json` is what the whole model would be built from."""
    read = {path.name: read_json(path) for path in unsummed.glob("*.json")}
    parts = ("config.json", "preprocessor.json", "tokenizer.json", "source_tokenizer.json")
    places = [(name, place) for name in parts for place in leaves(read[name])]
    assert len(places) > 50
    check_agreement(read.get, unsummed)
    for name, place in places:
        tree = copy.deepcopy(read[name])
        inside = tree
        for key in place[:-1]:
            inside = inside[key]
        inside[place[-1]] = OTHER.get(type(inside[place[-1]]), lambda x: 1)(inside[place[-1]])
        with pytest.raises(UserError) as error:
            check_agreement((read | {name: tree}).get, unsummed)
        said = str(error.value)
        assert name in said and f"{place[-1]}=" in said and ("task.json" in said or "preprocessor.json" in said), said


def test_what_a_nested_layer_says_of_itself_counts(tmp_path):
    """Nobody who loads the body decides its precision, or whether it is trained."""
    gaussian = get_attention("gaussian", width=8, num_heads=2, place="decoder")
    tiny.translator(
        body=tiny.transformer, encoder_attention={"attention": "multi_head", "name": "own"}, decoder_attention=gaussian
    ).save_to_preset(tmp_path)
    read = {path.name: read_json(path) for path in tmp_path.glob("*.json")}
    for changes in (
        {"decoder_attention": {"config": {"trainable": False}}},
        {"decoder_attention": {"config": {"dtype": {"config": {"name": "float16"}}}}},
        {"decoder_attention": {"config": {"dtype": {"module": "keras.initializers"}}}},
        {"encoder_attention": {"name": "other"}},
        {"encoder_attention": {"dtype": "float16"}},
    ):
        tree = merged(read["config.json"], {"config": changes})
        with pytest.raises(UserError, match=rf"config\.json .* says {next(iter(changes))}\.\S+="):
            check_agreement((read | {"config.json": tree}).get, tmp_path)


@pytest.mark.parametrize("key", ["compile_config", "build_config"])
def test_what_one_file_alone_would_do_to_a_part_counts(unsummed, key):
    tree = read_json(unsummed / "config.json")
    write_json(unsummed / "config.json", tree | {key: {}})
    with pytest.raises(UserError, match=rf"config\.json .* says {key}=\{{\}}, but task\.json says nothing"):
        Translator.from_preset(unsummed)


@pytest.mark.parametrize("left", [{}, {"preprocessor": None}, {"preprocessor": 5}])
def test_a_part_that_the_whole_does_not_have(unsummed, left):
    """The translator would have none, and translate no text; the class of the part would load it."""
    tree = read_json(unsummed / "task.json")
    del tree["config"]["preprocessor"]
    tree["config"] |= left
    write_json(unsummed / "task.json", tree)
    for cls in (Translator, TranslationPreprocessor, TranslationTokenizer):
        with pytest.raises(UserError, match=r"has a preprocessor\.json, but task\.json says preprocessor="):
            cls.from_preset(unsummed)


def test_the_file_that_a_shared_tokenizer_names_is_the_one_compared(tmp_path):
    tiny.translator(joint=True).save_to_preset(tmp_path)
    read = {path.name: read_json(path) for path in tmp_path.glob("*.json")}
    # What an earlier model with two tokenizers left behind is not read.
    check_agreement((read | {"source_tokenizer.json": {"config": {}}}).get, tmp_path)
    inside = {"config": {"source_tokenizer": {"config": {"add_eos": True}}}}
    both = {"task.json": {"config": {"preprocessor": inside}}, "preprocessor.json": inside}
    changed = {name: merged(read[name], changes) for name, changes in both.items()}
    with pytest.raises(UserError, match=r"^tokenizer\.json .* says add_eos=False, but task\.json says True"):
        check_agreement((read | changed).get, tmp_path)


@pytest.mark.parametrize(
    ("cls", "name", "change"),
    [
        (Translator, "config.json", {"trainable": False}),
        (Translator, "source_tokenizer.json", {"add_eos": True}),
        (RNNBackbone, "config.json", {"dropout": 0.5}),
        (TranslationPreprocessor, "tokenizer.json", {"sequence_length": 3}),
    ],
)
def test_such_a_preset_is_not_loaded(unsummed, cls, name, change):
    tree = read_json(unsummed / name)
    tree["config"] |= change
    write_json(unsummed / name, tree)
    (key,) = change
    with pytest.raises(UserError, match=rf"{name} of the preset .* says {key}=.*, but (task|preprocessor)\.json says"):
        cls.from_preset(unsummed)


def test_a_setting_that_is_left_out_is_that_of_its_default(unsummed):
    """An earlier version does not write what it does not know; but what differs from the default is a contradiction."""
    read = {path.name: read_json(path) for path in unsummed.glob("*.json")}
    assert read["config.json"]["config"].pop("tie_embeddings") == "none"
    check_agreement(read.get, unsummed)
    assert read["config.json"]["config"].pop("hidden_dim") == tiny.BACKBONE["hidden_dim"]
    with pytest.raises(UserError, match="hidden_dim"):
        check_agreement(read.get, unsummed)


def test_a_part_that_does_not_fit_is_not_saved_into_a_preset(plain_preset, tmp_path):
    folder = shutil.copytree(plain_preset, tmp_path / "preset")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match=r"config\.json .* says hidden_dim=9, but task\.json says"):
        tiny.backbone(hidden_dim=9).save_to_preset(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    # The whole model may be another one.
    tiny.translator(hidden_dim=9).save_to_preset(folder)
    assert Translator.from_preset(folder).backbone.get_config()["hidden_dim"] == 9


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "joint"),
    [
        (tiny.backbone, True),
        (tiny.transformer, False),
        pytest.param(tiny.backbone, False, marks=pytest.mark.slow),
        pytest.param(tiny.transformer, True, marks=pytest.mark.slow),
    ],
)
def test_what_this_version_writes_agrees(tmp_path, body, joint):
    translator = tiny.translator(body=body, joint=joint)
    translator.save_to_preset(tmp_path)
    again = Translator.from_preset(tmp_path, dtype="mixed_bfloat16")
    again.quantize("int8")
    again.save_to_preset(tmp_path)
    Translator.from_preset(tmp_path).backbone.save_to_preset(tmp_path)
    Translator.from_preset(tmp_path)


def test_published_presets_and_those_of_earlier_versions_agree(tmp_path):
    with zipfile.ZipFile(ROOT / "tests" / "presets" / "presets_of_0.1.0.zip") as old:
        old.extractall(tmp_path)
    folders = {path.parent for top in (ROOT / "presets", tmp_path) for path in top.rglob("task.json")}
    assert len(folders) > 12
    for folder in folders:
        check_agreement({path.name: read_json(path) for path in folder.glob("*.json")}.get, folder)

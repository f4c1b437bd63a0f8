"""Every entry of every recipe is a system that can be built, with figures under columns that the table has."""

import functools
import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest

from keras_attn_zoo.commands.parser import Parser
from keras_attn_zoo.commands.pictures import PICTURES
from keras_attn_zoo.experiments.bodies import BODIES
from keras_attn_zoo.experiments.named_systems import SYSTEMS
from keras_attn_zoo.experiments.system import parse_settings
from keras_attn_zoo.experiments.table import COLUMNS

RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("*.py"))
SMALL = {
    "rnn": {"embedding_dim": 8, "hidden_dim": 8},
    "transformer": {"width": 16, "num_heads": 2, "ffn_dim": 8, "max_length": 9},
}


def build(system):
    """Build the body of a system, smaller; systems that differ in training alone have one body."""
    build_body(system.body, json.dumps(system.override(**SMALL[system.body]).backbone))


@functools.cache
def build_body(body, settings):
    BODIES[body].body_class(20, 20, **json.loads(settings))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
@pytest.mark.long
def test_entries_of_a_recipe(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert set(module.RECIPE.default) <= set(module.RECIPE.entries)
    for name, entry in module.RECIPE.entries.items():
        assert entry.system.name == name
        assert set(entry.paper) <= set(COLUMNS)
        assert entry.baseline != name
        assert entry.baseline is None or entry.baseline in module.RECIPE.entries
        assert entry.system.from_dict(entry.system.to_dict()) == entry.system
        build(entry.system)
    commands = {command.name: command for command in PICTURES}
    for file, line in module.RECIPE.pictures.items():
        name, *words = shlex.split(line)
        parser = Parser()
        commands[name].add_arguments(parser)
        options = parser.parse_args([*words, "--output", file])
        for word in getattr(options, "models", getattr(options, "runs", [])):
            assert str(word) in module.RECIPE.entries


@pytest.mark.parametrize("name", ["bahar2020", "zeng2021"])
def test_settings_that_a_recipe_names_for_other_languages(name):
    """Chinese and English, as its docstring says."""
    path = next(path for path in RECIPES if path.stem == name)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    words = " ".join(module.__doc__.replace("\\\n", " ").split())
    line = (
        words[: words.index("vocabulary_size=32000")].rpartition("--set")[2]
        + words[words.index("vocabulary_size=32000") :]
    )
    settings = parse_settings(re.match(r"(?: ?[a-z_]+=\w+)+", line.strip())[0].split())
    assert settings["vocabulary_size"] == 32000 and len(settings) > 2
    for entry in module.RECIPE.at("paper").entries.values():
        system = entry.system.override(**entry.system.understood(settings))
        assert {name: getattr(system.data, name, value) for name, value in settings.items()} == settings


@pytest.mark.long
def test_systems_of_the_command_line():
    for name, system in SYSTEMS.items():
        assert system.name == name
        assert system.source
        build(system)

"""What README and docs say of the code, held against the code."""

import argparse
import ast
import importlib
import importlib.util
import re
import runpy
import shlex
from pathlib import Path

import pytest

from keras_attn_zoo.cli import build_parser, recipe
from keras_attn_zoo.cli.guard import guarded
from keras_attn_zoo.cli.run_comparison import system_names
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.runs.system import parse_settings

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "keras_attn_zoo"
RECIPES = {path.name: path for path in sorted((ROOT / "recipes").glob("*.py"))}
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if not {"api", "_build", "runs"} & set(page.parts)),
    *sorted((ROOT / "benchmarks").rglob("*.md")),
]


def imports(path):
    """Names of the modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


# Who may import whom, see docs/explanation/architecture.md.
ARROWS = {
    "support": set(),
    "kernels": {"support"},
    "layers": {"kernels", "support"},
    "decoding": {"kernels", "support"},
    "devices": {"support"},
    "data": {"devices", "support"},
    "evaluation": {"data", "support"},
    "training": {"devices", "evaluation", "kernels", "support"},
    "viewing": {"data", "evaluation", "support"},
    "presets": {"data", "devices", "support"},
    "bodies": {"data", "kernels", "layers", "presets", "support"},
    "runtime": {"data", "devices", "kernels", "layers", "support"},
    "corpora": {"data", "devices", "evaluation", "support"},
    "onnx": {"data", "support"},
}
ARROWS["translators"] = ARROWS.keys() - {"corpora", "devices"}
ARROWS["runs"] = set(ARROWS)
ARROWS["studies"] = ARROWS.keys() - {
    *("bodies", "decoding", "kernels", "layers", "onnx", "presets", "runtime", "translators")
}
ARROWS["site"] = {"layers", "presets", "support", "translators", "viewing"}
ARROWS["cli"] = set(ARROWS)
ARROWS["__main__"] = {"cli"}


def test_every_room_has_its_arrows():
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__"} == ARROWS.keys()
    for room, known in ARROWS.items():
        assert not any(room in ARROWS[other] for other in known), f"{room} and one below it know each other"


def rooms_of(path):
    """Names of the rooms of the package that a file imports from."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path} has a relative import"
        if isinstance(node, ast.ImportFrom) and node.module == "keras_attn_zoo":
            yield from (alias.name for alias in node.names)
    yield from (module.split(".")[1] for module in imports(path) if module.startswith("keras_attn_zoo."))


@pytest.mark.parametrize("room", ARROWS)
def test_arrows_of_import_point_downward(room):
    files = [PACKAGE / f"{room}.py"] if (PACKAGE / f"{room}.py").exists() else (PACKAGE / room).rglob("*.py")
    for path in files:
        assert set(rooms_of(path)) <= ARROWS[room] | {room}, path


@pytest.mark.parametrize(
    "path", [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "docs").glob("*.py")], ids=lambda path: path.name
)
def test_scripts_import_what_there_is(path):
    """No other test runs them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("keras_attn_zoo"):
            module = importlib.import_module(node.module)
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#\s]*)(?:#[\w-]*)?\)", page.read_text(encoding="utf-8")):
        assert not target or (page.parent / target).exists(), target


def test_what_is_derived_from_the_registry_is_up_to_date():
    tables = runpy.run_path(str(ROOT / "docs" / "write_tables.py"))
    again = "stale: run `python docs/write_tables.py`"
    for page in tables["PAGES"]:
        text = page.read_text(encoding="utf-8")
        assert "<!-- mechanisms: " in text, page
        assert text == tables["with_tables"](text), f"{page.name} is {again}"
    assert tables["STUB"].read_text(encoding="utf-8") == tables["stub"](), f"{tables['STUB'].name} is {again}"


def test_every_paper_that_a_source_names_can_be_cited():
    tables = runpy.run_path(str(ROOT / "docs" / "write_tables.py"))
    assert len(tables["named_papers"]()) > 6
    assert tables["named_papers"]() <= tables["cited"]().keys(), "add the paper to CITATION.cff"


def commands(text):
    """The command lines of `attn-zoo` and of the recipes in a text, each as a list of words."""
    joined = re.sub(r"\s*\\+\n\s*", " ", text)
    for line in re.findall(r"^(?:.*\| )?\s*((?:attn-zoo|python recipes/\w+\.py) .*)$", joined, re.MULTILINE):
        words = shlex.split(line.split(" > ")[0], comments=True)
        if not {"...", "COMMAND"} & set(words):
            yield words


def examples():
    """All command lines that readers are shown."""
    texts = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}
    texts |= {path.name: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for path in RECIPES.values()}
    texts |= {f"--help of {parser.prog}": parser.format_help() for parser in parsers(build_parser())}
    return [
        pytest.param(words, id=f"{place}: {' '.join(words)}") for place in texts for words in commands(texts[place])
    ]


def parsers(parser):
    """A parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from parsers(sub)


def load(path):
    """The module of a recipe."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("words", examples())
def test_commands_that_are_shown_are_understood(words, monkeypatch):
    seen = []
    if words[0] == "attn-zoo":
        status = guarded(build_parser(), seen.append, words[1:])
        # A training that continues a model names no system.
        names = [name for one in seen for name in ([one.system] if "system" in one else system_names(one)) if name]
        systems = [SYSTEMS[name] for name in names]
    else:
        monkeypatch.setattr(recipe, "run_pairs", lambda known, options: seen.append(options))
        module = load(RECIPES[Path(words[1]).name])
        status = recipe.run_recipe(module.RECIPE, module.__doc__, words[2:])
        systems = [module.RECIPE.entries[name].system for options in seen for name in system_names(options)]
    assert (status, len(seen)) == (0, 1)
    # A comparison changes the systems that have a setting; every setting has one.
    settings, known = parse_settings(seen[0].set) if systems else {}, set()
    for system in systems:
        applicable = system.applicable_settings(settings)
        system.override(**applicable)
        known.update(applicable)
    assert known == settings.keys()

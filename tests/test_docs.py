"""What README and docs say of the code, held against the code."""

import ast
import re
from pathlib import Path

import pytest

from keras_attn_zoo.layers import ATTENTIONS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "keras_attn_zoo"
BACKENDS = {"jax", "tensorflow", "tensorflow_text", "torch"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def section(page, heading):
    """The text below a heading of level 2."""
    _, found, rest = (ROOT / page).read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    assert found, f"{page} has no section {heading!r}"
    return rest.partition("\n## ")[0]


def names_a_backend(path):
    """Whether a file imports a backend or asks which one runs."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if any(module.split(".")[0] in BACKENDS for module in modules):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("keras.config.backend", "keras.backend.backend"):
            return True
    return False


def test_the_architecture_lists_every_file_that_names_a_backend():
    listed = set(re.findall(r"`([\w/]+\.py)`", section("docs/architecture.md", "Where a backend's name stands")))
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if names_a_backend(path)}
    assert listed == found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#\s]*)(?:#[\w-]*)?\)", page.read_text(encoding="utf-8")):
        assert not target or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", ["README.md", "docs/layers.md", "docs/builder.md"])
def test_every_layer_has_a_row(page):
    rows = re.findall(r"^\|.*$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {entry.layer.__name__ for entry in ATTENTIONS.values()} - listed == set()

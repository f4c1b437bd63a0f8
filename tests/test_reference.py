"""The reference has every module; it is built by Sphinx, not here."""

import ast
import importlib
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import keras_attn_zoo

DOCS = Path(__file__).resolve().parent.parent / "docs"
GUIDE = [page for part in ("tutorials", "how-to", "reference") for page in sorted((DOCS / part).glob("*.md"))]
REFERENCE = runpy.run_path(str(DOCS / "reference.py"))
LISTED = {
    module
    for page in sorted((DOCS / "api").glob("*.md"))
    for module in REFERENCE["NAMED"].findall(REFERENCE["with_modules"](page.read_text(encoding="utf-8")))
}


@pytest.mark.parametrize("name", keras_attn_zoo.__all__)
def test_public_subpackages_have_a_page(name):
    part = getattr(keras_attn_zoo, name)
    assert not hasattr(part, "__path__") or (DOCS / "api" / f"{name}.md").exists()


def test_every_package_with_a_page_is_public():
    """Except the command line, which is run, and what all others share."""
    packages = {module.name for module in pkgutil.iter_modules(keras_attn_zoo.__path__) if module.ispkg}
    pages = {page.stem for page in (DOCS / "api").glob("*.md")}
    assert packages & pages - {"cli", "support"} <= set(keras_attn_zoo.__all__)


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", *GUIDE], ids=lambda page: page.stem)
def test_what_the_guide_imports_is_in_the_reference(page):
    snippets = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    imports = [node for code in snippets for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom)]
    for node in (node for node in imports if node.module.startswith("keras_attn_zoo")):
        # What a package exports stands on its page, whichever module it is imported from.
        exported = getattr(importlib.import_module(node.module.rpartition(".")[0] or node.module), "__all__", ())
        assert node.module in LISTED or {alias.name for alias in node.names} <= {*exported}, node.module


def test_every_page_is_in_the_contents():
    pages = {page for page in DOCS.rglob("*.md") if not {"_build", "runs"} & set(page.parts)}
    listed = {DOCS / "index.md"}
    for index in DOCS.rglob("index.md"):
        for contents in re.findall(r"^```{toctree}\n(.*?)^```", index.read_text("utf-8"), re.DOTALL | re.MULTILINE):
            for name in re.findall(r"^[\w/*-]+$", contents, re.MULTILINE):
                listed |= {*index.parent.glob(f"{name}.md")}
    assert pages == listed


def test_every_module_is_in_the_reference():
    """By itself, or by the package that exports what it defines."""
    found = [*pkgutil.walk_packages(keras_attn_zoo.__path__, "keras_attn_zoo.")]
    modules, exported = {module.name for module in found}, set()
    for module in (importlib.import_module(module.name) for module in found if module.ispkg):
        exported |= {getattr(getattr(module, name), "__module__", None) for name in getattr(module, "__all__", ())}
    modules = {name for name in modules if not name.endswith("__main__")}
    assert modules - exported <= LISTED
    assert modules >= LISTED

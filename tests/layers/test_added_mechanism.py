"""Two files add a mechanism: the examples of the guide keep all laws, here and in another package."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.__main__ import SHARED_FILES
from tests.budgets import KEPT
from tests.layers import (
    test_attention_inputs,
    test_attention_laws,
    test_attention_masks,
    test_attention_transformations,
)
from tests.strangers import test_calls

pytestmark = [pytest.mark.one_backend, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "docs" / "tutorials" / "add-a-mechanism.md", ROOT / "docs" / "how-to" / "extend-a-base-class.md")
BLOCKS = [
    block
    for page in PAGES
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
]


# The examples, in the order of the pages, and a place of each.
PLACES = {"diagonal": "cross", "penalised": "cross", "tempered": "cross", "distance": "decoder", "slanted": "decoder"}
MODULES = (
    test_attention_laws,
    test_attention_inputs,
    test_attention_masks,
    test_attention_transformations,
    test_calls,
)
# Other tests that go by mechanism, with its name among the parameters; but for those that take long to set up.
BY_MECHANISM = (
    "tests/layers/test_dropout_in_steps.py",
    "tests/layers/test_normalizers.py",
    "tests/layers/test_registry.py",
    "tests/bodies/test_rnn_backbone.py",
    "tests/bodies/test_transformer_backbone.py",
    "tests/strangers/test_calls.py",
    "tests/test_api.py",
)


def laws_of(place):
    """Names of the laws that run on a mechanism in a place."""

    def place_of(arguments):
        arguments = getattr(arguments, "values", arguments)
        return (arguments[0] if isinstance(arguments, tuple) else arguments).place

    return {
        name
        for module in MODULES
        for name, function in vars(module).items()
        for mark in getattr(function, "pytestmark", [])
        if mark.name == "parametrize" and mark.args[0] in ("case", ("case", "policy"), "stranger")
        if any(place_of(one) == place for one in mark.args[1])
    }


def examples():
    """Layer and reference of each mechanism of the page, by name."""
    imports = BLOCKS[0].partition("@attention")[0]
    layers = [layer if layer.startswith(imports) else imports + layer for layer in BLOCKS[::2]]
    return dict(zip(PLACES, zip(layers, BLOCKS[1::2], strict=True), strict=True))


def run(command, *path, cwd=ROOT, **environment):
    """The output of a process that imports from the folders of a path, and that is expected to succeed."""
    # Nothing is shared with the tests of other mechanisms.
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, path)), SHARED_FILES: "", KEPT: ""}
    process = subprocess.run(command, env={**os.environ, **environment}, cwd=cwd, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-1000:]
    return process.stdout


def passed(output):
    """The file of each test that passed."""
    return re.findall(r"^(tests/[\w/]+\.py)::\S+ PASSED", output, re.MULTILINE)


PYTEST = [sys.executable, "-m", "pytest", "-vv", "-p", "no:cacheprovider", "-p", "no:xdist"]


@pytest.fixture
def copy(tmp_path):
    """A copy of the package and its tests, with the two files of each example."""
    for folder in ("keras_attn_zoo", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, (layer, reference) in examples().items():
        (tmp_path / "keras_attn_zoo" / "layers" / f"{name}_attention.py").write_text(layer, encoding="utf-8")
        folder = tmp_path / "tests" / "layers" / "references"
        (folder / f"{name}_attention.py").write_text(reference, encoding="utf-8")
    return tmp_path


FOLLOWS = f"""
import runpy

from keras_attn_zoo import get_attention, layers


def test_names_and_tables_of_diagonal():
    assert "DiagonalAttention" in layers.__all__
    assert type(get_attention("diagonal", width=4)) is layers.DiagonalAttention
    written = runpy.run_path({str(ROOT / "docs" / "write_tables.py")!r})
    assert "from keras_attn_zoo.layers.diagonal_attention import DiagonalAttention" in written["stub"]()
    for page in written["PAGES"]:
        assert "`DiagonalAttention`" in written["with_tables"](page.read_text(encoding="utf-8")), page
"""


def test_what_follows_from_the_two_files(copy):
    """Public names, the registry, all tables, and the tests that go by mechanism."""
    (copy / "tests" / "test_follows.py").write_text(FOLLOWS, encoding="utf-8")
    files = [*BY_MECHANISM, "tests/test_follows.py"]
    chosen = " or ".join([*examples(), "annotated"])
    assert {*files} == {*passed(run([*PYTEST, *files, "-k", chosen], copy, cwd=copy))}


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="XLA counts bytes under JAX alone")
def test_their_memory_is_bounded_too(copy):
    memory = [*PYTEST, "tests/layers/test_memory.py", "-k", " or ".join(examples())]
    assert passed(run(memory, copy, cwd=copy, KERAS_BACKEND="jax")) == 3 * ["tests/layers/test_memory.py"]


def test_two_files_add_a_mechanism(tmp_path):
    """Cross-attention, plain, with a state and with heads, and self-attention: each law of the place runs and holds."""
    folder = tmp_path / "outside"
    (folder / "references").mkdir(parents=True)
    for name, (layer, reference) in examples().items():
        (folder / f"{name}_attention.py").write_text(layer, encoding="utf-8")
        (folder / "references" / f"{name}_attention.py").write_text(reference, encoding="utf-8")
    files = [module.__file__ for module in MODULES]
    # Under this one every law runs on each mechanism; under the others some run once per base class.
    # Files of weights are those of Keras; another backend takes seconds to start, and references seconds to find sparse
    # weights, of which the layers know nothing.
    chosen = [*files, "-k", "not another_backend and not entmax15 and not sparsemax"]
    output = run([*PYTEST, *chosen], tmp_path, ROOT, MECHANISMS_OF="outside", KERAS_BACKEND="torch")
    for name, place in PLACES.items():
        outcomes = {}
        for law, outcome in re.findall(rf"::(\w+)\[.*{name}_{place}.*\] ([A-Z]+)", output):
            outcomes.setdefault(law, set()).add(outcome)
        # The one law of what has no state.
        laws = laws_of(place) - ({"test_rows_of_one_sentence_share_its_memory"} if name == "penalised" else set())
        assert len(laws) > 12
        assert outcomes == {law: {"PASSED"} for law in laws}, name

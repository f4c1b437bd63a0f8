"""Two files add a mechanism: the examples of docs/add-a-mechanism.md, in a package of their own, keep all laws."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.layers import test_attention_inputs, test_attention_laws, test_attention_masks

pytestmark = [pytest.mark.one_backend, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "add-a-mechanism.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


# The examples, in the order of the page, and a place of each.
PLACES = {"diagonal": "cross", "penalised": "cross", "tempered": "cross", "distance": "decoder"}
MODULES = (test_attention_laws, test_attention_inputs, test_attention_masks)


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
        if mark.name == "parametrize" and mark.args[0] in ("case", ("case", "policy"))
        if any(place_of(one) == place for one in mark.args[1])
    }


def run(command, *path, **environment):
    """The output of a process that imports from the folders of a path, and that is expected to succeed."""
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, path))}
    process = subprocess.run(command, env={**os.environ, **environment}, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-1000:]
    return process.stdout


def test_what_follows_from_the_file_of_a_layer(tmp_path):
    """The public name, the name in the registry, and all tables: in a copy of the package with one file more."""
    shutil.copytree(ROOT / "keras_attn_zoo", tmp_path / "keras_attn_zoo", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "keras_attn_zoo" / "layers" / "diagonal_attention.py").write_text(BLOCKS[0], encoding="utf-8")
    code = """
        import runpy
        from keras_attn_zoo import get_attention, layers
        assert "DiagonalAttention" in layers.__all__
        assert type(get_attention("diagonal", width=4)) is layers.DiagonalAttention
        written = runpy.run_path("docs/write_tables.py")
        assert "from keras_attn_zoo.layers.diagonal_attention import DiagonalAttention" in written["stub"]()
        for page in written["PAGES"]:
            assert "| `DiagonalAttention` | " in written["with_tables"](page.read_text(encoding="utf-8")), page
    """
    run([sys.executable, "-P", "-c", textwrap.dedent(code)], tmp_path)


def test_two_files_add_a_mechanism(tmp_path):
    """Cross-attention, plain, with a state and with heads, and self-attention: each law of the place runs and holds."""
    imports = BLOCKS[0].partition("@attention")[0]
    folder = tmp_path / "outside"
    (folder / "references").mkdir(parents=True)
    for name, layer, reference in zip(PLACES, BLOCKS[::2], BLOCKS[1::2], strict=True):
        layer = layer if layer.startswith(imports) else imports + layer
        (folder / f"{name}_attention.py").write_text(layer, encoding="utf-8")
        (folder / "references" / f"{name}_attention.py").write_text(reference, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-vv", "-p", "no:cacheprovider", "-p", "no:xdist"]
    files = [module.__file__ for module in MODULES]
    output = run([*command, *files], tmp_path, ROOT, MECHANISMS_OF="outside")
    for name, place in PLACES.items():
        outcomes = {}
        for law, outcome in re.findall(rf"::(\w+)\[.*{name}_{place}.*\] ([A-Z]+)", output):
            outcomes.setdefault(law, set()).add(outcome)
        # The one law of what has no state.
        laws = laws_of(place) - ({"test_rows_of_one_sentence_share_its_memory"} if name == "penalised" else set())
        assert len(laws) > 12
        assert outcomes == {law: {"PASSED"} for law in laws}, name

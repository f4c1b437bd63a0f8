"""Two files add a mechanism: the examples of docs/add-a-mechanism.md, in a package of their own, keep all laws."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import keras
import pytest

from tests.layers import test_attention_laws

pytestmark = pytest.mark.one_backend

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "add-a-mechanism.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def case_of(arguments):
    """The case among the arguments of one run of a law."""
    return arguments[0] if isinstance(arguments, tuple) else arguments


LAWS_OF_CROSS_ATTENTIONS = {
    name
    for name, function in vars(test_attention_laws).items()
    for mark in getattr(function, "pytestmark", [])
    if "case" in mark.args[0] and any(case_of(one).cross for one in mark.args[1])
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
    diagonal, diagonal_reference, penalised, penalised_reference = BLOCKS
    imports = diagonal.partition("@attention")[0]
    folder = tmp_path / "outside"
    (folder / "references").mkdir(parents=True)
    for name, layer, reference in (
        ("diagonal_attention", diagonal, diagonal_reference),
        ("penalised_attention", imports + penalised, penalised_reference),
    ):
        (folder / f"{name}.py").write_text(layer, encoding="utf-8")
        (folder / "references" / f"{name}.py").write_text(reference, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-vv", "-p", "no:cacheprovider", "-p", "no:xdist"]
    output = run([*command, test_attention_laws.__file__], tmp_path, ROOT, MECHANISMS_OF="outside")
    names = ("diagonal", "penalised")
    held = [set(re.findall(rf"::(\w+)\[.*{name}_cross.*\] (?:PASSED|SKIPPED)", output)) for name in names]
    assert set.union(*held) == LAWS_OF_CROSS_ATTENTIONS
    # Where laws are compiled, some are left to one mechanism of each base class.
    assert keras.config.backend() != "torch" or held[0] == held[1]

"""Two files add a mechanism: the examples of docs/add-a-mechanism.md, in a package of their own, keep all laws."""

import os
import re
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from tests.layers import test_attention_laws

pytestmark = pytest.mark.skipif(keras.config.backend() != "torch", reason="alike on all; nothing is compiled on torch")

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "add-a-mechanism.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
LAWS_OF_CROSS_ATTENTIONS = {
    name
    for name, function in vars(test_attention_laws).items()
    for mark in getattr(function, "pytestmark", [])
    if mark.args[0] == "case" and any(case.cross for case in mark.args[1])
}


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
    run = subprocess.run(
        [*command, test_attention_laws.__file__],
        env={**os.environ, "MECHANISMS_OF": "outside", "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    for name in ("diagonal", "penalised"):
        held = set(re.findall(rf"::(\w+)\[.*{name}_cross.*\] (?:PASSED|SKIPPED)", run.stdout))
        assert held == LAWS_OF_CROSS_ATTENTIONS

"""The benchmarks run, at sizes at which there is nothing to measure."""

import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
SMALL = "--set width=16 num_heads=2 ffn_dim=8 encoder_layers=1 decoder_layers=1"
ARGUMENTS = {
    "layers": "--layers bahdanau luong_dot/entmax15 average --lengths 3 --batch 2 --width 8 --heads 2 --seconds 0",
    "train": f"--systems transformer ran-all --batch 2 --length 3 --vocabulary 20 --steps 1 --rounds 1 {SMALL}",
    "latent": "--vocabulary 20 --source 7 --batch 2 --width 64 --seconds 0",
    "translate": f"--systems transformer --batch 2 --beams 1 2 --length 3 --vocabulary 20 --repeats 1 {SMALL}",
}


def test_all_benchmarks_are_here():
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == {*ARGUMENTS, "measure"}


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.long
def test_a_benchmark_prints_its_table(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, *ARGUMENTS[name].split()])
    monkeypatch.syspath_prepend(BENCHMARKS)
    runpy.run_path(str(BENCHMARKS / f"{name}.py"), run_name="__main__")
    assert "|--" in capsys.readouterr().out

"""Break one place at a time, on a copy, and see whether the tests notice: `python -m tests.breaks`.

Writes a Markdown table: what was broken, and the first test that failed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.__main__ import selection
from tests.breaks.places import PLACES

ROOT = Path(__file__).resolve().parents[2]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}


def what_to_run(file):
    """Tests to run one after the other until one fails: those named after a file, those of its package, all.

    What is wrong with a kernel may show in layers or losses alone.
    """
    package, stem = Path(file).parts[1], Path(file).stem
    named = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / package).glob(f"test_{stem}*.py"))
    mechanism = ["tests/layers/test_attention_laws.py", "-k", stem.removesuffix("_attention")]
    laws = [mechanism] if package == "layers" and stem.endswith("_attention") else []
    packages = [f"tests/{package}"], *([["tests/layers"], ["tests/training"]] if package == "kernels" else [])
    return [*([named] if named else []), *laws, *packages, ["tests", "--ignore=tests/test_breaks.py"]]


def first_failure(copy, place, cache):
    """Run the tests of a copy, those before every commit, until one fails; return its name, or None."""
    environment = {
        **os.environ,
        **ONE_THREAD,
        "KERAS_BACKEND": place.backend,
        "JAX_COMPILATION_CACHE_DIR": cache,
        "PYTHONPATH": str(copy),
    }
    for paths in what_to_run(place.file):
        chosen = selection(place.backend, argparse.Namespace(all=False, quick=False))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *chosen, *paths]
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        if failed:
            return failed[1]
        # 5: no test was chosen.
        if done.returncode not in (0, 5):
            raise RuntimeError(f"the tests did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return None


def main():
    """Break what the command line names; the status is 1 where a break went unseen."""
    parser = argparse.ArgumentParser(prog="python -m tests.breaks", description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", type=int, help="places by number, from 1 (default: all)")
    options = parser.parse_args()
    chosen = options.numbers or range(1, len(PLACES) + 1)
    unseen = 0
    print("| | what is broken | kind | first test that fails |\n|--:|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number in chosen:
            place = PLACES[number - 1]
            copy = Path(folder) / "copy"
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", "runs", "*.egg-info", "__pycache__"))
            path = copy / place.file
            path.write_text(place.broken(path.read_text()))
            failed = first_failure(copy, place, f"{folder}/cache")
            shutil.rmtree(copy)
            unseen += failed is None
            print(f"| {number} | {place.what} | {place.kind} | {failed or '**none**'} |", flush=True)
    return int(unseen > 0)


if __name__ == "__main__":
    sys.exit(main())

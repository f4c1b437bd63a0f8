"""A file translated by whole commands, start included: `attn-zoo translate` beside CTranslate2 with the same weights.

The weights of a Transformer preset are first written as a model of CTranslate2. Each command then translates the file a
few times, in turn; the first run of `attn-zoo` may have to compile, and is shown apart. Words are those of the source.

  python benchmarks/peers/translate_text.py --preset transformer_tatoeba_de_en --text test.de
  python benchmarks/peers/translate_text.py --preset runs/a/best --text test.de --beams 4 --peer /peers/bin/python
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
sys.path.insert(0, str(ROOT))

from keras_attn_zoo.experiments.tabular import markdown_table  # noqa: E402

BACKENDS = ("jax", "tensorflow", "torch")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", required=True, metavar="PRESET", help="a Transformer with pre-normalisation")
    parser.add_argument("--text", required=True, type=Path, metavar="FILE")
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each command (default: 3)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="default: all cores")
    parser.add_argument("--peer", default=sys.executable, metavar="PYTHON", help="a Python that has CTranslate2")
    options = parser.parse_args()
    threads = str(options.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "TF_NUM_INTRAOP_THREADS": threads}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}
    words = len(options.text.read_text(encoding="utf-8").split())
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "model")
        convert = [options.peer, str(FOLDER / "ctranslate2_model.py"), options.preset, model]
        subprocess.run(convert, env=environment, check=True, stderr=subprocess.DEVNULL)
        rows = []
        for beams in options.beams:
            ours = [sys.executable, "-m", "keras_attn_zoo.cli", "translate", options.preset, "--length-penalty", "0"]
            commands = {}
            for backend in BACKENDS:
                output = f"{folder}/{backend}"
                files = ["--input", str(options.text), "--output", output]
                command = [*ours, "--beams", str(beams), "--backend", backend, *files]
                # Compiled programs are kept there.
                cache = {"XDG_CACHE_HOME": f"{folder}/cache-{backend}-{beams}"}
                commands[f"attn-zoo translate, {backend}"] = (command, output, {**environment, **cache})
            for precision in ("float32", "int8"):
                output = f"{folder}/{precision}"
                script = [options.peer, str(FOLDER / "ctranslate2_translate.py"), model]
                command = [*script, str(options.text), output, str(beams), precision]
                commands[f"CTranslate2, {precision}"] = (command, output, environment)
            seconds = {name: [] for name in commands}
            for _ in range(1 + options.runs):
                for name, (command, output, variables) in commands.items():
                    Path(output).unlink(missing_ok=True)
                    began = time.perf_counter()
                    subprocess.run(command, env=variables, check=True, stderr=subprocess.DEVNULL)
                    seconds[name].append(time.perf_counter() - began)
            wanted = Path(f"{folder}/float32").read_text(encoding="utf-8").splitlines()
            for name, (_, output, _) in commands.items():
                found = Path(output).read_text(encoding="utf-8").splitlines()
                same = sum(one == other for one, other in zip(found, wanted, strict=True)) / len(wanted)
                first, *others = seconds[name]
                taken = statistics.median(others)
                figures = [f"{words / taken:.0f}", f"{taken:.1f}", f"{first:.1f}", f"{same:.1%}"]
                rows.append([str(beams), name, *figures])
    print(f"{len(wanted)} lines, {words} words, {threads} threads\n")
    print(markdown_table(["beams", "command", "words/s", "seconds", "first run s", "as CTranslate2 float32"], rows))


if __name__ == "__main__":
    main()

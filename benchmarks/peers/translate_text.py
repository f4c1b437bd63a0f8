"""A file translated by whole commands, start included: `attn-zoo translate` beside peers with the same weights.

The weights of a Transformer preset are first written as models of CTranslate2, Marian and OpenNMT-py; a peer that is
not installed is left out with a word. Each command then translates the file a few times, in turn; the first run of
`attn-zoo` may have to compile, and is shown apart. Words are those of the source. The last column is the share of
translations that are the same as those of the first peer.

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
# What the names of a peer's scripts begin with: its name and its precisions.
PEERS = {
    "ctranslate2": ("CTranslate2", ("float32", "int8")),
    "marian": ("Marian", ("float32",)),
    "opennmt": ("OpenNMT-py", ("float32",)),
}
ABSENT = "ModuleNotFoundError: "


def run(command, environment):
    """Run a command.

    Raises:
        ModuleNotFoundError: a script of Python has ended since a package is not installed.
        RuntimeError: it has failed in another way.
    """
    # A command may write its progress to either.
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        *_, last = ["", *done.stderr.splitlines()]
        if last.startswith(ABSENT):
            raise ModuleNotFoundError(last.removeprefix(ABSENT))
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")


def convert(options, folder, environment):
    """Write the preset as a model of every peer that is installed, and return these."""
    weights = f"{folder}/weights"
    run([sys.executable, str(FOLDER / "preset_weights.py"), options.preset, weights], environment)
    found = []
    for peer, (name, _) in PEERS.items():
        try:
            run([options.peer, str(FOLDER / f"{peer}_model.py"), weights, f"{folder}/{peer}"], environment)
        except ModuleNotFoundError as error:
            print(f"{name}: left out, {error}", file=sys.stderr, flush=True)
        else:
            found.append(peer)
    return found


def contenders(options, beams, peers, folder, environment):
    """Return commands by name, each with the file that it writes and its environment."""
    found, text = {}, str(options.text)
    ours = [sys.executable, "-m", "keras_attn_zoo.cli", "translate", options.preset, "--length-penalty", "0"]
    for backend in options.backends:
        output = f"{folder}/{backend}"
        command = [*ours, "--beams", str(beams), "--backend", backend, "--input", text, "--output", output]
        # Compiled programs are kept there.
        cache = {"XDG_CACHE_HOME": f"{folder}/cache-{backend}-{beams}"}
        found[f"keras-attn-zoo, {backend}"] = (command, output, {**environment, **cache})
    for peer in peers:
        name, precisions = PEERS[peer]
        for precision in precisions:
            output = f"{folder}/{peer}-{precision}"
            script = [options.peer, str(FOLDER / f"{peer}_translate.py"), f"{folder}/{peer}"]
            choice = [precision] if len(precisions) > 1 else []
            found[f"{name}, {precision}"] = ([*script, text, output, str(beams), *choice], output, environment)
    return found


def measure(commands, runs):
    """Return the seconds of all runs of each command, which take turns, and its last translations."""
    seconds, lines = {name: [] for name in commands}, {}
    for _ in range(1 + runs):
        for name, (command, output, environment) in commands.items():
            Path(output).unlink(missing_ok=True)
            began = time.perf_counter()
            run(command, environment)
            seconds[name].append(time.perf_counter() - began)
            lines[name] = Path(output).read_text(encoding="utf-8").splitlines()
    return seconds, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", required=True, metavar="PRESET", help="a Transformer with pre-normalisation")
    parser.add_argument("--text", required=True, type=Path, metavar="FILE")
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--backends", nargs="+", default=list(BACKENDS), choices=list(BACKENDS), metavar="NAME")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each command (default: 3)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="default: all cores")
    parser.add_argument("--peer", default=sys.executable, metavar="PYTHON", help="a Python that has the peers")
    options = parser.parse_args()
    threads = str(options.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "TF_NUM_INTRAOP_THREADS": threads}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}
    # pip compiles what it installs.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    words = len(options.text.read_text(encoding="utf-8").split())
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        peers = convert(options, folder, environment)
        for beams in options.beams:
            commands = contenders(options, beams, peers, folder, environment)
            seconds, lines = measure(commands, options.runs)
            reference = [*commands][len(options.backends) if peers else 0]
            wanted = lines[reference]
            for name, found in lines.items():
                same = sum(one == other for one, other in zip(found, wanted, strict=True)) / len(wanted)
                first, *others = seconds[name]
                taken = statistics.median(others)
                figures = [f"{words / taken:.0f}", f"{taken:.1f}", f"{first:.1f}", f"{same:.1%}"]
                rows.append([str(beams), name, *figures])
    print(f"{len(wanted)} lines, {words} words, {threads} threads\n")
    print(markdown_table(["beams", "command", "words/s", "seconds", "first run s", f"as {reference}"], rows))


if __name__ == "__main__":
    main()

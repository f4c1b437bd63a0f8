"""A file translated by whole commands, start included: `attn-zoo translate` beside peers with the same weights.

The weights of a Transformer preset are first written as ONNX, and as models of CTranslate2, Marian and OpenNMT-py; a
peer that is not installed is left out with a word. Each command then translates the file a few times, in turn; the
first run of `attn-zoo` may have to compile, and is shown apart. Words are those of the source; the table shows the
median and the spread of the other runs. The last column is the share of translations that are the same as those of
the first peer.

  python benchmarks/peers/translate_text.py --preset transformer_tatoeba_de_en --text test.de
  python benchmarks/peers/translate_text.py --preset runs/a/best --text test.de --beams 4 --peer /peers/bin/python \
      --output text.jsonl
  python benchmarks/peers/translate_text.py --read text.jsonl --page benchmarks/records/text.md
"""

import argparse
import datetime
import importlib.metadata
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
sys.path[:0] = [str(ROOT), str(FOLDER)]

from records import add_page_arguments, append, fill, machine, read  # noqa: E402

from keras_attn_zoo.studies.tabular import markdown_table  # noqa: E402

OURS = [sys.executable, "-m", "keras_attn_zoo.cli"]
BACKENDS = ("jax", "tensorflow", "torch")
# What the names of a peer's scripts begin with: its name, its package and its precisions.
PEERS = {
    "ctranslate2": ("CTranslate2", "ctranslate2", ("float32", "int8")),
    "marian": ("Marian", "pymarian", ("float32",)),
    "opennmt": ("OpenNMT-py", "OpenNMT-py", ("float32",)),
}
ABSENT = "ModuleNotFoundError: "
# What all records of a table share.
_COMMON = ("machine", "threads", "lines", "words", "reference")


def run(command, environment):
    """Run a command.

    Raises:
        ModuleNotFoundError: a script of Python has ended since a package is not installed.
        RuntimeError: it has failed in another way.
    """
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        *_, last = ["", *done.stderr.splitlines()]
        if last.startswith(ABSENT):
            raise ModuleNotFoundError(last.removeprefix(ABSENT))
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def convert(options, folder, environment):
    """Write the preset as a model of every peer that is installed, and return these with their versions."""
    weights = f"{folder}/weights"
    run([sys.executable, str(FOLDER / "preset_weights.py"), options.preset, weights], environment)
    found = {}
    for peer, (name, package, _) in PEERS.items():
        try:
            run([options.peer, str(FOLDER / f"{peer}_model.py"), weights, f"{folder}/{peer}"], environment)
        except ModuleNotFoundError as error:
            print(f"{name}: left out, {error}", file=sys.stderr, flush=True)
        else:
            script = "import sys, importlib.metadata as of; print(of.version(sys.argv[1]))"
            found[peer] = f"{name} {run([options.peer, '-c', script, package], environment).strip()}"
    return found


def export(options, folder, environment):
    """Write the preset as ONNX in each precision, if onnxruntime is installed; return the names and the folders."""
    try:
        name = f"keras-attn-zoo on onnxruntime {importlib.metadata.version('onnxruntime')}"
    except importlib.metadata.PackageNotFoundError:
        return {}
    found = {f"{name}, {precision}": f"{folder}/onnx-{precision}" for precision in ("float32", "int8")}
    for place in found.values():
        command = [*OURS, "export", options.preset, "--to", "onnx", place, "--precision", place.rpartition("-")[2]]
        run(command, environment)
    return found


def contenders(options, beams, exported, peers, folder, environment):
    """Return commands by name, each with the file that it writes and its environment."""
    found, text = {}, str(options.text)
    how = ["--length-penalty", "0", "--beams", str(beams), "--input", text]
    for backend in options.backends:
        output = f"{folder}/{backend}"
        command = [*OURS, "translate", options.preset, *how, "--backend", backend, "--output", output]
        # Compiled programs are kept there.
        cache = {"XDG_CACHE_HOME": f"{folder}/cache-{backend}-{beams}"}
        version = importlib.metadata.version(backend)
        found[f"keras-attn-zoo on {backend} {version}"] = (command, output, {**environment, **cache})
    for name, place in exported.items():
        output = f"{place}.txt"
        found[name] = ([*OURS, "translate", place, *how, "--output", output], output, environment)
    for peer, name in peers.items():
        *_, precisions = PEERS[peer]
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


def compared(options):
    """Yield a record of each command: its runs, and how many of its translations are those of the first peer."""
    threads = str(options.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "TF_NUM_INTRAOP_THREADS": threads}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}
    # pip compiles what it installs.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    text = options.text.read_text(encoding="utf-8")
    common = {"words": len(text.split()), "lines": len(text.splitlines()), "threads": options.threads}
    common |= {"machine": machine("cpu"), "date": datetime.date.today().isoformat()}
    if not common["lines"]:
        raise SystemExit(f"{options.text} is empty.")
    with tempfile.TemporaryDirectory() as folder:
        peers, exported = convert(options, folder, environment), export(options, folder, environment)
        for beams in options.beams:
            commands = contenders(options, beams, exported, peers, folder, environment)
            seconds, lines = measure(commands, options.runs)
            reference = [*commands][len(options.backends) + len(exported) if peers else 0]
            for name, found in lines.items():
                same = sum(one == other for one, other in zip(found, lines[reference], strict=True))
                of_command = {"name": name, "beams": beams, "seconds": seconds[name]}
                yield {**of_command, "same": same, "reference": reference, **common}


def block(records):
    """The machine, the text and the table, in Markdown."""
    first = records[0]
    for name in _COMMON:
        if len({one[name] for one in records}) > 1:
            raise SystemExit(f"the records are of more than one {name}: give one file for each.")
    rows = []
    for one in records:
        # The first run may have compiled.
        compiling, *seconds = one["seconds"]
        taken = statistics.median(seconds)
        spread = f"{min(seconds):.1f} – {max(seconds):.1f}"
        same = f"{one['same'] / one['lines']:.1%}"
        figures = [f"{one['words'] / taken:.0f}", f"{taken:.1f}", spread, f"{compiling:.1f}", same]
        rows.append([str(one["beams"]), one["name"], *figures])
    where = f"{first['machine']}, {first['threads']} threads, {first['lines']:,} lines, {first['words']:,} words."
    same = f"as {first['reference']}"
    header = ["beams", "command", "words/s", "seconds", "spread", "first run s", same]
    return f"{where}\n\n{markdown_table(header, rows)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", metavar="PRESET", help="a Transformer with pre-normalisation")
    parser.add_argument("--text", type=Path, metavar="FILE")
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--backends", nargs="*", default=list(BACKENDS), metavar="NAME", help="of Keras; may be none")
    parser.add_argument(
        "--runs",
        type=int,
        default=3,
        choices=range(1, 100),
        metavar="N",
        help="timed runs of each command (default: 3)",
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="default: all cores")
    parser.add_argument("--peer", default=sys.executable, metavar="PYTHON", help="a Python that has the peers")
    parser.add_argument("--output", metavar="FILE", help="append each result to this file")
    add_page_arguments(parser)
    options = parser.parse_args()
    if options.read:
        records = read(options.read)
    elif options.preset is None or options.text is None:
        parser.error("--preset and --text are needed, or --read.")
    else:
        records = []
        for record in compared(options):
            records.append(record)
            if options.output:
                append(options.output, record)
    if options.page:
        fill(options.page, {"text": block(records)})
    else:
        print(block(records))


if __name__ == "__main__":
    main()

"""This project beside other toolkits in one run: target tokens per second of training and of search.

Every contender runs in a process of its own; those that are not installed are left out with a word. They take turns:
in each round every one is started, runs the task a few times after two runs to warm up, and ends. The table shows the
median over the runs of all rounds, their spread, and the ratio to the fastest peer in float32.

  python benchmarks/peers/compare.py --tasks train-small search-32-4
  python benchmarks/peers/compare.py --python joeynmt=/peers/bin/python opennmt=/peers/bin/python --output peers.jsonl
  python benchmarks/peers/compare.py --device cuda --tasks train-base train-base-256 --output peers-gpu.jsonl
  python benchmarks/peers/compare.py --read peers.jsonl --page benchmarks/records/peers-amx.md
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
sys.path[:0] = [str(ROOT), str(FOLDER)]

from records import add_page_arguments, append, fill, machine, read  # noqa: E402

from keras_attn_zoo.studies.tabular import markdown_table  # noqa: E402

# Wherever a library may have dropout, all contenders have it.
_DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1}
_BASE = {"width": 512, "num_heads": 8, "ffn_dim": 2048, "encoder_layers": 6, "decoder_layers": 6}
_SMALL = {"width": 128, "num_heads": 4, "ffn_dim": 512, "encoder_layers": 4, "decoder_layers": 4}
_TINY = {"width": 16, "num_heads": 2, "ffn_dim": 32, "encoder_layers": 1, "decoder_layers": 1}
# As JoeyNMT has it: the current state asks, and a readout of state and context is fed to the next cell.
_RNN = {"embedding_dim": 512, "hidden_dim": 512, "readout_dim": 512, "dropout": 0.1, "readout": "tanh"}
_RNN |= {"attention_query": "current_state", "input_feeding": True, "readout_embedding": False}
_SIZES = {"batch": 32, "length": 30}
_TRAIN_BASE = {"system": "transformer", "settings": _BASE | _DROPOUT, "vocabulary": 8000, **_SIZES}
# Batches for a GPU; a contender without the memory for one is left out with a word.
_LARGE = {f"train-base-{batch}": {**_TRAIN_BASE, "batch": batch} for batch in (256, 1024)}
TASKS = {
    "train-base": _TRAIN_BASE,
    "train-small": {"system": "transformer", "settings": _SMALL | _DROPOUT, "vocabulary": 10000, **_SIZES},
    "train-rnn": {"system": "bahdanau", "settings": _RNN, "vocabulary": 8000, **_SIZES},
    **{
        f"search-{batch}-{beams}": {
            "system": "transformer",
            "settings": _BASE,
            "vocabulary": 8000,
            "batch": batch,
            "length": 30,
            "beams": beams,
        }
        for batch, beams in ((32, 1), (32, 4), (100, 1), (100, 4), (32, 12))
    },
    **_LARGE,
    # To see that contenders run: nothing is measured.
    **{
        name: {"system": "transformer", "settings": _TINY | _DROPOUT, "vocabulary": 50, "batch": 4, "length": 5, **kind}
        for name, kind in (("smoke-train", {}), ("smoke-search", {"beams": 2}))
    },
}
DEFAULT = [name for name in TASKS if not name.startswith("smoke") and name not in _LARGE]
BACKENDS = ("jax", "tensorflow", "torch")


def both(name, script):
    """A contender in both precisions."""
    return {name: (script, "float32", None), f"{name}-bfloat16": (script, "bfloat16", None)}


# Name: script, precision, backend.
CONTENDERS = {
    **{f"ours-{backend}": ("ours.py", "float32", backend) for backend in BACKENDS},
    **{f"ours-{backend}-bfloat16": ("ours.py", "bfloat16", backend) for backend in BACKENDS},
    "ours-jax-int8": ("ours.py", "int8", "jax"),
    **both("torch", "torch_translators.py"),
    **both("torch-compile", "torch_compiled.py"),
    **{f"keras-hub-{backend}": ("keras_hub_transformer.py", "float32", backend) for backend in BACKENDS},
    "keras-hub-tensorflow-bfloat16": ("keras_hub_transformer.py", "bfloat16", "tensorflow"),
    **both("opennmt", "opennmt_transformer.py"),
    **both("joeynmt", "joeynmt_translator.py"),
    **both("xtransformers", "x_transformers_translator.py"),
    "ctranslate2": ("ctranslate2_search.py", "float32", None),
    "ctranslate2-int8": ("ctranslate2_search.py", "int8", None),
}


def run(name, task, options):
    """One round of a contender: what it answers to the task, with the seconds of its runs."""
    script, precision, backend = CONTENDERS[name]
    threads = str(options.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "TF_NUM_INTRAOP_THREADS": threads}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}
    if options.device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    if backend:
        environment["KERAS_BACKEND"] = backend
    job = "search" if "beams" in TASKS[task] else "training"
    python = options.python.get(name.split("-")[0], sys.executable)
    command = [python, str(FOLDER / script), precision, options.device, job]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        lines = (json.dumps(TASKS[task]) + "\n") * (1 + options.runs)
        output, errors = process.communicate(lines)
    answers = [json.loads(line) for line in output.splitlines()]
    if "missing" in (answers or [{}])[0]:
        return answers[0]
    if len(answers) != 1 + options.runs:
        return {"missing": f"it failed: {(errors.strip().splitlines() or ['without a word'])[-1][:200]}"}
    return {**answers[0], "seconds": [answer["seconds"] for answer in answers[1:]]}


def tokens_of(task):
    """Target tokens of a run."""
    return TASKS[task]["batch"] * TASKS[task]["length"]


def blocks(records):
    """What a page says of the machine and of each task, by name, in Markdown."""
    found = {"machine": f"{records[0]['machine']}, {records[0]['threads']} threads."}
    for task in dict.fromkeys(record["task"] for record in records):
        of_task = [record for record in records if record["task"] == task]
        seconds, known = {}, {}
        for record in of_task:
            if "seconds" in record:
                seconds.setdefault(record["name"], []).extend(record["seconds"])
                known[record["name"]] = record
        settings = TASKS[task]
        tokens = tokens_of(task)
        speed = {name: tokens / statistics.median(found) for name, found in seconds.items()}
        peers = [speed[name] for name in speed if not name.startswith("ours") and CONTENDERS[name][1] == "float32"]
        rows = []
        for name in sorted(speed, key=speed.get, reverse=True):
            spread = f"{tokens / max(seconds[name]):.0f} – {tokens / min(seconds[name]):.0f}"
            ratio = f"{speed[name] / max(peers):.2f}" if peers else ""
            millions = known[name]["parameters"]
            size = f"{millions / 1e6:.1f} M" if millions else ""
            precision = CONTENDERS[name][1]
            first = f"{statistics.median(r['first'] for r in of_task if r['name'] == name and 'first' in r):.0f}"
            rows.append([known[name]["version"], precision, f"{speed[name]:.0f}", spread, ratio, first, size])
        header = ["contender", "precision", "tokens/s", "spread", "to the fastest peer", "first run s", "parameters"]
        sizes = {**settings["settings"], **{k: v for k, v in settings.items() if k not in ("settings", "system")}}
        shown = ", ".join(f"{name} {value}" for name, value in sizes.items())
        found[task] = f"{settings['system']}: {shown}.\n\n{markdown_table(header, rows)}"
    return found


def report(records):
    """All blocks, with headings."""
    return "\n\n".join(text if name == "machine" else f"## {name}\n\n{text}" for name, text in blocks(records).items())


def write(records, page):
    """Fill the blocks of a page, or print tables if there is none."""
    if page is None:
        print(report(records))
    else:
        fill(page, blocks(records))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=DEFAULT, choices=list(TASKS), metavar="NAME")
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=list(CONTENDERS), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=2, help="times that each contender is started (default: 2)")
    parser.add_argument("--runs", type=int, default=5, help="timed runs each time (default: 5)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="default: all cores")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="default: cpu")
    parser.add_argument("--python", nargs="+", default=[], metavar="PEER=PATH", help="the Python of a peer")
    parser.add_argument("--output", metavar="FILE", help="append each result to this file, and leave out what it has")
    add_page_arguments(parser)
    options = parser.parse_args()
    if options.read:
        write(read(options.read), options.page)
        return
    options.python = dict(pair.split("=", 1) for pair in options.python)
    path = Path(options.output) if options.output else None
    records = read(path) if path and path.exists() and path.stat().st_size else []
    here = machine(options.device)
    if others := {one["machine"] for one in records} - {here}:
        parser.error(f"{path} has results of {others.pop()}, not of {here}: give another file.")
    done = {(one["task"], one["name"], one["round"]) for one in records}
    missing = {}
    for task in options.tasks:
        for number in range(options.rounds):
            for name in options.contenders:
                if (task, name, number) in done or (task, name) in missing:
                    continue
                found = run(name, task, options)
                if "missing" in found:
                    missing[task, name] = found["missing"]
                    print(f"{task}, {name}: left out, {found['missing']}", file=sys.stderr, flush=True)
                    continue
                record = {"task": task, "name": name, "round": number, **found}
                day = datetime.date.today().isoformat()
                records.append({**record, "machine": here, "threads": options.threads, "date": day})
                if path:
                    append(path, records[-1])
                speed = tokens_of(task) / statistics.median(found["seconds"])
                print(f"{task}, {name}: {speed:.0f} tokens/s", file=sys.stderr, flush=True)
    write(records, options.page)


if __name__ == "__main__":
    main()

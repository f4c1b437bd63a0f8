"""Write the tables of docs/reference/speed.md from the records in benchmarks/records.

python docs/write_speed.py
"""

import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))

from compare import CONTENDERS, tokens_of  # noqa: E402
from records import fill, filled, read  # noqa: E402

from keras_attn_zoo.studies.tabular import markdown_table  # noqa: E402

RECORDS = ROOT / "benchmarks" / "records"
PAGE = ROOT / "docs" / "reference" / "speed.md"
# The records of the tables: of tasks that all toolkits share, and of systems beside the first one.
PEERS = RECORDS / "peers-amd.jsonl"
SYSTEMS = RECORDS / "systems-amd.jsonl"
# What the page calls contenders, less their precision, in its order.
NAMES = {
    "ours-jax": "keras-attn-zoo, JAX",
    "ours-tensorflow": "keras-attn-zoo, TensorFlow",
    "ours-torch": "keras-attn-zoo, PyTorch",
    "torch": "PyTorch's own layers",
    "opennmt": "OpenNMT-py",
    "joeynmt": "JoeyNMT",
    "keras-hub-jax": "KerasHub, JAX",
    "keras-hub-tensorflow": "KerasHub, TensorFlow",
    "keras-hub-torch": "KerasHub, PyTorch",
    "xtransformers": "x-transformers",
    "ctranslate2": "CTranslate2",
}
TRAINING = {"train-small": "small", "train-rnn": "RNN", "train-base": "base"}
SEARCH = {"search-32-1": "32 / 1", "search-32-4": "32 / 4", "search-100-1": "100 / 1", "search-100-4": "100 / 4"}
PRECISIONS = ("float32", "bfloat16", "int8")


def speeds(records):
    """The median of target tokens a second, by task, name and precision."""
    seconds = {}
    for one in records:
        key = one["task"], re.sub("-(bfloat16|int8)$", "", one["name"]), CONTENDERS[one["name"]][1]
        seconds.setdefault(key, []).extend(one["seconds"])
    return {key: tokens_of(key[0]) / statistics.median(found) for key, found in seconds.items()}


def versions(records):
    """The packages of all contenders with their versions, in one line."""
    found = {pair for one in records for pair in re.findall(r"([A-Za-z][\w-]*) (\d[\w.]*)", one["version"])}
    return ", ".join(f"{name} {version}" for name, version in sorted(found, key=lambda pair: pair[0].lower()))


def machine(records):
    """The one machine of some records, with its threads."""
    ((name, threads),) = {(one["machine"], one["threads"]) for one in records}
    return f"{name}, {threads} threads"


def table_of_training(known):
    """Rows of contenders, columns of tasks in each precision."""
    columns = [(task, precision) for task in TRAINING for precision in PRECISIONS[:2]]
    rows = []
    for name, shown in NAMES.items():
        cells = [known.get((task, name, precision)) for task, precision in columns]
        if any(cells):
            rows.append([shown, *("" if cell is None else f"{cell:.0f}" for cell in cells)])
    return markdown_table(["", *(f"{TRAINING[task]}, {precision}" for task, precision in columns)], rows)


def table_of_search(known):
    """Rows of contenders in each precision, columns of tasks."""
    rows = []
    for name, shown in NAMES.items():
        for precision in PRECISIONS:
            cells = [known.get((task, name, precision)) for task in SEARCH]
            if any(cells):
                rows.append([f"{shown}, {precision}", *("" if cell is None else f"{cell:.0f}" for cell in cells)])
    return markdown_table(["sentences / beams", *SEARCH.values()], rows)


def table_of_mechanisms(records):
    """Rows of systems; columns of training by precision, and of search in float32 by beams."""
    columns = {
        ("training", "float32", None): "training, float32",
        ("training", "bfloat16", None): "training, bfloat16",
        ("search", "float32", 1): "search, one beam",
        ("search", "float32", 4): "search, four beams",
    }
    rows = {}
    for one in records:
        key = one["job"], one["precision"], one.get("beams")
        rows.setdefault(one["system"], {})[key] = f"{one['ratio']:.2f}"
    (first, _), *others = rows.items()
    shown = [[f"`{name}`", *(cells.get(key, "") for key in columns)] for name, cells in others]
    return markdown_table([f"relative to `{first}`", *columns.values()], shown)


def blocks():
    """What the page says of machines, versions and figures, by name."""
    peers, systems = read(PEERS), read(SYSTEMS)
    known = speeds(peers)
    return {
        "machine": f"{machine([*peers, *systems])}. {versions(peers)}.",
        "training": table_of_training(known),
        "search": table_of_search(known),
        "mechanisms": table_of_mechanisms(systems),
    }


def with_tables(text):
    """Return the page with its blocks as the records have them."""
    return filled(text, blocks())


if __name__ == "__main__":
    fill(PAGE, blocks())

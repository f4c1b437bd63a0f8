"""What the comparisons share: the machine, results in files of JSON lines, and the blocks of a page."""

import json
import re
import subprocess
from pathlib import Path

from keras_attn_zoo.kernels.processor import bfloat16_instructions, processor_name
from keras_attn_zoo.support.files import write_text


def machine(device):
    """The GPU, or the processor with its instructions for bfloat16."""
    if device == "cuda":
        command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return " with ".join(filter(None, [processor_name(), " and ".join(bfloat16_instructions())]))


def read(path):
    """The records of a file.

    Raises:
        SystemExit: it has none.
    """
    records = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    if not records:
        raise SystemExit(f"{path} is empty.")
    return records


def append(path, record):
    """Write a record below those of a file."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def filled(page, known):
    """A page with a block after each `<!-- WORD: NAME -->`, up to the `<!-- end -->`; as it was if it is not known."""

    def block(found):
        return f"{found['head']}\n\n{known.get(found['name'], found['old'])}\n\n<!-- end -->"

    pattern = r"(?P<head><!-- \w+: (?P<name>[\w-]+) -->)\n\n(?P<old>.*?)\n\n<!-- end -->"
    return re.sub(pattern, block, page, flags=re.DOTALL)


def fill(path, known):
    """Fill the blocks of a page.

    Raises:
        SystemExit: it has none of them.
    """
    page = Path(path).read_text(encoding="utf-8")
    if not any(f": {name} -->" in page for name in known):
        raise SystemExit(f"{path} has no block for {', '.join(known)}.")
    write_text(path, filled(page, known))


def add_page_arguments(parser):
    """Add the options for results of a file and for pages."""
    parser.add_argument("--read", metavar="FILE", help="write the table of such a file, and run nothing")
    parser.add_argument("--page", metavar="FILE", help="fill this page's blocks in place of printing tables")

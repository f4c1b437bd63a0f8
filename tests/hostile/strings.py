"""Hostile strings: what a stranger wrote into a run folder or its name, for a terminal, a table, a page or a figure."""

import json
import re
import shutil

from tests.hostile import damage
from tests.hostile.folders import reader_of
from tests.hostile.judging import Case
from tests.hostile.sandbox import read_json

POISON = (
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[H",
    "a\r\nattn-zoo: error: nothing is wrong",
    "\x9b2J",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    '=HYPERLINK("http://evil.example")',
    "@SUM(1)",
    "| a | b |",
    "[x](javascript:alert(1))",
    "\u202egnirts",
    r"\input{/etc/passwd}",
    "$x$ \\undefined",
    "{",
    "x" * 100_000,
    "",
    "\U000e0001",
)
READERS = (
    ["evaluate", "run", "latent", "--stored", "--baseline", "run"],
    ["plot", "curves", "run", "latent", "--output", "p.svg"],
    ["plot", "top-k", "run", "latent", "--trained", "--output", "p.svg"],
    ["explore", "run", "rot haus", "--output", "p.html"],
    ["plot", "attention", "run", "rot haus", "--target", "house", "--output", "p.svg"],
    ["translate", "run", "rot haus"],
    # Its table is Markdown, LaTeX and CSV.
    ["recipe"],
)
# In a terminal, what is not text; on a page and in a figure, what a browser runs; in a table, what a spreadsheet does.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
_SCRIPT = re.compile(r"<script>alert|<img src=x", re.IGNORECASE)
# In Markdown, after no backslash, or an even number of them.
_UNESCAPED = re.compile(rf"(?<!\\)(?:\\\\)*(?:{_SCRIPT.pattern})", re.IGNORECASE)
_FORMULA = re.compile(r'(^|,)"?[=@]')


def strings(rng):
    """A string that a stranger chose, in a file of a run folder or as its name."""
    poison, reader = rng.choice(POISON), rng.choice(READERS)
    program, folder, arguments = reader_of(reader[0], reader, rng)
    names = ["scores.json", "scores.json", "config.json", "environment.json", "log.jsonl", "its name"]
    # A recipe's runs have the names of its systems.
    name = rng.choice(names if program == "attn-zoo" else names[:-1])

    def prepare(work):
        if name == "its name":
            _rename(work, case, poison)
            return
        if not (work / folder).exists():
            shutil.copytree(work / "run", work / folder)
        target = work / folder / name
        lines = target.read_text(encoding="utf-8").splitlines() if name.endswith("l") else None
        tree = read_json(target) if lines is None else json.loads(lines[0])
        # A string's place, or a key's, which is a string as well.
        places = [place for place in damage.nodes(tree) if place]
        strings = [place for place in places if isinstance(damage.at(tree, place), str)]
        place = rng.choice(strings or places)
        parent = damage.at(tree, place[:-1])
        if rng.random() < 0.3 and isinstance(parent, dict):
            parent[poison] = parent.pop(place[-1])
        else:
            parent[place[-1]] = poison
        case.text += f" ({'.'.join(map(str, place))})"
        text = json.dumps(tree)
        target.write_text("\n".join([text, *lines[1:]]) + "\n" if lines else text, encoding="utf-8")

    case = Case(
        "strings",
        f"{' '.join(reader[:2])}: {name} says {poison[:20]!r}",
        arguments,
        program=program,
        expect="either",
        damage=prepare,
        check=_as_files_show_it,
        clean=CONTROL,
    )
    return case


def _rename(work, case, poison):
    # What no folder can be called.
    name = poison.replace("/", "_")[:100].strip() or "-"
    if name.startswith("-"):
        name = f"_{name}"
    (work / "run").rename(work / name)
    case.arguments = [name if one == "run" else one for one in case.arguments]


def _as_files_show_it(work):
    """What is wrong with the files that were made, by what opens them."""
    found = []
    for path in [*work.glob("p.*"), *work.glob("runs/*.md"), *work.glob("runs/*.csv")]:
        if path.suffix not in (".html", ".svg", ".md", ".csv"):
            continue
        text = path.read_text(encoding="utf-8")
        runs = {".html": _SCRIPT, ".svg": _SCRIPT, ".md": _UNESCAPED}.get(path.suffix)
        if runs is not None and runs.search(text):
            found.append(f"{path.name} has a stranger's element")
        if path.suffix == ".csv" and any(_FORMULA.search(line) for line in text.splitlines()):
            found.append(f"{path.name} has a stranger's formula")
        if "\x1b" in text or "\x9b" in text:
            found.append(f"{path.name} has control characters")
    return found

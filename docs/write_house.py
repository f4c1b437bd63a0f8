"""Count what the redesign was to make smaller, and write it into docs/explanation/architecture.md.

python docs/write_house.py

Rows that no command counts keep what stands there.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "keras_attn_zoo"
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
BACKENDS = {"jax", "tensorflow", "tensorflow_text", "torch"}
# Written by commands, from docstrings, or records: no part of the guide.
APART = ("api", "results", "_build")
GENERATED = re.compile(r"<!-- \w+(?:: [\w-]+)? -->\n.*?<!-- end -->", re.DOTALL)


def sources(folder=PACKAGE):
    """The Python of a folder, by path."""
    return {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))}


def outside_kernels():
    """The modules of the package above `kernels`."""
    return {path: text for path, text in sources().items() if "kernels" not in path.relative_to(PACKAGE).parts}


def imported(text):
    """The modules and names that a module imports, anywhere in it, with dots."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def lines(folder):
    """Lines of Python in a folder."""
    return sum(len(text.splitlines()) for text in sources(folder).values())


def context_variables():
    """Context variables that the package makes."""
    return sum(len(re.findall(r"\bContextVar\(", text)) for text in sources().values())


def files_that_know_the_processor():
    """Modules outside `kernels` that import from the one about the processor."""
    return sum(any("processor" in name.split(".") for name in imported(text)) for text in outside_kernels().values())


def files_that_ask_for_the_backend():
    """Modules outside `kernels` that ask Keras which backend runs."""
    asks = re.compile(r"keras\.(config|backend)\.backend\(\)")
    return sum(bool(asks.search(text)) for text in outside_kernels().values())


def private_names():
    """Private names of Keras, KerasHub, JAX, TensorFlow and PyTorch: those in `compat.py`, and any used elsewhere."""
    inside = re.compile(r"(keras|keras_hub)\.src\.|jax\._src\.|tensorflow\.python\.|torch\._(?!C\b)")
    # Of the standard library, of argparse and of sacrebleu, and of named tuples.
    others = {"_exit", "_ArgumentGroup", "_AppendAction", "_option_string_actions", "_subparsers"}
    others |= {"_extract_corpus_statistics", "_aggregate_and_compute", "_fields", "_replace", "_C"}
    used, own = set(), set(others)
    for path, text in sources().items():
        # What compat.py defines in a class is a hook that another package calls.
        is_compat = path.name == "compat.py"
        used |= {name for name in imported(text) if inside.match(name)}
        used |= set(re.findall(r'= "(torch\._\w+)"', text))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr):
                stored = isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
                (own if stored and not is_compat else used).add(node.attr)
            elif isinstance(node, ast.ClassDef) and is_compat:
                used |= {one.name for one in node.body if re.match("_[^_]", getattr(one, "name", ""))}
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not is_compat:
                own.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
    return sorted(used - own)


def guide():
    """The pages of the guide, by path, without what commands write into them."""
    pages = [path for path in (ROOT / "docs").rglob("*.md") if not set(path.relative_to(ROOT).parts) & set(APART)]
    return {path: GENERATED.sub("", path.read_text(encoding="utf-8")) for path in sorted(pages)}


def words():
    """Words of the guide."""
    return sum(len(text.split()) for text in guide().values())


# What is counted, before, what it was to become, and how it is counted.
HOUSE = {
    "lines of the package": ("43,200", "37,000", lambda: lines(PACKAGE)),
    "lines of the tests": ("36,100", "31,000", lambda: lines(ROOT / "tests")),
    "context variables": ("7", "2", context_variables),
    "files outside `kernels` that know the processor": ("18", "0", files_that_know_the_processor),
    "files outside `kernels` that ask for the backend": ("25", "10", files_that_ask_for_the_backend),
    "private names of Keras, KerasHub and the backends": ("about 60", "12", lambda: len(private_names())),
    "words of the guide": ("58,000", "30,000", words),
    "functions that a sentence passes through to ids": ("15", "12", None),
    "functions that a setting passes through to its layer": ("23", "25", None),
    "places of a new argument of a body": ("5", "1", None),
    "seconds of `python -m tests`, two cores": ("1,320", "480", None),
}


def block(counted, text):
    """The table of a page: counted figures by name, and for others the cell that stands in its text."""
    rows = ["| | before | after | at most |", "|---|--:|--:|--:|"]
    for name, (before, goal, _) in HOUSE.items():
        stands = re.search(rf"^\| {re.escape(name)} \| [^|]* \| ([^|]*) \|", text, re.MULTILINE)
        after = f"{counted[name]:,}" if name in counted else stands[1] if stands else ""
        rows.append(f"| {name} | {before} | {after} | {goal} |")
    return "\n".join(rows)


def counts():
    """The figures that a command counts, by name."""
    return {name: count() for name, (*_, count) in HOUSE.items() if count}


def with_table(text, counted):
    """Return the page with its table of these figures."""
    return re.sub(
        r"(<!-- house -->).*?(<!-- end -->)",
        lambda found: f"{found[1]}\n\n{block(counted, found[0])}\n\n{found[2]}",
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), counts()), encoding="utf-8")

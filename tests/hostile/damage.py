"""Ways to damage a file: its bytes, its JSON, or what stands at its name."""

import contextlib
import gzip
import json
import os
import shutil
import socket
from pathlib import Path

from tests.hostile.sandbox import NOBODY, feed, read_json

# What is found at once, whatever the format: the file is not there, cannot be read or is none.
KINDS = ("missing", "folder", "loop", "dangling", "pipe", "unreadable")
# What a file of a preset or a run may be in disguise: what never ends, or is somebody else's.
DISGUISES = ("device", "socket", "link out", "sparse")
# What depends on the format.
BYTES = ("empty", "cut", "garbled", "bit", "binary", "not UTF-8", "appended")


def replace_kind(path, kind):
    """Put something else in the place of a file or folder."""
    if kind == "unreadable":
        os.chmod(path, 0)
        return
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "dangling":
        path.symlink_to("nowhere-at-all")
    elif kind == "pipe":
        os.mkfifo(path)


def disguise(path, kind, size):
    """Put in the place of a file what no preset holds; a sparse one is so large that to read it shows."""
    if kind == "link out":
        # The file itself, so that nothing but the link is wrong.
        aside = Path("aside").absolute()
        shutil.copyfile(path, aside)
    path.unlink()
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one, contextlib.chdir(path.parent):
            one.bind(path.name)
    elif kind == "link out":
        path.symlink_to(aside)
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(size)


def open_to_all(folder):
    """Let everybody read and write a working folder, so that what one user may not do is the damaged file alone."""
    if os.geteuid() != 0:
        return
    for where, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = os.path.join(where, name)
            if not os.path.islink(path):
                os.chown(path, NOBODY, NOBODY)


def damaged_bytes(content, kind, rng):
    """Return the content of a file, damaged."""
    size = max(len(content), 1)
    if kind == "empty":
        return b""
    if kind == "cut":
        return content[: rng.randrange(1, size)] if size > 1 else b""
    if kind == "garbled":
        start = rng.randrange(size)
        return content[:start] + rng.randbytes(24) + content[start + 24 :]
    if kind == "bit":
        place = rng.randrange(size)
        return content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]
    if kind == "binary":
        return rng.randbytes(rng.randrange(1, 2000))
    if kind == "not UTF-8":
        place = rng.randrange(size)
        return content[:place] + b"\xff\xfe\xc3" + content[place:]
    return content + rng.randbytes(16)


# Values of another type, too large, or such as no writer of ours makes.
ODD = (
    None,
    True,
    -1,
    0,
    1e12,
    10**30,
    float("nan"),
    float("inf"),
    "",
    "nonsense",
    "../../outside/precious.txt",
    [],
    {},
    [[]],
    {"a": []},
    "x" * 10_000,
)


def nodes(tree, place=()):
    """Places of all values of plain data."""
    yield place
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from nodes(value, (*place, key))


def at(tree, place):
    """The value at a place."""
    for key in place:
        tree = tree[key]
    return tree


def mutate(tree, rng, inside=()):
    """Change one value of plain data below a place.

    Returns:
        the changed data, the place, and what was done: "removed" or the new value.
    """
    tree = json.loads(json.dumps(tree))
    places = [place for place in nodes(tree) if place[: len(inside)] == inside and len(place) > len(inside)]
    place = rng.choice(places or [()])
    if not place:
        return rng.choice(ODD), place, "replaced"
    parent = at(tree, place[:-1])
    if rng.random() < 0.2:
        del parent[place[-1]]
        return tree, place, "removed"
    parent[place[-1]] = rng.choice(ODD)
    return tree, place, parent[place[-1]]


def deep(depth=100_000):
    """JSON that is valid, and too deep for a reader that recurses."""
    return "[" * depth + "]" * depth


HARMLESS = ("CR", "no last end", "BOM", "control", "wide", "right to left")


def kinds_of_lines(path):
    """Kinds of damage that only text has."""
    more = ["long line", "blank", "UTF-16", "surplus line", *HARMLESS]
    if path.endswith(".gold"):
        more += ["bad link", "far link", "negative link", "huge link"]
    if path.endswith(".bitext"):
        more += ["no bar", "two bars"]
    if ".tsv" in path:
        more += ["no tab"]
    return more


def spoil(work, target, kind, rng):
    """Damage a file; return what undoes it, or None."""
    if kind == "pipe":
        return feed(target, target.read_bytes())
    if kind in KINDS:
        if kind == "unreadable":
            open_to_all(work)
        replace_kind(target, kind)
        return None
    content = target.read_bytes()
    if kind in BYTES:
        target.write_bytes(damaged_bytes(content, kind, rng))
        return None
    packed = target.suffix == ".gz"
    content = gzip.decompress(content) if packed else content
    content = changed_text(content, kind, rng)
    target.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    return None


def changed_text(content, kind, rng):
    lines = content.decode().splitlines()
    place = rng.randrange(len(lines))
    if kind == "UTF-16":
        return content.decode().encode("utf-16")
    if kind == "BOM":
        return b"\xef\xbb\xbf" + content
    if kind == "CR":
        return content.replace(b"\n", b"\r\n")
    if kind == "no last end":
        return content.rstrip(b"\n")
    if kind == "surplus line":
        lines.insert(place, lines[place])
    elif kind == "blank":
        lines = ["" for _ in lines]
    else:
        lines[place] = {
            "long line": "rot " * 200_000,
            "control": lines[place] + " \x00\x07\x1b[2J\x85\u2028",
            "wide": lines[place] + " 𝔘\U0010ffff é",
            "right to left": "\u202e" + lines[place],
            "bad link": rng.choice(("0-", "-", "a-b", "0-0-0", "0p", "0–0", "٣-٣x")),
            "far link": "0-999",
            "negative link": "-1-0",
            "huge link": f"0-{10**30}",
            "no bar": lines[place].replace("|||", "||"),
            "two bars": lines[place] + " ||| x",
            "no tab": lines[place].replace("\t", " "),
        }[kind]
    return ("\n".join(lines) + "\n").encode()


def mutate_file(target, rng, inside=()):
    lines = target.read_text(encoding="utf-8").splitlines() if target.suffix == ".jsonl" else None
    if lines is None:
        tree, place, value = mutate(read_json(target), rng, inside)
        target.write_text(json.dumps(tree), encoding="utf-8")
        return f"{'.'.join(map(str, place)) or 'all of it'}: {value!r}"
    number = rng.randrange(len(lines))
    tree, place, value = mutate(json.loads(lines[number]), rng)
    lines[number] = json.dumps(tree)
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"line {number + 1}, {'.'.join(map(str, place)) or 'all of it'}: {value!r}"

"""Ways to damage a file of text: its bytes, its lines, or what stands at its name."""

import gzip
import os

from tests.hostile.sandbox import NOBODY, feed

# What is found at once, whatever the format: the file is not there, cannot be read or is none.
KINDS = ("missing", "folder", "loop", "dangling", "pipe", "unreadable")
# What depends on the format.
BYTES = ("empty", "cut", "garbled", "bit", "binary", "not UTF-8", "appended")


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
            os.chmod(target, 0)
            return None
        target.unlink()
        if kind == "folder":
            target.mkdir()
        elif kind != "missing":
            target.symlink_to(target.name if kind == "loop" else "nowhere-at-all")
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

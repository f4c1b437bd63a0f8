"""Streams and places to write: closed, full, narrow; links and pipes."""

import contextlib
import gzip
import os
import shutil
import threading

from tests.hostile import damage
from tests.hostile.folders import READERS
from tests.hostile.judging import Case

# Streams and places to write.


def streams(rng):
    """Closed, full and narrow streams; links and pipes as outputs."""
    kind = rng.choice(
        (
            "closed stdin",
            "closed stdout",
            "full stdout",
            "ascii stdout",
            "bad stdin",
            "empty stdin",
            "pipe",
            "link",
            "dangling link",
            "read-only folder",
            "environment",
            "no home",
            "old output",
        )
    )
    translate = ["translate", "run"]
    good = b"rot haus\nblau hund\n"
    case = Case("streams", kind, [*translate, "rot haus"])
    if kind == "closed stdin":
        case.arguments, case.stdin, case.expect, case.names = translate, None, "refuse", ("input",)
    elif kind == "closed stdout":
        case.arguments, case.stdout = _printing(rng), "closed"
        case.expect, case.names = "refuse", ("output",)
    elif kind == "full stdout":
        case.arguments, case.stdout = _printing(rng), "full"
        case.expect, case.names = "refuse", ("No space", "output")
    elif kind == "ascii stdout":
        case.arguments, case.stdout = ["translate", "run", "rot haus", "katze läuft", "--n-best", "2"], "ascii"
    elif kind == "bad stdin":
        how = rng.choice(("not UTF-8", "binary", "cut gzip"))
        content = gzip.compress(good)[:-6] if how == "cut gzip" else damage.damaged_bytes(good, how, rng)
        case.arguments, case.stdin, case.expect, case.names = translate, content, "refuse", ("standard input",)
        case.text += f": {how}"
    elif kind == "empty stdin":
        case.arguments, case.stdin, case.expect, case.names = translate, b"", "either", ("standard input",)
    elif kind in ("pipe", "link", "dangling link", "old output"):
        case.arguments, case.expect = [*translate, "rot haus", "--output", "out"], "accept"
        case.damage = {"pipe": _pipe, "link": _link, "dangling link": _dangling, "old output": _old}[kind]
        if kind == "dangling link":
            case.expect = "either"
    elif kind == "read-only folder":
        case.arguments = [*rng.choice(([*translate, "rot haus"], READERS["align"][0][:4]))]
        case.arguments += ["--output", "shut/out"]
        case.expect, case.names, case.nobody, case.damage = "refuse", ("shut/out", "shut"), True, _shut
    elif kind == "environment":
        case = _environment(rng)
    else:
        case.damage = lambda work: shutil.rmtree(work / "home")
        case.expect = "accept"
    return case


def _printing(rng):
    return list(
        rng.choice(
            (
                ["translate", "run", "rot haus"],
                ["evaluate", "run", "--stored"],
                ["align", "run", "--bitext", "text/test.bitext"],
                ["evaluate", "--hypotheses", "text/test.en", "--references", "text/test.en"],
            )
        )
    )


def _pipe(work):

    os.mkfifo(work / "out")

    def read():
        with contextlib.suppress(OSError):
            (work / "out").read_bytes()

    threading.Thread(target=read, daemon=True).start()


def _link(work):
    (work / "aim").write_text("old\n")
    (work / "out").symlink_to("aim")


def _dangling(work):
    (work / "out").symlink_to("aim")


def _old(work):
    (work / "out").write_text("old\n")


def _shut(work):
    damage.open_to_all(work)
    (work / "shut").mkdir()
    (work / "shut").chmod(0o555)


def _environment(rng):
    value = rng.choice(("nonsense", "", "\udcff", "mxnet"))
    return Case(
        "streams",
        f"--backend {value!r}",
        ["evaluate", "run", "--stored", "--backend", value],
        expect="refuse",
        names=("backend",),
    )

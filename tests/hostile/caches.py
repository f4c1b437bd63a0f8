"""Hostile caches: of others, open to others, links, damaged files; what is run must be nobody else's."""

import os
import shutil
from pathlib import Path

from tests.hostile import damage
from tests.hostile.good_lines import SMALL
from tests.hostile.judging import Case
from tests.hostile.sandbox import NOBODY

CORPUS = "multi30k-de-en"
TOP = "home/.cache/keras-attn-zoo"
# What lets somebody else write there, and what does not.
TRUSTED = ("nothing", "sticky above", "link")
STRANGE = ("everybody", "group", "everybody above", "owner", "owner above", "file of another", "open file", "loop")


def cache(rng):
    """A cache, to what would run or read it."""
    what = rng.choice(("programs", "corpus", "corpus"))
    kind = rng.choice((*TRUSTED, *STRANGE, *(damage.BYTES if what == "corpus" else ())))
    folder = f"{TOP}/jax" if what == "programs" else f"{TOP}/corpora/{CORPUS}"
    trusted = kind not in STRANGE

    def prepare(work):
        target = work / folder
        target.mkdir(parents=True, mode=0o755)
        if what == "programs":
            (target / "jit_f-0-cache").write_bytes(b"a program")
        else:
            for part in ("train", "valid", "test"):
                for side in ("de", "en"):
                    shutil.copyfile(work / "text" / f"{part}.{side}", target / f"{part}.{side}")
        _spoil(work, target, kind, rng)

    if what == "programs":
        says = "" if trusted else "left alone"
        case = Case("caches", f"programs: {kind}", [], program="programs", expect="accept", says=says, damage=prepare)
        case.check = lambda work: _programs_left_alone(work / folder, trusted)
        return case
    damaged = kind in damage.BYTES
    return Case(
        "caches",
        f"corpus: {kind}",
        ["train", "--system", "bahdanau", "--small", "--corpus", CORPUS, "--run", "new", "--set", *SMALL],
        expect="either" if damaged else "accept" if trusted else "refuse",
        names=(CORPUS, TOP, "train", "sentence", "vocabulary"),
        damage=prepare,
        # The list of what was put there by hand.
        may_change=("new", TOP, "elsewhere"),
    )


def _spoil(work, target, kind, rng):
    file = rng.choice(sorted(target.iterdir()))
    root = os.geteuid() == 0
    if kind == "everybody":
        target.chmod(0o777)
    elif kind == "group" or (kind in ("owner", "owner above", "file of another") and not root):
        # As nobody else's user, only root can give files away.
        os.chown(target, -1, NOBODY) if root else None
        target.chmod(0o775 if root else 0o777)
    elif kind == "everybody above":
        target.parent.chmod(0o777)
    elif kind == "sticky above":
        target.parent.chmod(0o1777)
    elif kind == "owner":
        os.chown(target, NOBODY, NOBODY)
    elif kind == "owner above":
        os.chown(target.parent, NOBODY, NOBODY)
    elif kind == "file of another":
        os.chown(file, NOBODY, NOBODY)
    elif kind == "open file":
        file.chmod(0o666)
    elif kind == "loop":
        shutil.rmtree(target)
        target.symlink_to(target.name)
    elif kind == "link":
        shutil.move(target, work / "elsewhere")
        target.symlink_to(work / "elsewhere")
    elif kind in damage.BYTES:
        file.write_bytes(damage.damaged_bytes(file.read_bytes(), kind, rng))


def use_programs(options):
    """Do what a command does with the folder of JAX's programs before it imports it."""
    from keras_attn_zoo.support import backends

    os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
    backends._keep_compiled()
    Path("chosen").write_text(os.environ["JAX_COMPILATION_CACHE_DIR"])


def _programs_left_alone(folder, trusted):
    chosen = Path(folder.parents[3] / "chosen").read_text()
    if trusted:
        return [] if chosen else ["a cache of one's own is not used"]
    return ["somebody else's programs are run"] if chosen else []

"""Hostile run folders: every file of one, damaged."""

import json
import re
import shutil
from pathlib import Path

from tests.hostile import damage
from tests.hostile.judging import Case
from tests.hostile.sandbox import RECIPES, read_json, recipe

# Run folders.

# Which files a command must take notice of.
READERS = {
    "translate": (["translate", "run", "rot haus"], r"config\.json|best/.*"),
    "evaluate": (
        ["evaluate", "run", "--test", "text/test.de", "text/test.en", "--name", "other"],
        r"config\.json|best/.*|scores\.json|log\.jsonl|environment\.json",
    ),
    "evaluate own text": (
        ["evaluate", "run", "--name", "other"],
        r"config\.json|test\.tsv|best/.*|scores\.json|log\.jsonl|environment\.json",
    ),
    "evaluate --stored": (
        ["evaluate", "run", "latent", "--stored", "--baseline", "run"],
        r"scores\.json|hypotheses/test\.txt|references/test\.txt",
    ),
    "align": (["align", "run", "--bitext", "text/test.bitext", "--output", "l.align"], r"config\.json|best/.*"),
    "plot attention": (
        ["plot", "attention", "run", "rot haus", "--target", "house", "--output", "p.png"],
        r"config\.json|best/.*",
    ),
    "plot curves": (["plot", "curves", "run", "latent", "--output", "p.png"], r"log\.jsonl"),
    "plot top-k": (
        ["plot", "top-k", "run", "latent", "--trained", "--output", "p.png"],
        r"scores\.json|config\.json",
    ),
    "train --resume": (["resume"], r"config\.json|state\.npz|log\.jsonl|data"),
    "recipe": (["recipe"], r"scores\.json"),
}
# Every byte of these counts.
SEALED = r"(.*/)?best/.*\.(json|h5|spm)$"

# Ways out of a run folder: by a link, by the files that its configuration names, by the text that it has made.
OUT = ("link out", "paths out", "huge text")
# What is there for people and not for programs, and what has cases of its own, or tests: sums of sentences.
UNREAD = ("pictures/", "alignments/", "data/", "sentence_sums/")


def run_files():
    """Files of a run folder, as one stands after training and scoring."""
    return (
        *("config.json", "environment.json", "log.jsonl", "state.npz", "scores.json", "hypotheses/test.txt"),
        *("test.tsv", "references/test.txt", "data", *(f"best/{name}" for name in preset_files())),
    )


def preset_files():
    """Files of a preset."""
    return (
        *(
            "checksums.json",
            "config.json",
            "metadata.json",
            "model.weights.h5",
            "preprocessor.json",
            "source_tokenizer.json",
        ),
        *("task.json", "tokenizer.json", "assets/tokenizer/vocabulary.spm"),
        "assets/source_tokenizer/vocabulary.spm",
    )


def run_folder(rng):
    """A file of a run folder, damaged, to a command that reads it."""
    reader = rng.choice(sorted(READERS))
    arguments, reads = READERS[reader]
    files = [name for name in run_files() if re.fullmatch(reads, name)]
    # A preset has cases of its own.
    if rng.random() < 0.8:
        files = [name for name in files if not name.startswith("best/")] or files
    name = rng.choice(files)
    kind = rng.choice((*damage.KINDS, *damage.BYTES, *(("shape",) * 6 if ".json" in name else ()), "deep", *OUT))
    # Kinds of its own for what is not known by name before it is made.
    kind = "cut" if name == "data" and kind in ("deep", "shape", *OUT) else kind
    program, folder, arguments = reader_of(reader, arguments, rng)
    path = f"{folder}/{name}"
    state = {}

    def prepare(work):
        (work / "runs").mkdir()
        if not (work / folder).exists():
            shutil.copytree(work / "run", work / folder)
        target = work / path
        if name == "data":
            target = rng.choice(sorted(one for one in target.rglob("*") if one.is_file()))
            case.text += f" ({target.name})"
            case.names += (target.name, target.parent.name)
            case.check = cache_as_new
        state["before"] = target.read_bytes()
        if kind == "shape":
            what = damage.mutate_file(target, rng, ("system",) if name == "config.json" and rng.random() < 0.7 else ())
            case.text += f" ({what[:80]})"
            case.expect = _expectation(target, name, state["before"], reader)
        elif kind in OUT:
            _lead_out(work, target, kind)
        elif kind == "deep":
            target.write_text(damage.deep() + "\n")
        elif kind == "pipe":
            damage.replace_kind(target, kind)
        else:
            damage.spoil(work, target, kind, rng)
            if kind in damage.BYTES:
                case.expect = _expectation(target, name, state["before"], reader)
        return None

    must = kind in ("deep", "link out", *damage.KINDS) and name != "data"
    # A run may not be scored yet; a log may not be written yet; words for "no such run" are as good.
    if kind in ("missing", "dangling") and name in ("scores.json", "environment.json", "log.jsonl", "config.json"):
        must = False
    # What cannot be compared is told, and the scores are shown.
    untold = reader == "evaluate --stored" and name.startswith("references/")
    told, must = untold and must, must and not untold
    if reader == "evaluate own text" and kind in OUT:
        must = True
    case = Case(
        "run folder",
        f"{reader}: {name} is {kind}",
        arguments,
        program=program,
        expect="refuse" if must else "either",
        names=(name, Path(name).name, folder, *_told_otherwise(kind)),
        damage=prepare,
        nobody=kind == "unreadable",
        may_change=(f"{folder}/data",) if reader == "train --resume" else (),
        says="without a test" if told else "",
    )
    return case


def _told_otherwise(kind):
    """Words of a refusal that names no file: a run that is not scored, or is left out and named before, or its text."""
    return "scored", *(("--test",) if kind in OUT else ())


def _lead_out(work, target, kind):
    """Make a run folder lead out of itself, or to more than one wants."""
    outside = str(work.parent / "outside" / "precious.txt")
    if kind == "link out":
        target.unlink()
        target.symlink_to(outside)
        return
    run = work / target.relative_to(work).parts[0]
    run = run if (run / "config.json").exists() else next(run.iterdir())
    (run / "test.tsv").unlink(missing_ok=True)
    config = read_json(run / "config.json")
    if kind == "huge text":
        config["corpus"] = {"generated": {"train": 10**12, "valid": 10, "test": 10**12, "seed": 0, "max_words": 25}}
    else:
        config["corpus"] |= {part: [outside, outside] for part in ("train", "valid", "test")}
    (run / "config.json").write_text(json.dumps(config))


def cache_as_new(work):
    """Encoded text and subword models that were damaged are made anew before a training uses them."""
    old, new = work.parent / "pristine" / "stopped" / "data", work / "stopped" / "data"
    names = [path.relative_to(old) for path in old.rglob("*") if path.is_file() and path.suffix in (".npy", ".spm")]
    contents = {name: (new / name).read_bytes() if (new / name).is_file() else None for name in names}
    changed = [name for name, content in contents.items() if content != (old / name).read_bytes()]
    return [f"trains on what was damaged: {name}" for name in changed]


def reader_of(reader, arguments, rng):
    """Program, run folder and command line of a reader."""
    if reader == "recipe":
        program = rng.choice(RECIPES).stem
        name = rng.choice(list(recipe(program).RECIPE.entries))
        return program, f"runs/{name}", ["--out", "runs", "--systems", name, "--table-only"]
    if reader == "train --resume":
        return "resume", "stopped", []
    return "attn-zoo", "run", list(arguments)


def _expectation(target, name, before, reader):
    """What must become of changed content, by a look of our own."""
    content = target.read_bytes()
    if content == before:
        return "accept"
    if name == "data":
        # Made anew or refused; `cache_as_new` looks.
        return "either"
    if re.match(SEALED, name):
        return "refuse"
    if name.endswith(".npz"):
        return "refuse" if _arrays(target) != _arrays_of(before, target) else "either"
    if name.endswith(".json"):
        try:
            tree = json.loads(content.decode("utf-8"))
        except (ValueError, RecursionError):
            return "refuse"
        old = json.loads(before)
        if tree == old:
            return "either"
        if name == "config.json":
            return _config_expectation(old, tree, reader)
        return "either" if isinstance(tree, dict) else "refuse"
    if name.endswith(".jsonl"):
        return _log_expectation(content)
    try:
        content.decode("utf-8")
    except ValueError:
        return "refuse"
    return "either"


def _config_expectation(old, tree, reader):
    """A setting of another type, or none, is no setting."""
    if not isinstance(tree, dict) or not isinstance(tree.get("system"), dict):
        return "refuse"
    for part in ("data", "training", "search", "backbone"):
        if not isinstance(tree["system"].get(part, {}), dict):
            return "refuse"
        for key, value in old["system"][part].items():
            new = tree["system"].get(part, {}).get(key, value)
            numbers = isinstance(value, (int, float)) and isinstance(new, (int, float))
            kinds = type(new) is not type(value) and not (numbers and not isinstance(new, bool))
            wrong = kinds and value is not None and new is not None
            if wrong or (isinstance(new, float) and new != new):
                return "refuse"
    if reader == "train --resume" and tree.get("system") != old["system"]:
        return "either"
    return "either"


def _log_expectation(content):
    lines = content.decode("utf-8", "replace").splitlines(keepends=True)
    try:
        content.decode("utf-8")
    except ValueError:
        return "refuse"
    for number, line in enumerate(lines, start=1):
        try:
            if not isinstance(json.loads(line), dict):
                return "refuse"
        except ValueError:
            # A last line that a kill has cut is left out in reading.
            return "either" if number == len(lines) and not line.endswith("\n") else "refuse"
    return "either"


def _arrays(path):
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: (arrays[name].dtype.str, arrays[name].shape, arrays[name].tobytes()) for name in arrays.files}
    except Exception as error:
        return type(error).__name__


def _arrays_of(content, beside):
    path = beside.with_name("before.npz")
    path.write_bytes(content)
    try:
        return _arrays(path)
    finally:
        path.unlink()

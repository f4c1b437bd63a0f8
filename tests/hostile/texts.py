"""Hostile text: corpora, bitext, alignments, word vectors, hypotheses and references."""

from pathlib import Path

from tests.hostile import damage
from tests.hostile.good_lines import GOLD, RECIPE, SAMPLED, SMALL, TRAIN, TRUECASED
from tests.hostile.judging import Case
from tests.hostile.options import may_change

# With them, a recipe reads gold alignments before it trains.
WITH_GOLD = [
    [name, *GOLD, "--systems", system, *RECIPE]
    for name, system in (("bahar2020", "transformer"), ("hiemsch2023", "bahdanau-plain"))
]
NEW_RUN = ["--small", "--run", "new", "--set", *SMALL]


def text(rng):
    """A file of text, damaged, to a command that reads it."""
    readers = {
        "text/test.de": [
            ["translate", "run", "--input", "text/test.de", "--output", "out.txt"],
            ["evaluate", "--hypotheses", "text/test.de", "--references", "text/test.en"],
            ["evaluate", "run", "--test", "text/test.de", "text/test.en", "--name", "other"],
            ["align", "run", "--source", "text/test.de", "--target", "text/test.en"],
            TRAIN,
        ],
        "text/test.de.gz": [
            ["translate", "run", "--input", "text/test.de.gz", "--output", "out.txt"],
            ["evaluate", "run", "--test", "text/test.de.gz", "text/test.en.gz", "--name", "other"],
        ],
        "text/test.en": [
            ["evaluate", "--hypotheses", "text/test.de", "--references", "text/test.en"],
            ["evaluate", "run", "--test", "text/test.de", "text/test.en", "--name", "other"],
        ],
        "text/train.de": [TRAIN, SAMPLED],
        "text/cased.de": [TRUECASED],
        "text/valid.en": [TRAIN],
        "text/train.de.gz": [
            ["train", "--system", "uniform", "--train", "text/train.de.gz", "text/train.en.gz", *NEW_RUN],
        ],
        "text/train.tsv": [["train", "--system", "uniform", "--train", "text/train.tsv", *NEW_RUN]],
        "text/test.tsv": [["evaluate", "run", "--test", "text/test.tsv", "--name", "other"]],
        "text/test.tsv.gz": [["evaluate", "run", "--test", "text/test.tsv.gz", "--name", "other"]],
        "text/test.bitext": [["align", "run", "--bitext", "text/test.bitext", "--output", "links.align"], *WITH_GOLD],
        "text/test.gold": [["align", "run", "--bitext", "text/test.bitext", "--gold", "text/test.gold"], *WITH_GOLD],
        "text/vectors.txt": [["vectors"]],
    }
    path = rng.choice(sorted(readers))
    arguments = rng.choice(readers[path])
    special = arguments == ["vectors"]
    kinds = [*damage.KINDS, *damage.BYTES, *damage.kinds_of_lines(path)]
    kind = rng.choice(kinds)
    if special:
        return _vectors(path, kind, rng)
    in_recipe = arguments in WITH_GOLD
    program, arguments = (arguments[0], arguments[1:]) if in_recipe else ("attn-zoo", arguments)
    regular = kind not in ("bit", "garbled", "appended", "cut") or path.endswith(".gz")
    expect = "refuse" if regular else "either"
    if kind in damage.KINDS:
        expect = "either" if kind == "pipe" else "refuse"
    if kind == "binary" and path.endswith((".de", ".en", ".txt")):
        expect = "refuse"
    if kind in damage.HARMLESS or (kind == "empty" and path.endswith(".gold")):
        expect = "either"
    # Only of two files that belong together has one per line too many.
    alone = path.endswith((".tsv", ".tsv.gz", ".bitext")) and not in_recipe
    if kind == "surplus line" and (arguments[0] == "translate" or alone):
        expect = "accept"
    if kind == "blank" and arguments[0] == "translate":
        expect = "accept"
    says = ""
    if kind == "blank" and path == "text/test.de" and "--references" in arguments:
        # A system may translate nothing at all: that is worth 0, and a word.
        expect, says = "accept", "only empty lines"
    if kind == "long line" and (arguments[0] == "train" or in_recipe):
        # A filter leaves it out, or the scoring does.
        expect = "either"
    if kind == "long line" and arguments[:2] == ["evaluate", "--hypotheses"]:
        # Whatever a system wrote is scored.
        expect = "either"
    if path.endswith(".gz") and kind in ("bit", "garbled"):
        # A header has bits that nobody reads: the file's name, the system that made it.
        expect = "either"

    def prepare(work):
        target = work / path
        return damage.spoil(work, target, kind, rng)

    names = (path, Path(path).name, *(("line ", "sentence") if kind == "long line" else ()))
    if "--references" in arguments or in_recipe:
        # Two files that do not fit together are told by what they hold.
        names += ("references", "sentence pairs")
    if "train" in path or "cased" in path:
        # Subwords of another text cut the test text into more pieces.
        names += ("--max-tokens",)
    if kind == "wide":
        # There are more characters than before.
        names += ("vocabulary_size",)
    return Case(
        "text",
        f"{program if in_recipe else ' '.join(arguments[:2])}: {path} is {kind}",
        list(arguments),
        program=program,
        expect=expect,
        names=names,
        damage=prepare,
        may_change=may_change(arguments),
        nobody=kind == "unreadable",
        says=says,
    )


def _vectors(path, kind, rng):
    """Word vectors are read by the function that training calls: a model would have to be built first."""
    more = {
        "narrow": "rot 0.1 0.2",
        "infinite": "rot " + " ".join(["inf"] * 8),
        "NaN": "rot " + " ".join(["nan"] * 8),
        "no numbers": "rot " + " ".join(["x"] * 8),
        "huge": "rot " + " ".join(["1e300"] * 8),
    }
    kind = rng.choice([kind, *more])

    def prepare(work):
        if kind in more:
            lines = (work / path).read_text().splitlines()
            (work / path).write_text("\n".join([more[kind], *lines[1:]]) + "\n")
            return None
        return damage.spoil(work, work / path, kind, rng)

    sure = kind in more or kind in ("empty", "binary", "UTF-16", "blank", "long line")
    sure = sure or (kind in damage.KINDS and kind != "pipe")
    return Case(
        "text",
        f"word vectors: {path} is {kind}",
        [path],
        program="word vectors",
        expect="refuse" if sure else "either",
        names=(path, "vectors.txt"),
        damage=prepare,
        nobody=kind == "unreadable",
    )

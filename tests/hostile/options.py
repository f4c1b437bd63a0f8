"""Hostile command lines: every option of every command and recipe, with a value that it should not have."""

import argparse
import functools
import random
from pathlib import Path

from tests.hostile.good_lines import COMMANDS, good_lines, recipe_lines
from tests.hostile.judging import Case
from tests.hostile.sandbox import RECIPES, recipe

SEED = 1
# How options are told apart, by the name of what they set. An option that is not listed is known by its type.
TEXTS = {
    "train",
    "valid",
    "test",
    "input",
    "hypotheses",
    "references",
    "source",
    "target",
    "bitext",
    "gold",
    "links",
    "files",
}
TEXTS |= {"prefix", "require_file"}
READS = TEXTS | {"settings"}
MODELS = {"model", "reverse_model", "models", "runs", "baseline", "beside", "initial_model"}
WRITES_FILE = {"output"}
WRITES_FOLDER = {"run", "out", "folder"}
# Positional arguments of the good lines.
POSITIONAL = ("run", "latent", "run/best", "standard", "hmm", "--", "rot haus", "text/train.de", "text/test.gold")
FREE_TEXT = {"sentence", "sentences", "target"}
WORDS = {"system", "systems", "key", "backend", "layer", "corpus", "names", "download", "verify", "strategy", "mbr"}

NO_NUMBERS = (
    "nonsense",
    "",
    " ",
    "1,5",
    "1.2.3",
    "0x10",
    "--1",
    "½",
    "\udcff",
    "1" * 5000,
    "nan",
    "[1]",
    "None",
    "True",
)
NO_COUNTS = ("-1", "1e12", "1000000000000", str(10**30), "2.5", "inf", "-inf", "1e400")
NO_RATES = ("-1", "inf", "-inf", "1e400", str(10**400))
BAD_GRIDS = (
    *("", "=", "=1", "dropout", "dropout=", "dropout=0.1,", "dropout=,", "dropout=0.1,,0.3", "dropout=0.1;0.3"),
    *("dropout=0.1,nonsense", "dropout=1,2", "no_such=1,2", "seed=1,2", "task=translation,dialogue", "\udcff=1"),
    *("dropout=[0.1,0.3]", "num_heads=0,1", "epochs=1,2,nan", "budget=1steps,5apples", "hidden_dim=8,1e12"),
    *("cross_attention=bahdanau,nonsense", "cross_attention.nonsense=1,2", "dropout=" + "0.1," * 3000),
)
BAD_SETTINGS = ("activation=swiglue", "norm=", "encoder_positions=rotation", "cross_attention.num_key_value_heads=[2]")
BAD_BUDGETS = (
    *("40000", "steps", "5apples", "5weeks", "5 s", "-5steps", "0steps", "0.5steps", "1e9h", "nanh", "5Mh", "Mtokens"),
    *("5steps 5min", "5steps,5min", "1:30h", "none", "9" * 40 + "tokens", "\u0665steps"),
)
BAD_TOKENIZERS = (
    "nonsense",
    "",
    " ",
    "13A",
    "13a,zh",
    "moses",
    "moses-",
    "moses-../de",
    "\udcff",
    "x" * 5000,
)
BAD_NAMES = (
    "../up",
    "a/b",
    "",
    ".",
    "..",
    "x" * 300,
    "two\nlines",
    "\udcff",
    "/absolute",
    "nul\x00l".replace("\x00", "/"),
)


@functools.cache
def known_parsers():
    """All parsers with options: `{(program, *commands): parser}`."""
    from keras_attn_zoo.cli import build_parser
    from keras_attn_zoo.cli import recipe as recipes

    found = {}

    def walk(parser, path):
        groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        for group in groups:
            for name, sub in group.choices.items():
                walk(sub, (*path, name))
        if parser.get_default("action"):
            found["attn-zoo", *path] = parser

    walk(build_parser(), ())

    class Found(Exception):
        pass

    def keep(parser, *rest, **options):
        raise Found(parser)

    for path in RECIPES:
        kept, recipes.guarded = recipes.guarded, keep
        try:
            recipes.run_recipe(recipe(path.stem).RECIPE, "A recipe.", [])
        except Found as stop:
            found[(path.stem,)] = stop.args[0]
        finally:
            recipes.guarded = kept
    return found


def base_of(path, rng, flag=None):
    """A good command line of a program; if any of them has an option, one that has it: it may need others."""
    lines = COMMANDS[path[1:]] if path[0] == "attn-zoo" else recipe_lines(path[0])
    line = list(rng.choice([one for one in lines if flag in one] or lines))
    if path[0] == "attn-zoo" or "--systems" in line:
        return line
    return ["--systems", rng.choice(list(recipe(path[0]).RECIPE.entries)), *line]


def options(rng):
    """One option of one command, with a value that it should not have."""
    every = [
        (path, action)
        for path, parser in sorted(known_parsers().items())
        for action in parser._actions
        if action.dest not in ("help", "version")
    ]
    path, action = rng.choice(every)
    flag = max(action.option_strings, key=len) if action.option_strings else None
    base = base_of(path, rng, flag)
    kind, value, expect, prepare = _bad_value(path, action, rng)
    names = [flag, value[:30], repr(value)[1:20], action.dest.replace("_", "-"), action.dest]
    # An empty path is the current folder; a sentence is told by what it is.
    names.append(str(Path(value or ".")))
    names += {"": ["folder", "there is no file"]}.get(value, [])
    if action.dest == "runs":
        # A line of another kind has no place for a run; of a path with a line break the message gives the start.
        names += ["give --hypotheses and --references and no run"] + (
            [value.split("\n")[0] + "\\n"] if "\n" in value else []
        )
    names += ["sentence", "translation", "line "] if action.dest in FREE_TEXT else []
    # Of a grid, the setting that is wrong, or the run that it would give.
    setting = value.partition("=")[0]
    names += [f"setting {setting}", f"-{setting}="] if action.dest in ("grid", "tune") and setting else []
    arguments = _with_option(base, action, flag, value, rng)
    named = flag or action.dest
    return Case(
        f"{' '.join(path)}: {named} = {value[:60]!r} ({kind})",
        arguments,
        program=path[0],
        expect=expect,
        names=tuple(_printed(name) for name in names if name and name.strip()),
        prepare=prepare,
        # What is refused late may have made: text that is encoded, an empty folder.
        may_change=("new", value) if action.dest in WRITES_FOLDER else ("new",),
    )


def _printed(text):
    """A text as the error stream prints it: what is no UTF-8 as an escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def _with_option(base, action, flag, value, rng):
    if action.nargs == 0:
        return [*base, f"{flag}={value}"]
    if flag is None:
        # The positional arguments come first in every base.
        skip = next(i for i, item in enumerate([*base, "--"]) if (i and item in POSITIONAL) or item.startswith("--"))
        if action.dest in FREE_TEXT and "rot haus" in base:
            skip = base.index("rot haus")
        if action.dest in ("folder", "address"):
            skip = len(base) - 1
        return [*base[:skip], value, *base[skip + 1 :]]
    if action.dest in READS and flag in base and action.nargs == "+":
        place = base.index(flag)
        return [*base[: place + 1], value, *base[place + 2 :]]
    base = _without(base, flag)
    # With an equals sign, so that a value that begins with a dash is one.
    return [*base, f"{flag}={value}"]


def _without(arguments, flag):
    """A command line without an option and its values: given twice it would be refused for that."""
    if flag not in arguments:
        return arguments
    start = arguments.index(flag)
    rest = arguments[start + 1 :]
    values = next((i for i, item in enumerate(rest) if item.startswith("--")), len(rest))
    return [*arguments[:start], *rest[values:]]


def _bad_value(path, action, rng):
    """Kind, value, what must become of it, and a function that prepares files."""
    dest, text = action.dest, path[1:] == ("plot", "attention")
    if action.nargs == 0:
        return "a flag with a value", rng.choice(("1", "", "yes")), "refuse", None
    if dest == "set":
        value = rng.choice(
            ("", "=", "=1", "epochs", "epochs==1", "no_such=1", "epochs=", "\udcff=1", "a" * 9999, *BAD_SETTINGS)
        )
        return "a setting", value, "refuse", None
    if dest in FREE_TEXT and not (dest == "target" and not text):
        value = rng.choice(("", " ", "\udcff", "x " * 5000, "two\nlines", "\x00".replace("\x00", "\x1b[2J"), "𝔘" * 50))
        refuse = value in ("\udcff", "x " * 5000)
        return "a sentence", value, "refuse" if refuse else "either", None
    if dest in ("forbid", "require"):
        value = rng.choice(("", " ", "\udcff", "x " * 5000, "two\nlines", "...", "nonsense"))
        return "a word", value, "either" if value == "nonsense" else "refuse", None
    if action.choices:
        return "none of the choices", rng.choice(("nonsense", "", "\udcff", "END")), "refuse", None
    if dest == "name":
        value = rng.choice(BAD_NAMES)
        return "a name", value, "refuse", None
    if dest in WORDS:
        value = rng.choice(("nonsense", "", " ", "\udcff", "bahdanau;uniform", "../run", "x" * 5000, "val_lossy"))
        return "no such word", value, "refuse", None
    lists = {"grid": BAD_GRIDS, "tune": BAD_GRIDS, "budget": BAD_BUDGETS, "tokenize": BAD_TOKENIZERS}
    if dest in lists:
        return f"no {dest}", rng.choice(lists[dest]), "refuse", None
    if dest in WRITES_FILE:
        return _bad_output(action, rng, path[1:2] == ("plot",))
    if dest in WRITES_FOLDER:
        return _bad_folder(rng)
    if dest in MODELS:
        return _bad_model(rng)
    if dest in READS:
        value = rng.choice(
            ("nowhere", "text", "", "x" * 300, "\udcff", "text/test.de/below", "loop", "~", "https://host/x")
        )
        return "no file to read", value, "refuse", _make_loop
    kind = action.type
    is_number = kind is not None and kind not in (str, Path)
    if not is_number:
        return "anything", rng.choice(("nonsense", "", "\udcff", "x" * 5000, "../x", "\n")), "either", _make_loop
    if kind is float or _takes(kind, "0.5"):
        return "no rate", rng.choice((*NO_NUMBERS, *NO_RATES)), "refuse", None
    value = rng.choice((*NO_NUMBERS, *NO_COUNTS))
    # A seed may be large, but not any number; seeds may be separated by commas.
    either = (dest.endswith("seed") and value == "1000000000000") or (dest == "seeds" and value == "1,5")
    return "no count", value, "either" if either else "refuse", None


def _takes(kind, text):
    try:
        kind(text)
    except Exception:
        return False
    return True


def _make_loop(work):
    (work / "loop").symlink_to("loop")


def _bad_output(action, rng, picture):
    suffix = ".png" if picture else ".txt"
    kinds = ["folder", "below a file", "loop", "too long", "not UTF-8", "link", "empty", "rights"]
    kind = rng.choice([*kinds, "suffix"] if picture else kinds)
    value = {
        "folder": f"dir{suffix}",
        "below a file": f"text/test.de/out{suffix}",
        "loop": f"loop{suffix}",
        "too long": "x" * 300 + suffix,
        "not UTF-8": f"\udcff{suffix}",
        "link": f"link{suffix}",
        "empty": "",
        "rights": f"link{suffix}/below{suffix}",
        "suffix": "picture.doc",
    }[kind]

    def prepare(work):
        (work / f"dir{suffix}").mkdir()
        (work / f"loop{suffix}").symlink_to(f"loop{suffix}")
        (work / f"aim{suffix}").write_text("old\n")
        (work / f"link{suffix}").symlink_to(f"aim{suffix}")

    return kind, value, "accept" if kind == "link" else "either" if kind == "not UTF-8" else "refuse", prepare


def _bad_folder(rng):
    kind = rng.choice(("a file", "below a file", "loop", "too long", "holds something", "dangling"))
    value = {
        "a file": "text/test.de",
        "below a file": "text/test.de/run",
        "loop": "loop",
        "too long": "x" * 300,
        "holds something": "text",
        "dangling": "dangling",
    }[kind]

    def prepare(work):
        (work / "loop").symlink_to("loop")
        (work / "dangling").symlink_to("nowhere-at-all/deeper")

    return kind, value, "either" if kind in ("dangling", "holds something") else "refuse", prepare


def _bad_model(rng):
    value = rng.choice(
        (
            *("nowhere", "", "text", "text/test.de", "loop", "x" * 300, "\udcff", "text/test.de/below", "run/data"),
            *("hf://nobody/nothing", "kaggle://nobody/nothing/keras/x", "modelscope://nobody/nothing", "gs://x/y"),
            *("hf://", "https://host/x", "file:///etc/passwd", "..", "a\nb"),
        )
    )
    return "no model", value, "refuse", _make_loop


def make_case(number):
    """The case of a number, always the same one; below zero, a good command line before anything in it is made bad."""
    if number < 0:
        program, arguments = good_lines()[-number - 1]
        return Case(" ".join([program, *arguments[:3]]), list(arguments), program=program, expect="accept")
    return options(random.Random(f"{SEED}:{number}"))

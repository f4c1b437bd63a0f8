"""Command lines that are killed: every command and recipe that writes, and every option that names what is written."""

import dataclasses

from tests.hostile.good_lines import COMMANDS, CORPUS, SAMPLED, SMALL
from tests.hostile.kill_server import BY_HAND, HUB, MTDATA, PRESET, prepare_site, put_by_hand, write_card

SIZES = ("embedding_dim=8", "hidden_dim=8")
STEPS = ("sentences_per_batch=32", "bucket_count=1", "epochs=1", "validations_per_epoch=1", "beams=1")
AVERAGED = ("average=2", "keep_best=1", "ema_momentum=0.9")
RESUMED = ["--output", "out.txt", "--beams", "1", "--batch-size", "1", "--resume"]
SMOKE = ["--out", "new", "--scale", "smoke"]
RECIPES = (
    ("bahar2020", "", ["transformer-latent-top-6"]),
    ("dang2023", "", ["bahdanau"]),
    ("league", "tuned", ["transformer"]),
    ("hiemsch2023", "seeds", ["experiment-1", "--seeds", "1", "2"]),
    ("rosendahl2021", "all pairs", ["transformer", "--pair", "all"]),
    ("zeng2021", "a task", ["transformer", "--task", "summarization"]),
)
# Commands without a line to be killed, and why. That they write nothing is tested before others are killed.
NEVER_WRITE = {
    ("attn-zoo", "systems"): "prints a table",
    ("attn-zoo", "presets", "verify-remote"): "reads what a server has",
}
# Options that name what is written, or have something written, by how the parsers call them.
WRITING = ("output", "run", "out", "folder", "address", "name", "download", "verify", "stored")
# Of these, what only reads: files, or scores by their name.
NEVER_WRITING = {
    ("attn-zoo", "presets"): {"verify"},
    ("attn-zoo", "plot", "by-length"): {"name"},
    ("attn-zoo", "plot", "top-k"): {"name"},
}


@dataclasses.dataclass(frozen=True)
class Killed:
    """A command line that is killed, and can be run again.

    Attributes:
        path: program and commands, as `known_parsers` has them.
        arguments: the command line, without the program.
        kind: what sets it apart from others of the same command.
        prepare: function of the working folder, before it is first run.
    """

    path: tuple
    arguments: list
    kind: str = ""
    prepare: object = None

    @property
    def name(self):
        """Its row in the table."""
        words = self.path[1:] if self.path[0] == "attn-zoo" else self.path
        return " ".join(words) + f", {self.kind}" * bool(self.kind)


def _zoo(*arguments, kind="", prepare=None):
    commands = [path for path in COMMANDS if path == arguments[: len(path)]]
    return Killed(("attn-zoo", *max(commands, key=len)), list(arguments), kind, prepare)


def command_lines():
    """Every command line that is killed."""
    small = ["--set", *SIZES, *STEPS, *SMALL]
    train = ["train", "--system", "bahdanau", *CORPUS, "--run", "new", "--resume"]
    found = []
    for path, lines in COMMANDS.items():
        if path[0] in ("time", "translate", "evaluate", "align", "links", "explore", "export", "plot", "average"):
            line = next((one for one in lines if "--output" in one or "--name" in one), lines[0])
            found.append(_zoo(*line))
    pictures = COMMANDS["plot", "attention"][0]
    for suffix in ("pdf", "svg"):
        found.append(_zoo(*(f"p.{suffix}" if part == "p.png" else part for part in pictures), kind=suffix))
    # Subwords, a truecaser, and encoded text that is drawn anew in every epoch.
    subwords = [f"text/cased.{one[-2:]}" if one.startswith("text/train") else one for one in SAMPLED]
    return [
        *found,
        # In several windows.
        _zoo("translate", "run", "run/best", "--input", "text/many.de", *RESUMED, kind="an ensemble, resumed"),
        _zoo("evaluate", "run", "latent", "--stored", "--baseline", "run", kind="stored"),
        _zoo(*train, *small),
        _zoo(*train, *small, "validations_per_epoch=3", *AVERAGED, kind="averages"),
        _zoo("train", "--links", "text/train.align", *train[1:], *small, "guided_alignment=0.1", kind="guided"),
        _zoo("train", "--from", "run", *train[3:], "--lora", "2", "--set", *STEPS, "seed=5", kind="from a run"),
        _zoo(*subwords, "truecase=both", *SIZES, *STEPS, "--resume", kind="subwords"),
        _zoo("compare", "--systems", "bahdanau", "uniform", *CORPUS, "--out", "new", *small),
        _zoo("demo", "--out", "new"),
        _zoo("presets", "--download", PRESET),
        _zoo("presets", "publish", "run", "hf://user"),
        _zoo("site", "new", prepare=prepare_site),
        _zoo("presets", "publish", "run", "hf://user", kind="with a card", prepare=write_card),
        _zoo("corpora", "--download", HUB, kind="hub"),
        _zoo("corpora", "--download", MTDATA, kind="mtdata"),
        _zoo("corpora", "--verify", BY_HAND, kind="put by hand", prepare=put_by_hand),
        # Recipes write as `compare` does, and tables and a page: of one text, for each seed, pair and task.
        *(Killed((name,), [*SMOKE, "--systems", *more], kind) for name, kind, more in RECIPES),
    ]


def good_line(path):
    """A good command line of a command."""
    return Killed(path, COMMANDS[path[1:]][0])

"""Command lines that are good: what every case begins with."""

from tests.hostile.sandbox import RECIPES

# Base command lines: what is good, before one thing in it is not. A command that is missing here is a failing test.
SMALL = ["vocabulary_size=None", "model_type=word", "max_tokens=12"]
TEST = ["--test", "text/test.de", "text/test.en"]
LONGER = [*TEST, "--max-tokens", "40"]
CORPUS = [
    *("--train", "text/train.de", "text/train.en", "--valid", "text/valid.de", "text/valid.en"),
    *TEST,
]
TRAIN = ["train", "--system", "bahdanau", "--small", *CORPUS, "--run", "new", "--set", *SMALL]
COMMANDS = {
    ("demo",): [["demo", "--out", "new"]],
    ("presets",): [["presets"]],
    ("presets", "publish"): [["presets", "publish", "run", "hf://user"]],
    ("corpora",): [["corpora"], ["corpora", "multi30k-de-en"]],
    ("systems",): [["systems", "--vocabulary-size", "100"]],
    ("train",): [TRAIN],
    ("compare",): [["compare", "--systems", "bahdanau", *CORPUS, "--out", "new", "--set", "hidden_dim=8", *SMALL]],
    ("translate",): [
        ["translate", "run", "rot haus"],
        ["translate", "run/best", "--input", "text/test.de", "--output", "out.txt"],
    ],
    ("evaluate",): [
        ["evaluate", "run", "--test", "text/test.de", "text/test.en", "--name", "other"],
        ["evaluate", "run", "latent", "--stored", "--baseline", "run"],
        ["evaluate", "--hypotheses", "text/test.de", "--references", "text/test.en"],
    ],
    ("align",): [
        ["align", "run", "--source", "text/test.de", "--target", "text/test.en", "--output", "links.align"],
        ["align", "run/best", "--bitext", "text/test.bitext", "--gold", "text/test.gold"],
    ],
    ("explore",): [["explore", "run", "rot haus", "--output", "p.html"]],
    ("export",): [["export", "standard", "--to", "transformers", "new"]],
    ("plot", "attention"): [["plot", "attention", "run", "rot haus", "--target", "house", "--output", "p.png"]],
    ("plot", "curves"): [["plot", "curves", "run", "latent", "--output", "p.png"]],
    ("plot", "entropy"): [["plot", "entropy", "run", "--places", "cross", "--output", "p.png"]],
    ("plot", "weights"): [["plot", "weights", "standard", *LONGER, "--output", "p.png"]],
    ("plot", "divergence"): [["plot", "divergence", "standard", *LONGER, "--places", "encoder", "--output", "p.png"]],
    ("plot", "matrices"): [["plot", "matrices", "gaussian", "--size", "5", "--output", "p.png"]],
    ("plot", "lengths"): [["plot", "lengths", "text/train.de", "--output", "p.png"]],
    ("plot", "by-length"): [["plot", "by-length", "run", "--bounds", "2", "--output", "p.png"]],
    ("plot", "speed"): [["plot", "speed", "run", "--batch-sizes", "2", "--runs", "1", "--output", "p.png"]],
    ("plot", "top-k"): [["plot", "top-k", "run", "latent", "--trained", "--output", "p.png"]],
}
RECIPE = ["--out", "new", *CORPUS, "--set", "vocabulary_size=40", "max_tokens=20"]


def good_lines():
    """Every good command line: `(program, arguments)`."""
    lines = [("attn-zoo", line) for lines in COMMANDS.values() for line in lines]
    return lines + [(path.stem, RECIPE) for path in RECIPES]

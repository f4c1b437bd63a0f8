"""Command lines that are good: what every case begins with."""

from tests.hostile.sandbox import RECIPES, recipe

# Base command lines: what is good, before one thing in it is not. A command that is missing here is a failing test.
SMALL = ["vocabulary_size=None", "model_type=word", "max_tokens=12"]
TEST = ["--test", "text/test.de", "text/test.en"]
# Enough for classes of length.
MANY_SENTENCES = ["text/many.de", "text/many.en"]
LONGER = [*TEST, "--max-tokens", "40"]
CORPUS = [
    *("--train", "text/train.de", "text/train.en", "--valid", "text/valid.de", "text/valid.en"),
    *TEST,
]
TRAIN = ["train", "--system", "bahdanau", "--small", *CORPUS, "--run", "new", "--set", *SMALL]
# Of words that are never capitalised, no case can be learned.
TRUECASED = [f"text/cased.{one[-2:]}" if one.startswith("text/train") else one for one in TRAIN] + ["truecase=both"]
# Of unigram subwords alone, one of several segmentations can be drawn.
UNIGRAM = ["vocabulary_size=24", "model_type=unigram", "max_tokens=20"]
SAMPLED = [*TRAIN[: -len(SMALL)], *UNIGRAM, "subword_sampling_nbest=5", "subword_sampling_alpha=0.2"]
# The body is that of the run, and so are most settings.
FROM = ["train", "--from", "run", *CORPUS, "--run", "new", "--freeze", "embeddings", "--lora", "2", "--set", "seed=5"]
# Links of the training text, as they stand; an aligner would take its time.
GUIDED = ["train", "--links", "text/train.align", "--index-base", "0", *TRAIN[1:], "guided_alignment=0.1"]
COMPARE = ["compare", "--systems", "bahdanau", *CORPUS, "--out", "new", "--set", "hidden_dim=8", *SMALL]
MANY = ["--seeds", "1", "2", "--grid", "dropout=0.1,0.2", "--budget", "2steps", "--tokenize", "char"]
SEVERAL = ["translate", "run", "--input", "text/test.de", "--n-best", "2"]
DRAWN, DIVERSE = ["--strategy", "sampling"], ["--strategy", "diverse", "--beams", "4"]
COMMANDS = {
    ("demo",): [["demo", "--out", "new"]],
    ("presets",): [["presets"]],
    ("presets", "verify-remote"): [["presets", "verify-remote"]],
    ("presets", "publish"): [["presets", "publish", "run", "hf://user"]],
    ("site",): [["site", "new"]],
    ("corpora",): [["corpora"], ["corpora", "multi30k-de-en"]],
    ("systems",): [["systems", "--vocabulary-size", "100"]],
    ("train",): [TRAIN, TRUECASED, SAMPLED, FROM, GUIDED],
    ("average",): [
        ["average", "run", "--last", "2", "--output", "new"],
        ["average", "run", "--best", "2", "--output", "new"],
        ["average", "run", "run/best", "--output", "new"],
    ],
    ("compare",): [COMPARE, [*COMPARE, *MANY]],
    ("time",): [["time", "run", "--anyway", "--rounds", "1"]],
    ("translate",): [
        ["translate", "run", "rot haus"],
        ["translate", "latent", "rot haus", "--top-k", "2"],
        ["translate", "run/best", "--input", "text/test.de", "--output", "out.txt"],
        ["translate", "run", "run/best", "rot haus", "--mean", "geometric"],
        ["translate", "run", "--input", "text/test.de", "--output", "out.txt", "--resume"],
        [*SEVERAL, *DRAWN, "--samples", "4", "--temperature", "2", "--sample-top-k", "3", "--top-p", "0.9"],
        [*SEVERAL, *DRAWN, "--seed", "3", "--mbr", "bleu", "--min-length", "1", "--no-repeat-ngram", "2"],
        [*SEVERAL, *DIVERSE, "--groups", "2", "--diversity", "1", "--coverage-penalty", "0.1"],
        [*SEVERAL, "--prefix", "text/prefixes.en", "--require-file", "text/prefixes.en"],
        ["translate", "run", "rot haus", "--forbid", "cat", "--require", "house"],
        ["translate", "run", "rot haus", "--replace-unknown"],
    ],
    ("evaluate",): [
        ["evaluate", "run", "--test", "text/test.de", "text/test.en", "--name", "other"],
        ["evaluate", "run", "latent", "--stored", "--baseline", "run"],
        ["evaluate", "latent", *TEST, "--name", "other", "--top-k", "1", "2", "0", "--tokenize", "intl"],
        ["evaluate", "--hypotheses", "text/test.de", "--references", "text/test.en"],
    ],
    ("align",): [
        ["align", "run", "--source", "text/test.de", "--target", "text/test.en", "--output", "links.align"],
        ["align", "run/best", "--bitext", "text/test.bitext", "--gold", "text/test.gold"],
        ["align", "hmm", "--bitext", "text/test.bitext", "--train", "text/train.de", "text/train.en"],
        ["align", "run", "--reverse-model", "run/best", "--symmetrize", "union", "--bitext", "text/test.bitext"],
    ],
    ("links",): [
        ["links", "text/test.gold", "--gold", "text/test.gold", "--bitext", "text/test.bitext", "--output", "out.txt"],
        ["links", "text/test.gold", "text/test.gold", "--symmetrize", "union", "--target-first", "second"],
        ["links", "text/test.gold", "--format", "tsv", "--output-base", "1"],
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
    ("plot", "by-length"): [
        [
            *("plot", "by-length", "run", "--name", "many", "--test"),
            *MANY_SENTENCES,
            "--bounds",
            "2",
            "--output",
            "p.png",
        ]
    ],
    ("plot", "speed"): [["plot", "speed", "run", "--batch-sizes", "2", "--runs", "1", "--output", "p.png"]],
    ("plot", "top-k"): [["plot", "top-k", "run", "latent", "--trained", "--output", "p.png"]],
    ("plot", "trade-off"): [["plot", "trade-off", "latent", "--key", "chrF", "--output", "p.png"]],
}
RECIPE = ["--out", "new", *CORPUS, "--set", "vocabulary_size=40", "max_tokens=20"]

GOLD = ["--bitext", "text/test.bitext", "--gold", "text/test.gold"]


def recipe_lines(name):
    """Good command lines of a recipe: one text, and what else its paper has."""
    of_paper = recipe(name).RECIPE
    # All systems of the league would train for minutes.
    lines = [[*RECIPE, *(("--systems", *of_paper.smoke[:1]) if of_paper.smoke else ())]]
    if of_paper.pairs:
        lines.append(["--pair", list(of_paper.pairs)[-1], *RECIPE])
    # Most have alignments of a few systems in their tables, if of any.
    aligned = [entry for entry in of_paper.entries if "gold" in of_paper.splits(entry, of_paper.first_pair)]
    if aligned:
        lines.append([*GOLD, "--systems", aligned[0], *RECIPE])
    return lines


def good_lines():
    """Every good command line, `(program, arguments)`."""
    commands = [("attn-zoo", line) for lines in COMMANDS.values() for line in lines]
    return commands + [(path.stem, line) for path in RECIPES for line in recipe_lines(path.stem)]

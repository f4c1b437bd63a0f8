"""`attn-zoo demo`: Bahdanau's attention against a uniform-attention baseline, from raw text to pictures."""

import argparse
import logging
from pathlib import Path

from keras_attn_zoo.commands.options import add_precision_argument, backend_of_run
from keras_attn_zoo.commands.parser import Command, Parser

NAMES = ("bahdanau", "uniform")
SAMPLES = 4
_LOG = logging.getLogger(__name__)


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("demo-run"),
        help="output folder; an interrupted demonstration in it is resumed (default: %(default)s)",
    )
    add_precision_argument(parser, "auto")


def run(options: argparse.Namespace) -> None:
    """Train both systems, print the table and samples, draw; resume an interrupted demonstration."""
    from keras_attn_zoo.analysis.pictures import plot_curves
    from keras_attn_zoo.experiments.corpora import embedded_corpus
    from keras_attn_zoo.experiments.curves import curves
    from keras_attn_zoo.experiments.drawing import draw_run
    from keras_attn_zoo.experiments.loading import load_translator
    from keras_attn_zoo.experiments.named_systems import SYSTEMS, small
    from keras_attn_zoo.experiments.scoring import score_run
    from keras_attn_zoo.experiments.table import results_table
    from keras_attn_zoo.experiments.training import train_system
    from keras_attn_zoo.files import write_text

    out = options.out
    _LOG.info("generating the corpus")
    corpus = embedded_corpus(train=7000, valid=250, test=250, max_words=16)
    translators, test = {}, corpus.test
    for name in NAMES:
        system = small(SYSTEMS[name]).override(precision=options.precision)
        folder = train_system(system, corpus, out / name, out / "data", resume=True)
        translators[folder.path] = load_translator(folder.path)
        if "test" not in folder.read_scores():
            score_run(folder.path, translators[folder.path], test)
    table = results_table(translators)
    write_text(out / "results.md", table + "\n")
    print(table)

    found = {}
    for path, translator in translators.items():
        samples = test.encoded(*translator.preprocessor.subwords).select(range(SAMPLES))
        found[path.name] = translator.translate(samples)
    for i, (source, reference) in enumerate(test.pairs[:SAMPLES]):
        print(f"\n  source     {source}\n  reference  {reference}")
        for name, hypotheses in found.items():
            print(f"  {name:<10} {hypotheses[i][0].text}")

    pictures = [out / "curves.png"]
    plot_curves(curves(translators), pictures[0], ylabel="validation loss", title="Validation loss")
    for path, translator in translators.items():
        pictures += draw_run(path, translator, test)
    print("\npictures:\n" + "\n".join(f"  {path}" for path in pictures))


COMMAND = Command(
    "demo",
    "train Bahdanau's attention and a uniform-attention baseline on a built-in corpus; score, translate and draw",
    ["attn-zoo demo", "attn-zoo demo --out my-demo --backend torch"],
    add_arguments,
    run,
    farewell="Run the demonstration again to resume it.",
    job="training",
    own_backend=lambda options: backend_of_run(options.out / name for name in NAMES),
)

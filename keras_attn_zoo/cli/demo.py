"""`attn-zoo demo`: published presets translate, then Bahdanau's attention is trained beside a uniform baseline."""

import argparse
import logging
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attn_zoo.cli.options import add_precision_argument, backend_of_run
from keras_attn_zoo.cli.parser import Command, Parser
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import write_text
from keras_attn_zoo.support.locks import locked

PRESETS = ("transformer_tatoeba_de_en", "bahdanau_tatoeba_de_en", "transformer_latent_tatoeba_de_en")
# What German orders differently: verbs in two parts, verbs at the end, adverbs before the verb.
# None of them is in the text that the presets were trained on.
SENTENCES = (
    "Er ruft den alten Freund an.",
    "Gestern hat meine Schwester ein Buch gekauft.",
    "Warum hast du mir nicht gesagt, dass du krank bist?",
    "Ich weiß nicht, wann der nächste Zug fährt.",
    "Wir müssen heute früher nach Hause gehen.",
)
NAMES = ("bahdanau", "uniform")
# A small lexicon and short sentences, from which a small system learns to translate within a minute.
CORPUS: dict[str, Any] = {"train": 7000, "valid": 250, "test": 250, "max_words": 10, "words_per_kind": 6}
SETTINGS: dict[str, Any] = {
    "vocabulary_size": 1000,
    "epochs": 7,
    "schedule": "cosine",
    "warmup_steps": 60,
    "learning_rate": 5e-3,
    # The attention of a state that knows the word before is easier to read: it is not a word early or late.
    "attention_query": "current_state",
    # The last state of a backward encoder has just read the first word: the decoder need not attend to it.
    "bidirectional": False,
}
SAMPLES = 4
# The columns of the table that are printed; the file has all.
COLUMNS = ("BLEU", "AER", "perplexity", "training", "parameters")
# Seconds that downloads may take, after which the training begins.
PATIENCE = 60.0
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
    """Translate with presets and write a page; train both systems, print a table and samples, draw."""
    with locked(options.out):
        translate(options.out / "presets.html", options.precision)
        train(options.out, options.precision)


def translate(path: Path, precision: str) -> None:
    """Translate with the published presets that can be loaded, and write the page that shows how."""
    from keras_attn_zoo.presets.preset_registry import find_preset, local_folder
    from keras_attn_zoo.runs.loading import load_translator
    from keras_attn_zoo.runs.precision import resolve
    from keras_attn_zoo.support.fetching import DownloadError
    from keras_attn_zoo.translators.exploration import explore

    _LOG.info("translating with published presets")
    translators, refused, deadline, failed = {}, {}, time.monotonic() + PATIENCE, None
    for name in PRESETS:
        try:
            if failed is not None and local_folder(name) is None:
                raise failed
            preset = find_preset(name, deadline)
            # Reported once, and only if there is a preset.
            precision = resolve(precision)
            translators[name] = load_translator(preset, precision=precision)
        except DownloadError as error:
            # The others would wait for the same server.
            failed, refused[name] = error, str(error)
        except UserError as error:
            refused[name] = str(error)
    if not translators:
        _LOG.info("continuing without published presets: %s", refused[PRESETS[0]])
        return
    for name, reason in refused.items():
        _LOG.info("continuing without %s: %s", name, reason)
    page = explore(translators, SENTENCES)
    for sentence, results in zip(SENTENCES, page.results, strict=True):
        found = {name: result.paths[0].text for name, result in zip(translators, results, strict=True)}
        _print_sample({"source": sentence, **found})
    page.save(path)
    print(f"\nTheir attention and search, for your browser:\n  {path}\n", flush=True)


def train(out: Path, precision: str) -> None:
    """Train, score and draw both systems, print the table and samples; resume an interrupted demonstration."""
    from keras_attn_zoo.corpora.corpus import embedded_corpus
    from keras_attn_zoo.data.text_files import read_lines
    from keras_attn_zoo.runs.curves import curves
    from keras_attn_zoo.runs.finished_run import score_and_draw
    from keras_attn_zoo.runs.named_systems import SYSTEMS, small
    from keras_attn_zoo.runs.training import train_system
    from keras_attn_zoo.studies import table
    from keras_attn_zoo.studies.tabular import markdown_table
    from keras_attn_zoo.viewing.attention_pictures import plot_curves

    _LOG.info("generating a corpus; training %s on it", " and ".join(NAMES))
    corpus = embedded_corpus(**CORPUS)
    runs, pictures, scores, found = [], [out / "curves.png"], {}, {}
    for name in NAMES:
        system = small(SYSTEMS[name]).override(**SETTINGS, precision=precision)
        folder = train_system(system, corpus, out / name, out / "data", resume=True)
        runs.append(folder.path)
        pictures += score_and_draw(folder.path, corpus.test, keep_scores=True)
        scores[name] = folder.read_scores()["test"]
        found[name] = list(read_lines(folder.hypotheses("test")))
    rows = [
        [name, *(table.shown(column, table.number(column, one)) for column in COLUMNS)] for name, one in scores.items()
    ]
    print("\n" + markdown_table(["system", *COLUMNS], rows))
    for (source, reference), *lines in zip(corpus.test.pairs[:SAMPLES], *found.values(), strict=False):
        _print_sample({"source": source, "reference": reference, **dict(zip(found, lines, strict=True))})

    write_text(out / "results.md", table.results_table(table.read_results(runs)).markdown() + "\n")
    plot_curves(curves(runs), pictures[0], ylabel="validation loss", title="Validation loss")
    lines = ["\nAll scores and times:", f"  {out / 'results.md'}", "Pictures:", *(f"  {path}" for path in pictures)]
    print(*lines, sep="\n")
    models = " ".join(shlex.quote(str(path)) for path in runs)
    print(f"Explore both:\n  attn-zoo explore {models} --output {shlex.quote(str(out / 'page.html'))}")


def _print_sample(lines: Mapping[str, str]) -> None:
    width = max(map(len, lines))
    print("\n" + "\n".join(f"  {name:<{width}}  {text}" for name, text in lines.items()))


COMMAND = Command(
    "demo",
    "translate with published presets; then train Bahdanau's attention and a uniform-attention baseline on a built-in "
    "corpus, score, translate and draw",
    ["attn-zoo demo", "attn-zoo demo --out my-demo --backend torch"],
    add_arguments,
    run,
    interrupt_hint="Run the demonstration again to resume it.",
    job="training",
    own_backend=lambda options: backend_of_run(options.out / name for name in NAMES),
    resumes=True,
)

"""The demonstration: Bahdanau's attention against its uniform twin, from raw text to pictures."""

from pathlib import Path

from keras_attn_zoo.analysis.pictures import plot_curves
from keras_attn_zoo.experiments.corpora import embedded_corpus
from keras_attn_zoo.experiments.curves import curves
from keras_attn_zoo.experiments.drawing import draw_run
from keras_attn_zoo.experiments.loading import load_translator
from keras_attn_zoo.experiments.scoring import score_run
from keras_attn_zoo.experiments.systems import SYSTEMS, small
from keras_attn_zoo.experiments.table import results_table
from keras_attn_zoo.experiments.training import train_system
from keras_attn_zoo.files import write_text

NAMES = ("bahdanau", "uniform")
SAMPLES = 4


def run_demo(out, say, show_progress):
    """Train both systems, print table and samples, draw; a demonstration that was stopped goes on.

    Args:
        out: folder of the two runs.
        say: function of a line of text that tells what is being done.
        show_progress: function of a number of sentences to a function `(what, done)`.
    """
    out = Path(out)
    say("making the corpus")
    corpus = embedded_corpus(train=7000, valid=250, test=250, max_words=16)
    translators, test = {}, corpus.splits.test
    for name in NAMES:
        run = train_system(small(SYSTEMS[name]), corpus, out / name, out / "data", resume=True, say=say)
        translators[run.path] = load_translator(run.path)
        if "test" not in run.read_scores():
            score_run(run.path, translators[run.path], test, corpus.gold, progress=show_progress(len(test)))
    table = results_table(translators)
    write_text(out / "results.md", table + "\n")
    print(table)

    pairs = test[:SAMPLES]
    sources = [source for source, _ in pairs]
    found = {folder.name: translator.translate(sources) for folder, translator in translators.items()}
    for i, (source, reference) in enumerate(pairs):
        print(f"\n  source     {source}\n  reference  {reference}")
        for name, hypotheses in found.items():
            print(f"  {name:<10} {hypotheses[i][0].text}")

    pictures = [out / "curves.png"]
    plot_curves(curves(translators), pictures[0], ylabel="validation loss", title="Validation loss")
    for folder, translator in translators.items():
        pictures += draw_run(folder, translator, test, corpus.gold)
    print("\npictures:\n" + "\n".join(f"  {path}" for path in pictures))

"""The demonstration: Bahdanau's attention against its uniform twin, from raw text to pictures."""

from pathlib import Path

from keras_attn_zoo.analysis.pictures import plot_curves
from keras_attn_zoo.experiments.corpora import embedded_corpus
from keras_attn_zoo.experiments.run import curves, draw_run, load_translator, score_run, train_system
from keras_attn_zoo.experiments.systems import SYSTEMS, small
from keras_attn_zoo.experiments.table import results_table
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
    folders = []
    for name in NAMES:
        run = train_system(small(SYSTEMS[name]), corpus, out / name, out / "data", resume=True, say=say)
        if "test" not in run.read_scores():
            score_run(run.path, corpus.splits.test, corpus.gold, progress=show_progress(len(corpus.splits.test)))
        folders.append(run.path)
    table = results_table(folders)
    write_text(out / "results.md", table + "\n")
    print(table)

    pairs = corpus.splits.test[:SAMPLES]
    found = {folder.name: load_translator(folder).translate([source for source, _ in pairs]) for folder in folders}
    for i, (source, reference) in enumerate(pairs):
        print(f"\n  source     {source}\n  reference  {reference}")
        for name, hypotheses in found.items():
            print(f"  {name:<10} {hypotheses[i][0].text}")

    pictures = [out / "curves.png"]
    plot_curves(curves(folders), pictures[0], ylabel="validation loss", title="Validation loss")
    for folder in folders:
        pictures += draw_run(folder, corpus.splits.test, corpus.gold)
    print("\npictures:\n" + "\n".join(f"  {path}" for path in pictures))

"""Rosendahl and others: Recurrent Attention for the Transformer.

A base Transformer with all embeddings tied, its cross-attention replaced by each recurrent one in turn: the systems of
the paper's Table 2, and the other variants of its Table 1. Both are written to `tables.md` in `--out`; each of the
three language pairs is a run of this recipe with its own text and `--pair`.

Examples:
  python recipes/rosendahl2021.py --train train.ro train.en --out runs/rosendahl
  python recipes/rosendahl2021.py --scale paper --out runs/rosendahl
  python recipes/rosendahl2021.py --scale paper --pair tr-en --out runs/rosendahl
  python recipes/rosendahl2021.py --train train.de.gz train.en.gz --valid val.de.gz val.en.gz \\
      --test test.de.gz test.en.gz --out runs/multi30k --systems transformer weight-subtraction \\
      --set width=256 num_heads=4 ffn_dim=1024 encoder_layers=3 decoder_layers=3 vocabulary_size=8000

How the paper is read:
- The paper names the base configuration, its batch and its dropout. The rest is that of the base Transformer: a
  learning rate of 7e-4 after 4,000 steps of warm-up, falling with the inverse square root of the step, label smoothing
  0.1. Unlike there, gradients are clipped at a norm of 1.0, and Adam's second moment decays by 0.999, not 0.98.
- The paper does not say how long it trains: here at most 30 epochs, stopping after eight epochs without a better
  validation loss.
- The catalogue's corpora have 610,320, 205,756 and 231,619 pairs, the paper's 612,000, 208,000 and 227,000.
- Dropout is 0.2 for Romanian-English, and 0.3 for the paper's other two tasks, as in the paper.
- Batches hold 9,600 tokens of the longer side, padding included, for all systems; some of the paper's recurrent ones
  had to use 7,600.
- The joint vocabulary has 20,000 subwords, for English-Italian 8,000; the paper has as many merges, of whose text it
  says nothing else. Here it is plain text, and pairs with more than 100 subwords on a side are not trained on.
- Search uses twelve beams and a length penalty of 1.0; the paper does not say how it searches.
- The best checkpoint has the lowest validation loss, and at `--scale paper` the highest BLEU, as in the paper.
- The training time in Table 2 is that of a step, all of which have batches of one size here; the paper's is that of a
  checkpoint, whose recurrent systems had smaller batches.
- TER is sacrebleu's, case-sensitive; the paper's is TERCom's, with unspecified options.
"""

import sys

from keras_attn_zoo.cli.recipe import run_recipe
from keras_attn_zoo.runs.named_systems import TRANSFORMER_ATTENTIONS, transformer
from keras_attn_zoo.runs.settings import DataSettings, SearchSettings
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.paper_tables import BETTER, LEVEL, WORSE, Contrast, Finding, Line, Pair, PaperTable

DATA = DataSettings(vocabulary_size=20000, joint=True, sentences_per_batch=None, tokens_per_batch=9600)
SEARCH = SearchSettings(beams=12, length_penalty=1.0)
# BLEU, TER and training time for Romanian-English, newstest2016; of three systems, the paper has none.
PAPER = {
    "transformer": {"BLEU": "34.2", "TER": "53.5", "training": "1.0x"},
    "previous-context": {"BLEU": "33.8", "TER": "53.8", "training": "5.6x"},
    "previous-weight": {"BLEU": "34.3", "TER": "53.4", "training": "6.0x"},
    "accumulated-weight": {"BLEU": "34.2", "TER": "53.4", "training": "6.1x"},
    "expanded-key-value-1": {"BLEU": "34.0", "TER": "53.6", "training": "7.5x"},
    "energy-accumulation": {"BLEU": "34.2", "TER": "53.2", "training": "5.4x"},
    "weight-subtraction": {"BLEU": "34.3", "TER": "53.2", "training": "7.9x"},
    **{f"expanded-key-value-{variant}": {} for variant in (2, 3, 4)},
}
BASELINE = "transformer"

# As printed: figures of each row in the order of the columns.
TABLE_1 = PaperTable(
    "Table 1",
    "Performance of the different variants of the expand key-value lists approach",
    columns=[Line(metric, split="valid", measure=metric) for metric in ("BLEU", "TER")],
    rows=[
        Line("Baseline", entry="transformer", figures="35.7 51.4"),
        Line("Expand key-value list, variant 1 (Eq. 5)", entry="expanded-key-value-1", figures="35.9 51.1"),
        Line("Expand key-value list, variant 2 (Eq. 6)", entry="expanded-key-value-2", figures="35.9 51.1"),
        Line("Expand key-value list, variant 3 (Eq. 7)", entry="expanded-key-value-3", figures="35.7 51.5"),
        Line("Expand key-value list, variant 4 (Eq. 8)", entry="expanded-key-value-4", figures="33.8 53.2"),
    ],
    baseline=BASELINE,
    text="the development set of the Ro→En task",
)
TESTS = {"ro-en": "Ro→En newstest2016", "tr-en": "Tr→En newstest2018", "en-it": "En→It TED tst2010"}
TABLE_2 = PaperTable(
    "Table 2",
    "Performance comparison of the approaches using additional context information from the previous time steps",
    columns=[
        *(
            Line(metric, pair=pair, measure=metric, text=test)
            for pair, test in TESTS.items()
            for metric in ("BLEU", "TER")
        ),
        Line("Train Time", measure="training time of a step, relative"),
    ],
    rows=[
        Line("current state-of-the-art", figures="34.5 – 20.2 – 28.5 – –"),
        Line("Baseline", entry="transformer", figures="34.2 53.5 19.6 70.2 28.9 58.5 1.0x"),
        Line("Concat prev context (Eq. 2)", entry="previous-context", figures="33.8 53.8 19.5 70.3 28.9 58.3 5.6x"),
        Line("Concat prev weight (Eq. 3)", entry="previous-weight", figures="34.3 53.4 19.8 70.2 29.1 58.0 6.0x"),
        Line(
            "Concat prev accum weight (Eq. 4)",
            entry="accumulated-weight",
            figures="34.2 53.4 19.7 70.3 29.1 58.3 6.1x",
        ),
        Line(
            "Expand key-value list (Eq. 5)",
            entry="expanded-key-value-1",
            figures="34.0 53.6 19.8 70.5 28.9 58.5 7.5x",
        ),
        Line(
            "Accumulation of the energies (Eq. 9)",
            entry="energy-accumulation",
            figures="34.2 53.2 19.6 70.2 28.7 58.7 5.4x",
        ),
        Line("Subtract the weights (Eq. 10)", entry="weight-subtraction", figures="34.3 53.2 19.5 71.2 28.7 58.8 7.9x"),
    ],
    baseline=BASELINE,
    notes=["current state-of-the-art: Kasai et al. (2020), Marie et al. (2018) and Lakew et al. (2017), by pair"],
)

RECURRENT = [name for name, paper in PAPER.items() if "training" in paper and name != BASELINE]
EXPANDED = [f"expanded-key-value-{variant}" for variant in (1, 2, 3, 4)]
FINDINGS = (
    Finding(
        "No recurrent cross-attention outperforms the Transformer by a significant amount",
        "§5.2, Table 2",
        (LEVEL, WORSE),
        [Contrast(name, BASELINE, measure) for name in RECURRENT for measure in ("BLEU", "TER")],
        significant=True,
    ),
    Finding(
        "All of them slow the training down by at least a factor of 5",
        "§5.2, Table 2",
        (WORSE,),
        [Contrast(name, BASELINE, "training time of a step, relative") for name in RECURRENT],
        margin=4.0,
    ),
    Finding(
        "Of the expanded keys and values, the first two variants are slightly better than the Transformer on the "
        "development set",
        "§5.1, Table 1",
        (BETTER,),
        [Contrast(name, BASELINE, split="valid") for name in EXPANDED[:2]],
    ),
    Finding(
        "The first, with the matrices of the other keys and values, is as good as the second, which has its own",
        "§5.1, Table 1",
        (LEVEL, BETTER),
        [Contrast(EXPANDED[0], EXPANDED[1], split="valid")],
    ),
    Finding(
        "The third, which sees the context of its own head alone, is slightly worse",
        "§5.1, Table 1",
        (WORSE,),
        [Contrast(EXPANDED[2], EXPANDED[0], split="valid")],
    ),
    Finding(
        "The fourth, which does not transform the value, is significantly worse",
        "§5.1, Table 1",
        (WORSE,),
        [Contrast("expanded-key-value-4", BASELINE, split="valid")],
    ),
    Finding(
        "On the development set, the methods of §3.4 show small improvements",
        "§5.2",
        (BETTER,),
        [Contrast(name, BASELINE, split="valid") for name in ("energy-accumulation", "weight-subtraction")],
    ),
    Finding(
        "These mostly vanish on the test set",
        "§5.2, Table 2",
        (LEVEL,),
        [Contrast(name, BASELINE) for name in ("energy-accumulation", "weight-subtraction")],
    ),
)


def entry(name, paper):
    """One of the paper's systems."""
    places, source = TRANSFORMER_ATTENTIONS[name]
    system = transformer(name, source, dropout=0.2, data=DATA, search=SEARCH, **places)
    return Entry(system, paper, None if name == BASELINE else BASELINE)


RECIPE = Recipe(
    title="Rosendahl: recurrent cross-attention",
    entries={name: entry(name, paper) for name, paper in PAPER.items()},
    default=tuple(name for name, paper in PAPER.items() if "training" in paper),
    pictures={
        "curves.png": f"curves --difference --over-seeds {BASELINE} {' '.join(RECURRENT)}",
        "curves-expanded.png": f"curves --difference --over-seeds {BASELINE} {' '.join(EXPANDED)}",
    },
    published={"best_by": "bleu", "bleu_sentences": 10000},
    about="A Transformer's cross-attention does not know where it looked before; that of earlier alignment "
    "models did. The paper gives it this memory in six ways, feeding back the previous context or "
    "weights, and asks whether translation gains by it.",
    findings=FINDINGS,
    captions={
        "curves.png": "Validation loss over training steps, how far above the Transformer's",
        "curves-expanded.png": "The same for the variants of expanded keys and values",
    },
    tables=(TABLE_1, TABLE_2),
    pairs={
        "ro-en": Pair(corpus="wmt16-ro-en"),
        "tr-en": Pair({"dropout": 0.3}, corpus="wmt18-tr-en"),
        "en-it": Pair({"dropout": 0.3, "vocabulary_size": 8000}, corpus="iwslt17-en-it"),
    },
    note="In brackets: the paper's own figures, for WMT 2016 Romanian-English, 612,000 sentence pairs, newstest2016; "
    "training time relative to its baseline.",
)

if __name__ == "__main__":
    sys.exit(run_recipe(RECIPE, __doc__))

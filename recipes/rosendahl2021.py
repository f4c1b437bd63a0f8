"""Rosendahl and others: Recurrent Attention for the Transformer.

A base Transformer with all embeddings tied, its cross-attention replaced by each recurrent one in turn: the systems of
the paper's Table 2, and the other variants of its Table 1.

Examples:
  python recipes/rosendahl2021.py --train train.ro train.en --out runs/rosendahl
  python recipes/rosendahl2021.py --scale paper --corpus wmt16-ro-en --out runs/wmt
  python recipes/rosendahl2021.py --train train.de.gz train.en.gz --valid val.de.gz val.en.gz \\
      --test test.de.gz test.en.gz --out runs/multi30k --systems transformer weight-subtraction \\
      --set width=256 num_heads=4 ffn_dim=1024 encoder_layers=3 decoder_layers=3 vocabulary_size=8000

How the paper is read:
- The paper names the base configuration, its batch and its dropout. The rest is that of the base Transformer: a
  learning rate of 7e-4 after 4,000 steps of warm-up, falling with the inverse square root of the step, label smoothing
  0.1. Unlike there, gradients are clipped at a norm of 1.0, and Adam's second moment decays by 0.999, not 0.98.
- The paper does not say how long it trains: here at most 30 epochs, stopping after eight epochs without a better
  validation loss.
- Dropout is 0.2, as for Romanian-English; the paper has 0.3 for its other two tasks (`--set dropout=0.3`),
  `--corpus wmt18-tr-en` and `--corpus iwslt17-en-it`.
- Batches hold 9,600 tokens of the longer side, padding included, for all systems; some of the paper's recurrent ones
  had to use 7,600.
- The joint vocabulary has 20,000 subwords; the paper has 20,000 merges, of whose text it says nothing else. Here it is
  plain text, and pairs with more than 100 subwords on a side are not trained on.
- Search uses twelve beams and a length penalty of 1.0; the paper does not say how it searches.
- The best checkpoint has the lowest validation loss; the paper's has the highest BLEU (`--set best_by=bleu`).
- TER is sacrebleu's, case-sensitive; the paper's is TERCom's, with unspecified options.
"""

import sys

from keras_attn_zoo.commands.recipe import run_recipe
from keras_attn_zoo.experiments.comparison import Entry, Recipe
from keras_attn_zoo.experiments.named_systems import TRANSFORMER_ATTENTIONS, transformer
from keras_attn_zoo.experiments.settings import DataSettings, SearchSettings

DATA = DataSettings(vocabulary_size=20000, joint=True, sentences_per_batch=None, tokens_per_batch=9600)
SEARCH = SearchSettings(beams=12, length_penalty=1.0)
# BLEU, TER and training time for Romanian-English, newstest2016; Table 1 has variants only on the development set.
PAPER = {
    "transformer": {"BLEU": "34.2", "TER": "53.5", "training": "1.0x"},
    "previous-context": {"BLEU": "33.8", "TER": "53.8", "training": "5.6x"},
    "previous-weight": {"BLEU": "34.3", "TER": "53.4", "training": "6.0x"},
    "accumulated-weight": {"BLEU": "34.2", "TER": "53.4", "training": "6.1x"},
    "expanded-key-value-1": {"BLEU": "34.0", "TER": "53.6", "training": "7.5x"},
    "energy-accumulation": {"BLEU": "34.2", "TER": "53.2", "training": "5.4x"},
    "weight-subtraction": {"BLEU": "34.3", "TER": "53.2", "training": "7.9x"},
    "expanded-key-value-2": {"BLEU": "35.9 dev", "TER": "51.1 dev"},
    "expanded-key-value-3": {"BLEU": "35.7 dev", "TER": "51.5 dev"},
    "expanded-key-value-4": {"BLEU": "33.8 dev", "TER": "53.2 dev"},
}
BASELINE = "transformer"


def entry(name, paper):
    """One of the paper's systems."""
    places, source = TRANSFORMER_ATTENTIONS[name]
    system = transformer(name, source, dropout=0.2, data=DATA, search=SEARCH, **places)
    return Entry(system, paper, None if name == BASELINE else BASELINE)


RECIPE = Recipe(
    title="Rosendahl: recurrent cross-attention",
    entries={name: entry(name, paper) for name, paper in PAPER.items()},
    default=tuple(name for name, paper in PAPER.items() if "training" in paper),
    pictures={"curves.png": f"curves {' '.join(PAPER)}"},
    note="In brackets: the paper's own figures, for WMT 2016 Romanian-English, 612,000 sentence pairs, newstest2016 "
    "(those marked dev: the development set); training time relative to its baseline.",
)

if __name__ == "__main__":
    sys.exit(run_recipe(RECIPE, __doc__))

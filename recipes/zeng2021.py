"""Zeng and others: Recurrent Attention for Neural Machine Translation (RAN).

A base Transformer whose self-attention, in the encoder, the decoder or both, is replaced by learned matrices that a
shared transition refines from layer to layer; compared with hard-coded Gaussian attention and the Random Synthesizer,
with the ablations of the paper's Tables 2 and 3, and with its other tasks, summarization and dialogue (Table 4).

Examples:
  python recipes/zeng2021.py --train train.en train.de --out runs/zeng
  python recipes/zeng2021.py --train train.de.gz train.en.gz --valid val.de.gz val.en.gz \\
      --test test.de.gz test.en.gz --out runs/multi30k --systems transformer ran-all \\
      --set width=256 num_heads=4 ffn_dim=1024 encoder_layers=3 decoder_layers=3 vocabulary_size=8000
  python recipes/zeng2021.py --task summarization --train articles.txt summaries.txt --out runs/summaries

How the paper is read:
- The transition is normalised, which the authors' released code leaves out.
- The ablation without normalisation and residual connection leaves both out at once, as its one row in Table 3 says.
- Optimisation is that of the base Transformer, which the paper names without details: a learning rate of 7e-4
  after 4,000 steps of warm-up, falling with the inverse square root of the step, label smoothing 0.1, batches of 9,600
  tokens, padding included. Unlike there, gradients are clipped at a norm of 1.0, and Adam's second moment decays by
  0.999, not 0.98. The paper trains 250,000 steps, as does `--scale paper`; otherwise it is at most 30 epochs here,
  stopping after eight epochs without a better validation loss.
- All embeddings are tied; the paper says that the vocabulary is joint. Its size is 40,000.
- Only RAN has the attention dropout of 0.2; the other mechanisms have none.
- The learned matrices have 320 positions, 1.25 times the 256 subwords that a training sentence may have; the paper does
  not say how many. Its own limit of 256 counts words.
- The length penalty is that of Wu et al. 2016; the paper gives its exponent, 0.6.
- The best checkpoint has the lowest validation loss; the paper does not say how it chooses its own.
- For the Transformer, the paper's Table 1 has a SacreBLEU of 27.0, and its Table 2, on positions, 27.12.

How its section on other tasks is read, which is short:
- It gives no lengths. Articles are cut to 400 tokens and summaries to 100, the numbers of words that are usual for
  CNN/Daily Mail. Of a dialogue, the last 256 tokens are read. Matrices have 1.25 times as many positions.
- Summaries: base models, 300,000 steps of 128 articles. Its ROUGE-L may be what is ROUGE-Lsum here, as it mostly is
  where summaries have several sentences.
- Dialogue: 20,000 steps of a "SMALL Transformer", which it does not describe: here two layers of width 256 with four
  heads. Batches have 128 dialogues too. The subwords are of the text's own, 30,000, in place of BERT's 30,522.
- Its scores of dialogues are those of NLG-Eval. METEOR here has neither synonyms nor paraphrases, ROUGE-L is the plain
  F1, of stems, and BLEU splits words as SacreBLEU does: they are comparable among themselves alone.
"""

import sys

from keras_attn_zoo.commands.recipe import run_recipe
from keras_attn_zoo.experiments.comparison import Entry, Recipe
from keras_attn_zoo.experiments.named_systems import RAN, TRANSFORMER_ATTENTIONS, transformer
from keras_attn_zoo.experiments.settings import DataSettings, SearchSettings
from keras_attn_zoo.experiments.tasks import settings_of_task

DATA = DataSettings(
    vocabulary_size=40000, joint=True, max_words=256, max_tokens=256, sentences_per_batch=None, tokens_per_batch=9600
)
SEARCH = SearchSettings(beams=4, length_penalty=0.6)
FIXED = {**RAN, "trainable": False}
BARE = {**RAN, "normalize": False, "residual": False}

SYSTEMS = {
    name: TRANSFORMER_ATTENTIONS[name][0]
    for name in ("transformer", "gaussian", "synthesizer", "ran-e", "ran-d", "ran-all")
}
SYSTEMS |= {
    "no-encoder-positions": {"encoder_positions": "none"},
    "no-encoder-positions-ran-e": {"encoder_positions": "none", "encoder_attention": RAN},
    "no-decoder-positions": {"decoder_positions": "none"},
    "no-decoder-positions-ran-d": {"decoder_positions": "none", "decoder_attention": RAN},
    "ran-all-fixed": {"encoder_attention": FIXED, "decoder_attention": FIXED},
    "ran-all-bare": {"encoder_attention": BARE, "decoder_attention": BARE},
}
# SacreBLEU of English-German, newstest2014: Tables 1, 2 and 3.
PAPER = {
    "transformer": "27.0",
    "gaussian": "26.3",
    "synthesizer": "26.5",
    "ran-e": "26.8",
    "ran-d": "27.5",
    "ran-all": "27.0",
    "no-encoder-positions": "12.90",
    "no-encoder-positions-ran-e": "26.80",
    "no-decoder-positions": "27.07",
    "no-decoder-positions-ran-d": "27.40",
    "ran-all-fixed": "26.80",
    "ran-all-bare": "26.50",
}
# The ablations of Table 3 are of RAN in both places; everything else is compared with the Transformer.
BASELINES = {"transformer": None, "ran-all-fixed": "ran-all", "ran-all-bare": "ran-all"}


def entry(name, places):
    """One of the paper's systems."""
    system = transformer(name, "Zeng, sections 3 and 4", data=DATA, search=SEARCH, **places)
    return Entry(system, {"BLEU": PAPER[name]}, BASELINES.get(name, "transformer"))


# Table 4, by task: its columns, the systems' figures, what is trained, and for how long.
COLUMNS = {"summarization": ("ROUGE-1", "ROUGE-2", "ROUGE-L"), "dialogue": ("BLEU", "ROUGE-L", "METEOR")}
TABLE_4 = {
    "summarization": {
        "transformer": ("39.07", "17.30", "36.00"),
        "synthesizer": ("36.99", "15.78", "34.07"),
        "ran-e": ("39.55", "17.73", "36.62"),
        "ran-d": ("37.59", "16.41", "34.73"),
        "ran-all": ("38.25", "17.10", "35.31"),
    },
    "dialogue": {
        "transformer": ("3.12", "16.54", "8.05"),
        "synthesizer": ("2.87", "14.82", "7.74"),
        "ran-e": ("3.47", "16.54", "8.33"),
        "ran-d": ("3.30", "16.32", "8.03"),
        "ran-all": ("3.50", "16.66", "8.21"),
    },
}
BATCHES = {"sentences_per_batch": 128, "tokens_per_batch": None}
SETTINGS = {
    "summarization": BATCHES,
    "dialogue": {
        **BATCHES,
        **{"vocabulary_size": 30000, "width": 256, "num_heads": 4, "ffn_dim": 1024},
        **{"encoder_layers": 2, "decoder_layers": 2},
    },
}
STEPS = {"summarization": "300000steps", "dialogue": "20000steps"}
TEXTS = {"summarization": "CNN/Daily Mail", "dialogue": "PersonaChat"}


def task_recipe(task):
    """The comparison on another task."""

    def entry(name, figures):
        system = transformer(name, "Zeng, section 5", data=DATA, search=SEARCH, **SYSTEMS[name])
        system = system.override(**settings_of_task(task), **SETTINGS[task])
        baseline = None if name == "transformer" else "transformer"
        return Entry(system, dict(zip(COLUMNS[task], figures, strict=True)), baseline)

    return Recipe(
        title=f"Zeng: recurrent attention (RAN), {task}",
        entries={name: entry(name, figures) for name, figures in TABLE_4[task].items()},
        default=tuple(TABLE_4[task]),
        published={"budget": STEPS[task], "patience": None},
        pictures={
            "entropy.png": "entropy transformer synthesizer ran-all",
            "by-target-length.png": "by-length transformer ran-e ran-d ran-all --side target",
        },
        note=f"In brackets: the paper's own figures, for {TEXTS[task]}.",
    )


RECIPE = Recipe(
    title="Zeng: recurrent attention (RAN)",
    entries={name: entry(name, places) for name, places in SYSTEMS.items()},
    published={"budget": "250000steps", "patience": None},
    default=("transformer", "gaussian", "synthesizer", "ran-e", "ran-d", "ran-all"),
    pictures={
        "speed-by-batch.png": "speed transformer ran-all --by batch --sentences 200",
        "speed-by-beam.png": "speed transformer ran-all --by beam --sentences 200",
        "entropy.png": "entropy transformer synthesizer ran-all",
        "weights-encoder.png": "weights transformer synthesizer ran-all --layers 1 3 6 --places encoder",
        "weights-decoder.png": "weights transformer synthesizer ran-all --layers 1 3 6 --places decoder",
        "matrices.png": "matrices ran-all",
        "divergence.png": "divergence transformer synthesizer ran-all",
        "by-source-length.png": "by-length transformer ran-e ran-d ran-all --side source",
        "by-target-length.png": "by-length transformer ran-e ran-d ran-all --side target",
    },
    tasks={task: task_recipe(task) for task in TABLE_4},
    note="In brackets: the paper's own SacreBLEU, for WMT 2014 English-German, 4.5 million sentence pairs, "
    "newstest2014, beam 4, length penalty 0.6.",
)

if __name__ == "__main__":
    sys.exit(run_recipe(RECIPE, __doc__))

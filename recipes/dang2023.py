"""Dang: Comparison of Attention Functions in NMT.

Bahdanau's versus Luong's attention in an RNN translator of two layers and width 512, and multi-head versus average
attention in a base Transformer, with the same data, optimiser and number of steps. Its statistics, and BLEU after each
quarter of the steps, are written to `tables.md` in `--out`; the lengths of the sentences, and loss and accuracy by
step, are drawn there.

Examples:
  python recipes/dang2023.py --train tatoeba.tsv --out runs/dang
  python recipes/dang2023.py --scale paper --out runs/tatoeba
  python recipes/dang2023.py --train train.tsv.gz --valid valid.tsv.gz --test test.tsv.gz --out runs/dang \\
      --systems bahdanau luong --set epochs=5

How the paper is read (it used OpenNMT-py and says little about what was left at the toolkit's defaults):
- `--corpus tatoeba-en-de` is a later release than the paper's, which it does not name, and split otherwise: no sentence
  of the test text is in the training text.
- `average` has the gate but no network, as in that toolkit; `average-without-gate` is the formula as the paper prints
  it, with a network but no gate; `average-with-network` has both, as in Zhang et al., who proposed it.
- Luong's attention is the "general" one, as the heading of the paper's section 2.4 says. The formula below it is "dot",
  see `luong-dot`. Its learning rate halves from step 16,000 on. `luong-scaled` divides energies by the square root
  of the state's width, as multi-head attention does; the paper does not.
- Bahdanau's attention is queried by the previous state, as in the paper's section 2.3. Both RNNs have input feeding and
  a tanh readout of state and context, as the toolkit's do by default.
- "Hidden state size 512" is the decoder's state here, and the encoder's in each direction, whose states are thus 1,024
  wide; the toolkit divides 512 between the directions.
- In the RNNs, dropout of 0.1 is applied to embeddings, between layers and to the readout, not to the attention; in the
  Transformers also to attention weights and hidden layers.
- 40,000 steps of 256 sentences, which `--scale paper` takes of any text, are 50 epochs of the paper's 204,653 training
  pairs. Validation takes place once per epoch, in the paper every 2,000 steps. The checkpoint with the best validation
  loss is scored; the paper's BLEU is that of the last one.
- The Transformers are trained at a learning rate of 0.001 after a warm-up of 4,000 steps, without which they do not
  train. They normalise after each part of a layer, like the base model; the toolkit normalises before.
- The paper does not say how it tokenises or filters its text, searches, smooths labels or clips gradients: here 8,000
  BPE subwords per side, five beams without a length penalty, no smoothing, a norm of at most 1.0.
- Perplexity and accuracy in `results.md` are measured on the test text; the paper's are the best on its validation set,
  as are those in `tables.md`.
- Its section 5 says that Luong's attention is better on the "test set"; by the figures of section 4.1, that is the
  training set. It concludes that average attention translates better, without saying by which of the scores in section
  4.3: the last ones are equal, and the highest are 42.7 and 42.6.
- BLEU by steps is of the test text, translated during training after a quarter, a half, three quarters and all of the
  planned steps, which are the paper's 10,000 to 40,000 at its own scale.
"""

import sys

from keras_attn_zoo.cli.recipe import run_recipe
from keras_attn_zoo.runs.named_systems import transformer
from keras_attn_zoo.runs.settings import DataSettings, SearchSettings, TrainingSettings
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.paper_tables import BETTER, LEVEL, WORSE, Contrast, Finding, Line, PaperTable

DATA = DataSettings(vocabulary_size=8000, sentences_per_batch=256)
TRAINING = TrainingSettings(epochs=50, validations_per_epoch=1, learning_rate=1e-3)
HALVING = TrainingSettings(
    epochs=50, validations_per_epoch=1, learning_rate=1e-3, schedule="halving", decay_start=16000, decay_every=4000
)
WARM_UP = TrainingSettings(
    epochs=50, validations_per_epoch=1, learning_rate=1e-3, schedule="inverse_sqrt", warmup_steps=4000
)
SEARCH = SearchSettings(beams=5, length_penalty=0.0)
BACKBONE = {
    "embedding_dim": 512,
    "hidden_dim": 512,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "input_feeding": True,
    "readout": "tanh",
    "readout_embedding": False,
    "dropout": 0.1,
}


def rnn(name, attention, query, training, **more):
    """One of the paper's RNN translators."""
    backbone = {**BACKBONE, "cross_attention": attention, "attention_query": query, **more}
    return System(name, backbone, data=DATA, training=training, search=SEARCH, source="Dang, section 3")


def of_transformer(name, attention):
    """One of the paper's Transformers."""
    options = {"tie_embeddings": "none", "attention_dropout": 0.1, "activation_dropout": 0.1}
    return transformer(
        name, "Dang, section 3", data=DATA, training=WARM_UP, search=SEARCH, decoder_attention=attention, **options
    )


LABELS = {"bahdanau": "Bahdanau", "luong": "Luong", "multi-head": "Multi-Head", "average": "Average"}
# As printed, in the order of the columns of `STATISTICS`, seconds last; of the test text, the paper has none.
PRINTED = {
    "bahdanau": "1.52 0.42 91.32 72.7389 4.72036 – – – 5221 619",
    "luong": "1.4 0.34 93.67 71.6772 5.23807 – – – 4675 584",
    "multi-head": "1.31 0.27 93.54 73.4132 4.90823 – – – 7154 858",
    "average": "1.33 0.28 93.24 73.0303 4.7336 – – – 6824 804",
}
STATISTICS = PaperTable(
    "Sections 4.1 and 4.2",
    "Statistics of Luong and Bahdanau attention, and of multi-head and average attention",
    columns=[
        Line("lowest perplexity", measure="lowest training perplexity", text="train set"),
        Line("lowest cross entropy loss", measure="lowest training loss", text="train set"),
        Line("highest accuracy", measure="highest training accuracy", text="train set"),
        Line("highest accuracy", measure="highest validation accuracy", text="valid set"),
        Line("lowest perplexity", measure="lowest validation perplexity", text="valid set"),
        Line("perplexity", measure="perplexity", text="test set"),
        Line("cross entropy loss", measure="loss", text="test set"),
        Line("accuracy", measure="accuracy", text="test set"),
        Line("training time", measure="training time"),
        Line("inference time", measure="translation time"),
    ],
    rows=[Line(label, entry=name, figures=PRINTED[name]) for name, label in LABELS.items()],
    notes=["times in seconds, ours without compilation; accuracy in percent"],
    text="Tatoeba, English-German",
)
BLEU = PaperTable(
    "Section 4.3",
    "BLEU score by training steps",
    columns=[
        Line(f"{part} %", measure=f"BLEU after {part}% of the steps", setup=f"{400 * part} steps")
        for part in (25, 50, 75, 100)
    ],
    rows=[
        Line("Bahdanau", entry="bahdanau", figures="40.9 42.1 42.2 42.4"),
        Line("Luong", entry="luong", figures="35.5 40.6 42.1 42.3"),
        Line("Multi-Head", entry="multi-head", figures="40.7 42.1 42.3 42.6"),
        Line("Average", entry="average", figures="40.5 42.1 42.7 42.6"),
    ],
    corner="Training Steps",
    text="Tatoeba, English-German, test set",
)
RNNS, TRANSFORMERS = ("luong", "bahdanau"), ("average", "multi-head")
TIMES = ("training time", "translation time")
# What times of the same work differ by, and figures that are almost the same.
NOISE, ALMOST = 0.03, 0.05
FINDINGS = (
    Finding(
        "Luong's attention fits the training text better than Bahdanau's",
        "§4.1, §5",
        (BETTER,),
        [Contrast(*RNNS, measure) for measure in ("lowest training perplexity", "highest training accuracy")],
    ),
    Finding(
        "On the validation text it is worse, from which the paper concludes that it overfits more easily",
        "§4.1, §5",
        (WORSE,),
        [Contrast(*RNNS, measure) for measure in ("lowest validation perplexity", "highest validation accuracy")],
    ),
    Finding(
        "In the end, it does not translate better",
        "§4.3, §5",
        (LEVEL, WORSE),
        [Contrast(*RNNS, figures="42.3 42.4")],
    ),
    Finding(
        "Average attention translates better than multi-head attention",
        "§5",
        (BETTER,),
        [Contrast(*TRANSFORMERS, figures="42.7 42.6")],
    ),
    Finding(
        "The figures of both are almost the same, in training and in validation",
        "§4.2, §5",
        (LEVEL,),
        [
            Contrast(*TRANSFORMERS, f"{best} {text} {figure}")
            for text in ("training", "validation")
            for best, figure in (("lowest", "perplexity"), ("highest", "accuracy"))
        ],
        share=ALMOST,
    ),
    Finding(
        "Luong's attention is faster than Bahdanau's, in training and in search",
        "§4.1, §5",
        (BETTER,),
        [Contrast(*RNNS, measure) for measure in TIMES],
        share=NOISE,
    ),
    Finding(
        "Average attention is faster than multi-head attention, in training and in search",
        "§4.2, §5",
        (BETTER,),
        [Contrast(*TRANSFORMERS, measure) for measure in TIMES],
        share=NOISE,
    ),
)

RECIPE = Recipe(
    title="Dang: attention functions compared",
    entries={
        "bahdanau": Entry(
            rnn("bahdanau", "bahdanau", "previous_state", TRAINING),
            {"BLEU": "42.4", "perplexity": "4.72", "accuracy": "72.7", "training": "5221", "translation": "619"},
        ),
        "luong": Entry(
            rnn("luong", "luong_general", "current_state", HALVING),
            {"BLEU": "42.3", "perplexity": "5.24", "accuracy": "71.7", "training": "4675", "translation": "584"},
            baseline="bahdanau",
        ),
        "luong-scaled": Entry(
            rnn("luong-scaled", {"attention": "luong_general", "scaled": True}, "current_state", HALVING),
            baseline="luong",
        ),
        # States of encoder and decoder are compared as they are, so that the encoder reads in one direction alone.
        "luong-dot": Entry(
            rnn("luong-dot", "luong_dot", "current_state", HALVING, bidirectional=False), baseline="luong"
        ),
        "multi-head": Entry(
            of_transformer("multi-head", "multi_head"),
            {"BLEU": "42.6", "perplexity": "4.91", "accuracy": "73.4", "training": "7154", "translation": "858"},
        ),
        "average": Entry(
            of_transformer("average", "average_without_ffn"),
            {"BLEU": "42.6", "perplexity": "4.73", "accuracy": "73.0", "training": "6824", "translation": "804"},
            baseline="multi-head",
        ),
        "average-without-gate": Entry(
            of_transformer("average-without-gate", "average_without_gate"), baseline="multi-head"
        ),
        "average-with-network": Entry(of_transformer("average-with-network", "average"), baseline="multi-head"),
    },
    published={"budget": "40000steps"},
    corpus="tatoeba-en-de",
    default=("bahdanau", "luong", "multi-head", "average"),
    about="Four attention functions on the same text, with the same optimiser and number of steps: Bahdanau's "
    "and Luong's in a recurrent translator, multi-head and average attention in the decoder of a "
    "Transformer. Which translates better, and which is faster?",
    findings=FINDINGS,
    captions={
        "lengths.png": "How long the sentences of the text are",
        "curves.png": "Validation loss over training steps",
        "loss-rnn.png": "Loss of Luong's and Bahdanau's attention, on the training and on the validation text",
        "loss-transformers.png": "The same of average and multi-head attention",
        "accuracy-rnn.png": "Accuracy of Luong's and Bahdanau's attention, on the training and on the validation text",
        "accuracy-transformers.png": "The same of average and multi-head attention",
        "perplexity-rnn.png": "Perplexity of Luong's and Bahdanau's attention, on both texts",
        "perplexity-transformers.png": "The same of average and multi-head attention",
    },
    tables=(STATISTICS, BLEU),
    pictures={
        "lengths.png": "lengths bahdanau luong multi-head average",
        "curves.png": "curves --over-seeds bahdanau luong multi-head average",
        "loss-rnn.png": "curves --over-seeds luong bahdanau --key loss val_loss",
        "loss-transformers.png": "curves --over-seeds average multi-head --key loss val_loss",
        "accuracy-rnn.png": "curves --over-seeds luong bahdanau --key accuracy val_accuracy",
        "accuracy-transformers.png": "curves --over-seeds average multi-head --key accuracy val_accuracy",
        "perplexity-rnn.png": "curves --over-seeds luong bahdanau --key perplexity val_perplexity --log-scale",
        "perplexity-transformers.png": "curves --over-seeds average multi-head --key perplexity val_perplexity "
        "--log-scale",
    },
    note="In brackets: the paper's own figures, for Tatoeba English-German, 255,817 sentence pairs; times in seconds, "
    "perplexity and accuracy on its validation set, BLEU on its test set after 40,000 steps.",
)

if __name__ == "__main__":
    sys.exit(run_recipe(RECIPE, __doc__))

"""Hiemsch: Incorporating Attention Mechanisms in RNN-based Encoder-Decoder Models.

A bidirectional GRU encoder, a GRU decoder, Bahdanau's attention, German to English. The paper's experiments 1 to 4
differ in learning rate, batch size and teacher forcing; its ablation is experiment 4 with uniform attention. The
remaining systems try what the paper's discussion proposes: dropout, maxout readout, beam search and a decaying learning
rate together; and one at a time a teacher forcing ratio that falls, in as many steps as `--set teacher_forcing_steps`
says, words, and other sizes: a size that `--set` names is that of all systems. What the paper reports of its
experiments and its best translations are written to `tables.md` in `--out`, its curves and the attention of two of
these translations to pictures.

Examples:
  python recipes/hiemsch2023.py --train train.de train.en --out runs/hiemsch
  python recipes/hiemsch2023.py --scale paper --out runs/europarl
  python recipes/hiemsch2023.py --train train.de.gz train.en.gz --valid val.de.gz val.en.gz \\
      --test test.de.gz test.en.gz --out runs/multi30k --systems bahdanau-dropout uniform-dropout
  python recipes/hiemsch2023.py --embedded --out runs/embedded --set epochs=4 hidden_dim=128

How the paper is read:
- The paper's validation and test losses are free-running: teacher forcing "is set to 0" (section 5), so the decoder is
  fed its own predictions. The table has a column for the perplexity of that loss, with the paper's exp(4.48) and
  exp(4.61) beside ours, and is ranked by it, as the paper ranks its experiments on its validation text. The best
  checkpoint is chosen by the free-running validation loss.
- The readout gets the new decoder state, the context and the embedding of the previous token, as in Bahdanau's
  original; the paper's text says the previous state.
- The example translations are those with the highest sentence BLEU of all test sentences, ties go to the longest;
  the paper shows three of the better ones. As in its Figures 3 and 4, `attention-2.png` and `attention-3.png` show the
  attention along the second and the third; here that of uniform attention stands beside it.
- Teacher forcing tosses a coin for every target position of every sentence; the model's own prediction replaces the
  gold token.
- Vocabularies have 8,000 subwords per side, and at `--scale paper` 8,000 words, as the paper's have: what is separated
  by spaces, since the library that the paper names splits there unless told otherwise. Punctuation then belongs to the
  word before it, and all other words are one unknown token. BLEU is sacrebleu's, cased and on plain text;
  the paper does not say how its BLEU was computed, and its examples are partly lower-cased.
- The decoder's state is 512 wide, and so is the encoder's in each direction; the paper does not say.
- The filter of 4 to 30 words applies to the training text, and at `--scale paper` with the paper's corpus to validation
  and test text too, since the paper filters before it splits.
- The paper does not name its optimiser; here it is Adam, without clipping.
- The paper does not say how many epochs its models were trained; it sees overfitting after about six.
- The systems beyond the paper have training sentences of up to 50 words, batches of 64, a learning rate of 1e-3 that is
  halved after a validation without improvement, gradients clipped at a norm of 1.0, five beams with a length penalty of
  1.0, and a dropout of 0.4, except "plain", which has none.
"""

import dataclasses
import sys

from keras_attn_zoo.cli.recipe import run_recipe
from keras_attn_zoo.runs.settings import DataSettings, SearchSettings, TrainingSettings
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.paper_tables import BETTER, Contrast, Examples, Finding, Line, PaperTable

BACKBONE = {"embedding_dim": 256, "hidden_dim": 512, "cell": "gru", "readout": "linear"}
DATA = DataSettings(vocabulary_size=8000, min_words=4, max_words=30)
TRAINING = TrainingSettings(epochs=6, validations_per_epoch=4, clip_norm=None)
GREEDY = SearchSettings(beams=1)


def experiment(name, learning_rate, batch, teacher_forcing, attention="bahdanau"):
    """One of the paper's models: no dropout, linear readout, greedy search."""
    return System(
        name=name,
        backbone={**BACKBONE, "cross_attention": attention},
        data=dataclasses.replace(DATA, sentences_per_batch=batch),
        training=dataclasses.replace(
            TRAINING,
            learning_rate=learning_rate,
            teacher_forcing=teacher_forcing,
            best_by="free_running_loss",
        ),
        search=GREEDY,
        source="Hiemsch, section 5",
    )


def extended(name, attention="bahdanau", dropout=0.4, **training):
    """The paper's sizes with its proposals: maxout readout, beam search, decaying learning rate."""
    settings = {
        "epochs": 10,
        "validations_per_epoch": 2,
        "learning_rate": 1e-3,
        "schedule": "plateau",
        "plateau_factor": 0.5,
        "plateau_patience": 1,
        "patience": 4,
        **training,
    }
    return System(
        name=name,
        backbone={
            **BACKBONE,
            "readout": "maxout",
            "readout_dim": 256,
            "cross_attention": attention,
            "dropout": dropout,
        },
        data=dataclasses.replace(DATA, min_words=1, max_words=50, sentences_per_batch=64),
        training=TrainingSettings(**settings),
        search=SearchSettings(beams=5, length_penalty=1.0),
        source="Hiemsch, section 6",
    )


ENTRIES = {
    "experiment-1": Entry(experiment("experiment-1", 1e-4, 128, 0.8)),
    "experiment-2": Entry(experiment("experiment-2", 5e-4, 256, 0.8)),
    "experiment-3": Entry(experiment("experiment-3", 5e-4, 128, 0.5)),
    "experiment-4": Entry(
        experiment("experiment-4", 1e-4, 128, 0.5), {"BLEU": "17.75", "perplexity, free-running": "88.2"}
    ),
    "uniform": Entry(
        experiment("uniform", 1e-4, 128, 0.5, "uniform"),
        {"BLEU": "12.09", "perplexity, free-running": "100.5"},
        "experiment-4",
    ),
    "bahdanau-plain": Entry(extended("bahdanau-plain", dropout=0.0)),
    "bahdanau-dropout": Entry(extended("bahdanau-dropout")),
    "uniform-plain": Entry(extended("uniform-plain", "uniform", dropout=0.0), baseline="bahdanau-plain"),
    "uniform-dropout": Entry(extended("uniform-dropout", "uniform"), baseline="bahdanau-dropout"),
}
# What Experiment 4 is tried with besides. Where the ratio falls during all of the training, its mean is that of
# Experiment 4: 40,000 steps are six epochs of the paper's text.
FALLING = {"teacher_forcing": 1.0, "teacher_forcing_end": 0.0, "teacher_forcing_steps": 40000}
PROPOSED = {
    "falling-ratio": ("Teacher forcing ratio that falls from 1 to 0", FALLING),
    "words": ("Words in place of subwords", {"model_type": "word"}),
    "smaller-states": ("Smaller states", {"hidden_dim": 256}),
    "larger-states": ("Larger states", {"hidden_dim": 1024}),
    "larger-embeddings": ("Larger embeddings", {"embedding_dim": 620}),
}
ENTRIES |= {
    name: Entry(experiment(name, 1e-4, 128, 0.5).override(**settings), baseline="experiment-4")
    for name, (_, settings) in PROPOSED.items()
}

# The paper has no table. Its figures stand in section 5: losses of the validation text only as curves.
EXPERIMENTS = PaperTable(
    "Experiments 1 to 4",
    "Hyperparameter search: free-running loss of the validation text",
    columns=[Line("validation loss", split="valid", measure="loss, free-running")],
    rows=[
        Line("1", entry="experiment-1", setup="learning rate 1e-4, batch size 128, teacher forcing ratio 0.8"),
        Line("2", entry="experiment-2", setup="learning rate 5e-4, batch size 256, teacher forcing ratio 0.8"),
        Line("3", entry="experiment-3", setup="learning rate 5e-4, batch size 128, teacher forcing ratio 0.5"),
        Line("4", entry="experiment-4", setup="learning rate 1e-4, batch size 128, teacher forcing ratio 0.5"),
    ],
    corner="Experiment",
    text="Europarl, German-English",
)
ABLATION = PaperTable(
    "Ablation",
    "Learned against uniform attention weights: free-running losses, and BLEU of the test text",
    columns=[
        Line("validation loss", split="valid", measure="loss, free-running", text="Europarl, validation set"),
        Line("test loss", measure="loss, free-running", text="Europarl, test set"),
        Line("BLEU", measure="BLEU", text="Europarl, test set"),
    ],
    rows=[
        Line("Experiment 4", entry="experiment-4", figures="– 4.48 17.75"),
        Line("Uniform attention", entry="uniform", figures="– 4.61 12.09"),
    ],
    corner="Model",
    baseline="experiment-4",
)
# What the discussion proposes; the paper has no figures for it.
DISCUSSION = PaperTable(
    "Discussion",
    "Experiment 4 with one change at a time",
    columns=[Line("test loss", measure="loss, free-running"), Line("BLEU", measure="BLEU")],
    rows=[
        Line("Experiment 4", entry="experiment-4"),
        *(Line(label, entry=name) for name, (label, _) in PROPOSED.items()),
    ],
    corner="Model",
    baseline="experiment-4",
    notes=[
        "a loss of words cannot be compared with one of subwords",
        "at the scale paper, all have words",
    ],
)
BEYOND = PaperTable(
    "Beyond the paper",
    "With a maxout readout and beam search, with and without dropout; alignments",
    columns=[
        Line("test loss", measure="loss"),
        Line("BLEU", measure="BLEU"),
        Line("AER", split="gold", measure="AER"),
    ],
    rows=[
        Line("Bahdanau, dropout", entry="bahdanau-dropout"),
        Line("Uniform attention, dropout", entry="uniform-dropout"),
        Line("Bahdanau, no dropout", entry="bahdanau-plain"),
        Line("Uniform attention, no dropout", entry="uniform-plain"),
    ],
    corner="Model",
)
FINDINGS = (
    Finding(
        "Learned attention translates considerably better than uniform attention",
        "§5",
        (BETTER,),
        [Contrast("experiment-4", "uniform"), Contrast("bahdanau-dropout", "uniform-dropout")],
    ),
    Finding(
        "Its loss on the test text is slightly lower",
        "§5",
        (BETTER,),
        [
            Contrast("experiment-4", "uniform", "loss, free-running"),
            Contrast("bahdanau-dropout", "uniform-dropout", "loss"),
        ],
    ),
    Finding(
        "It learns the alignment of source and target words: a verb at the end of the sentence is found",
        "abstract, Figures 3 and 4",
        (BETTER,),
        [
            Contrast(name, baseline, "AER", "gold")
            for name, baseline in (("experiment-4", "uniform"), ("bahdanau-dropout", "uniform-dropout"))
        ],
    ),
    Finding(
        "A teacher forcing ratio of 0.5 is better than one of 0.8 on the validation text, where none is forced",
        "§5, Figure 1",
        (BETTER,),
        [
            Contrast(f"experiment-{half}", f"experiment-{more}", "loss, free-running", "valid")
            for half in (4, 3)
            for more in (1, 2)
        ],
    ),
    Finding(
        "With that ratio, a learning rate of 1e-4 is better than one of 5e-4",
        "§5, Figure 1",
        (BETTER,),
        [Contrast("experiment-4", "experiment-3", "loss, free-running", "valid")],
    ),
)
EXAMPLES = Examples("Example translations", "the best of Experiment 4 by sentence BLEU", "experiment-4")

RECIPE = Recipe(
    title="Hiemsch: Bahdanau's attention against uniform attention",
    entries=ENTRIES,
    default=("experiment-1", "experiment-2", "experiment-3", "experiment-4", "uniform"),
    published={"model_type": "word"},
    corpus="europarl-de-en",
    words=(4, 30),
    about="What does attention contribute to a recurrent translator? The paper trains one with Bahdanau's "
    "attention, searches its learning rate, batch size and teacher forcing, and then trains it again with "
    "attention weights that are fixed and equal.",
    findings=FINDINGS,
    captions={
        "curves.png": "Free-running validation loss of the four experiments",
        "curves-uniform.png": "Free-running validation loss with learned and with uniform attention",
        "attention.png": "Learned and uniform attention along a reference",
        "attention-2.png": "Learned and uniform attention of the second of the example translations",
        "attention-3.png": "Learned and uniform attention of the third",
        "attention-dropout.png": "Learned and uniform attention along a reference, of the systems beyond the paper, "
        "with dropout",
        "by-source-length.png": "BLEU by the length of the source, with intervals of 95 %",
    },
    tables=(EXPERIMENTS, ABLATION, DISCUSSION, BEYOND, EXAMPLES),
    pictures={
        "curves.png": "curves --over-seeds experiment-1 experiment-2 experiment-3 experiment-4 "
        "--key val_free_running_loss",
        "curves-uniform.png": "curves --over-seeds experiment-4 uniform --key val_free_running_loss",
        "attention.png": "attention experiment-4 '{sentence}' --target '{translation}' --beside uniform",
        "attention-2.png": "attention experiment-4 '{source-2}' --target '{translation-2}' --beside uniform",
        "attention-3.png": "attention experiment-4 '{source-3}' --target '{translation-3}' --beside uniform",
        "attention-dropout.png": "attention bahdanau-dropout '{sentence}' --target '{translation}' "
        "--beside uniform-dropout",
        "by-source-length.png": "by-length --over-seeds experiment-4 uniform bahdanau-dropout uniform-dropout "
        "--side source",
    },
    note="In brackets: the paper's own figures, for Europarl German-English, sentences of 4 to 30 words, greedy "
    "search. Its perplexities are the exponentials of its test losses, 4.48 and 4.61, which are free-running: the "
    "decoder is fed its own predictions. The paper ranks its experiments by that loss on the validation text, this "
    "table by that on the test text.",
    rank_by=lambda scores: scores["free_running"]["perplexity"],
)

if __name__ == "__main__":
    sys.exit(run_recipe(RECIPE, __doc__))

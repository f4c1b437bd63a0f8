"""Bahar, Makarov and Ney: Investigation of Transformer-based Latent Attention Models for Neural Machine Translation.

The alignment as a latent variable: p(e) = sum over source positions of alignment times lexicon, instead of one
softmax. A base Transformer and an RNN with six bidirectional layers, each in three forms: plain, with the six most
likely positions as published, and with the exact sum. Tables 1 to 5 are written to `tables.md` in `--out`; each of the
four language pairs is a run of this recipe with its own text and `--pair`.

Examples:
  python recipes/bahar2020.py --train train.de train.en --out runs/bahar
  python recipes/bahar2020.py --scale paper --out runs/wmt
  python recipes/bahar2020.py --train train.de.gz train.en.gz --valid val.de.gz val.en.gz \\
      --test test.de.gz test.en.gz --out runs/multi30k --systems transformer transformer-latent-top-6 \\
      transformer-latent --set width=256 num_heads=4 ffn_dim=1024 encoder_layers=3 decoder_layers=3
  python recipes/bahar2020.py --train train.de train.en --valid newstest2015.de newstest2015.en \\
      --test newstest2017.de newstest2017.en --bitext europarl.de-en --gold europarl.talp --index-base 1 \\
      --out runs/bahar
  python recipes/bahar2020.py --scale paper --pair zh-en --out runs/bahar --systems layer-1 layer-2 layer-3 layer-4 \\
      layer-5 layer-6
  python recipes/bahar2020.py --train train.de train.en --out runs/bahar --systems transformer-latent-top-1 \\
      transformer-latent-top-2 transformer-latent-top-3 transformer-latent-top-10
  python recipes/bahar2020.py --train train.de train.en --out runs/bahar --systems transformer-latent-top-6 \\
      transformer-latent-top-6-straight-through layer-1 layer-2 layer-3 layer-4 layer-5 layer-6 all-layers one-head
  attn-zoo align runs/bahar/transformer-latent --bitext test.de-en --gold gold.talp --index-base 1 --layer best \\
      --leave-out end full_stop

Figure 3 shows quality and speed over K, the number of positions in training. By default only K = 6 and the exact sum
are trained: four more Transformers take two thirds as long again. The example with `transformer-latent-top-1` adds
them to the runs in `--out`, and completes `trained-top-k.png` and `trained-top-k-speed.png` there.

How the paper is read:
- Its text is that of WMT 2018, with newstest2017 and newstest2018 as tests: `--corpus wmt17-de-en` has both test sets,
  and News Commentary in version 12 in place of 13; `--corpus wmt18-de-en` has the text, and newstest2018 alone.
  `--corpus wmt17-zh-en` is that of WMT 2017, 25 million pairs before duplicates are left out; of almost 26 million of
  WMT 2018, the paper keeps 14. Validation and test text are the paper's.
- At `--scale paper`, both sides are truecased between German and English, as in the paper; otherwise they are not, and
  the text is never tokenised: truecaser and subwords take plain text. BLEU and TER see translations that begin with a
  capital again, as Moses' detruecaser writes them; the paper does not say.
- For Chinese and English, `--scale paper` has what the paper says: unigram subwords sampled from the 30 best
  segmentations, and no pair twice or with illegal characters. The paper does not give the exponent of the sampling
  (0.1 here) or say what its illegal characters are; here they are those that damaged text has and no other: control
  and private-use characters, noncharacters, and U+FFFD for bytes that could not be decoded. Its 32,000 "merges" are
  the size of one vocabulary here.
- Sentences of more than 100 words, or of more than 100 subwords with start and end, are not trained on; the paper's
  limit of 100 counts tokens. Chinese words are not known, so there, subwords alone count.
- The lexicon is one bias-free linear map of the sum of the projected embedding, decoder state and encoder state.
- The weights of the six best positions are not renormalised in training; the search divides by their sum.
- The top-K sum is differentiated "by the straight-through estimator": forward, the sum over the K best; backward, the
  gradient of the full sum with respect to the weights: so do `transformer-latent-top-6-straight-through` and
  `rnn-latent-top-6-straight-through`. The layer that the authors released, RETURNN's `hmm_factorization`, takes the K
  largest weights and gives the others no gradient: so do all others.
- The alignment is the mean of the last layer's heads. Section 7.1 has that of each layer (`layer-1` to `layer-6`), and
  names all layers and one head without figures: `all-layers`, and `one-head` with the first head of the last layer,
  since those of a layer are symmetrical.
- Both sides share one vocabulary of 50,000 BPE subwords; the paper has 50,000 merges, which give 45,000 German and
  33,000 English tokens. For Chinese, each side has its own of 32,000 unigram pieces, sampled only at
  `--scale paper`, and the Transformers tie only the target's embedding to the output. Otherwise they share one matrix
  among both embeddings, the output and the lexicon; the RNNs share none. The paper does not say.
- The learning rate is lowered after two validations without improvement; the paper says "several". There are four
  validations per epoch and 20 epochs; the paper gives no numbers.
- Batches hold 4,096 tokens of the longer side, padding included; the paper's are as large as its memory allows.
- Labels are smoothed by 0.1, as in the original Transformer paper, and gradients are clipped at a norm of 1.0; this
  paper mentions neither. In the configurations that an author published, the plain systems have this smoothing and the
  latent ones none (`--set label_smoothing=0`), and no gradient is clipped. What is smoothed is what is summed, the
  lexicons of the K best.
- Each direction of an encoder layer has 1,024 LSTM cells. The encoder gets one more layer after every validation, that
  is, every quarter of an epoch; the paper grows it "for the first epochs".
- The plain RNN has a maxout readout, like Bahdanau's; a latent one has the lexicon, which uses the state directly.
- The RNN's lexicon sees the decoder state after the context is fed in; equation 12 has the previous state.
- Search uses twelve beams, as in the paper, and a length penalty of 1.0, which the paper does not mention.
- Figure 3's speed ratio is the Transformer's target tokens/s over the latent one's, in a timing pass (`--time`).
- BLEU is sacrebleu's with the paper's tokeniser, 13a; for `--pair en-zh`, with zh unless `--tokenize` names another.
- TER is case-sensitive and normalised in the tables, like the paper's; in `results.md`, it is not normalised.
"""

import sys

from keras_attn_zoo.cli.recipe import run_recipe
from keras_attn_zoo.runs.named_systems import LATENT, LATENT_RNN, RNN_6_LAYERS, TOP_6, transformer
from keras_attn_zoo.runs.settings import DataSettings, SearchSettings, TrainingSettings
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.paper_tables import BETTER, LEVEL, WORSE, Contrast, Finding, Line, Pair, PaperTable

DATA = DataSettings(
    vocabulary_size=50000, joint=True, max_words=100, max_tokens=100, sentences_per_batch=None, tokens_per_batch=4096
)
SEARCH = SearchSettings(beams=12)
TRAINING = TrainingSettings(
    epochs=20, schedule="plateau", plateau_factor=0.9, plateau_patience=2, label_smoothing=0.1, learning_rate=3e-4
)
RNN_TRAINING = TrainingSettings(
    epochs=20, schedule="plateau", plateau_factor=0.9, plateau_patience=2, label_smoothing=0.1, pretraining_rounds=1
)

# What the sum leaves out has a gradient, as the paper says; the authors' released layer gives it none.
STRAIGHT_THROUGH = {"top_k_gradient": "straight_through"}
# BLEU of German-English, newstest2017: Table 3.
TRANSFORMERS = {
    "transformer": ({}, {"BLEU": "33.5"}),
    "transformer-latent-top-6": ({**LATENT, **TOP_6}, {"BLEU": "33.7"}),
    "transformer-latent": (LATENT, {}),
    **{f"layer-{i}": ({**LATENT, **TOP_6, "attention_layer": i - 1}, {}) for i in range(1, 7)},
    "all-layers": ({**LATENT, **TOP_6, "attention_layer": "all"}, {}),
    "one-head": ({**LATENT, **TOP_6, "attention_layer": "-1:0"}, {}),
    "transformer-latent-top-6-straight-through": ({**LATENT, **TOP_6, **STRAIGHT_THROUGH}, {}),
    **{f"transformer-latent-top-{k}": ({**LATENT, **TOP_6, "top_k": k}, {}) for k in (1, 2, 3, 10)},
}
RNNS = {
    "rnn-attention": ({"readout": "maxout"}, {"BLEU": "32.6"}),
    "rnn-latent-top-6": ({**LATENT_RNN, **TOP_6}, {"BLEU": "32.8"}),
    "rnn-latent-top-6-straight-through": ({**LATENT_RNN, **TOP_6, **STRAIGHT_THROUGH}, {}),
    "rnn-latent": (LATENT_RNN, {}),
}
SOURCE = "Bahar, sections 5 and 6"
# Figure 3.
COUNTS = (*(f"transformer-latent-top-{k}" for k in (1, 2, 3, 6, 10)), "transformer-latent")
# Figure 2, and the same with the exact sum.
BESIDE = (
    ("attention.png", "transformer", "transformer-latent-top-6"),
    ("attention-rnn.png", "rnn-attention", "rnn-latent-top-6"),
    ("attention-exact.png", "transformer", "transformer-latent"),
    ("attention-rnn-exact.png", "rnn-attention", "rnn-latent"),
)

CURVES = {
    "curves.png": ("transformer", *(f"transformer-latent{form}" for form in ("-top-6", "-top-6-straight-through", ""))),
    "curves-rnn.png": tuple(RNNS),
}

# The others differ from these in the layer that is read, or in how many positions are summed over.
SMOKE = (*CURVES["curves.png"], "all-layers", "one-head", "rnn-attention", "rnn-latent-top-6", "rnn-latent")

LANGUAGES = {"de": "German", "en": "English", "zh": "Chinese"}


def arrow(pair):
    """A language pair as the paper writes it: German→English."""
    return "→".join(LANGUAGES[code] for code in pair.split("-"))


MEASURES = {"BLEU": "BLEU", "TER": "TER, normalized"}

# As printed: figures of each row in the order of the columns. What the paper calls its latent attention sums over the
# six most likely positions. The second test text is the corpus' own, or that of `--more-test newstest2018 ...`.
TABLE_1 = PaperTable(
    "Table 1",
    "Corpus statistics",
    columns=[
        Line(side, entry="transformer", pair=pair, measure=side, text=f"{arrow(pair)}, {LANGUAGES[code]}")
        for pair in ("de-en", "zh-en")
        for code, side in zip(pair.split("-"), ("source", "target"), strict=True)
    ],
    rows=[
        Line("Sentences", measure="sentences", figures="5.9M 5.9M 14.1M 14.1M"),
        Line("Running words", measure="running words", figures="160M 157M 314M 427M"),
        Line("Vocabularies", measure="vocabulary", figures="45k 33k 38k 32k"),
    ],
    corner="",
)
TABLE_2 = PaperTable(
    "Table 2",
    "Results measured in BLEU [%] and TER [%], by the decoder layer of the alignment",
    columns=[
        Line(metric, pair="zh-en", split=split, measure=MEASURES[metric], text=f"Zh→En {test}")
        for test, split in (("newsdev2017", "valid"), ("newstest2017", "test"))
        for metric in MEASURES
    ],
    rows=[
        Line("1", entry="layer-1", figures="21.9 62.7 23.4 61.2"),
        Line("2", entry="layer-2", figures="22.5 61.9 23.8 60.6"),
        Line("3", entry="layer-3", figures="22.6 61.9 23.8 60.6"),
        Line("4", entry="layer-4", figures="21.9 62.6 23.8 60.8"),
        Line("5", entry="layer-5", figures="22.5 62.0 24.2 60.3"),
        Line("6", entry="layer-6", figures="22.6 61.9 24.2 60.5"),
    ],
    corner="Layer",
    baseline="layer-6",
)
# By task: figures of systems, in the order of the columns; of what has no system here, another paper's.
TASKS = {
    "zh-en": {
        "(Wang et al., 2018)": "20.2 63.7 – –",
        "transformer": "24.1 60.7 23.7 –",
        "transformer-latent-top-6": "24.2 60.5 24.5 –",
        "rnn-attention": "22.9 62.0 22.7 –",
        "rnn-latent-top-6": "22.6 61.2 23.0 –",
    },
    "en-zh": {
        "transformer": "32.0 57.3 32.8 –",
        "transformer-latent-top-6": "32.9 56.7 33.3 –",
        "rnn-attention": "31.8 57.2 32.5 –",
    },
    "de-en": {
        "(Alkhouli et al., 2018)": "32.1 – – –",
        "(Wang et al., 2018)": "29.6 – – –",
        "transformer": "33.5 55.1 40.4 46.8",
        "transformer-latent-top-6": "33.7 54.9 40.5 46.7",
        "rnn-attention": "32.6 54.9 39.6 46.8",
        "rnn-latent-top-6": "32.8 55.3 39.2 47.6",
    },
    "en-de": {
        "(Wang et al., 2018)": "24.6 – – –",
        "transformer": "26.5 64.8 39.0 50.7",
        "transformer-latent-top-6": "26.5 64.7 39.2 50.1",
        "rnn-attention": "26.3 64.4 38.9 50.7",
    },
}
LABELS = {
    "transformer": "transformer",
    "transformer-latent-top-6": "transformer latent attention",
    "rnn-attention": "RNN attention",
    "rnn-latent-top-6": "RNN latent attention",
    "transformer-latent-top-6-straight-through": "transformer latent attention, straight-through gradient",
    "transformer-latent": "transformer latent attention, exact sum",
    "rnn-latent-top-6-straight-through": "RNN latent attention, straight-through gradient",
    "rnn-latent": "RNN latent attention, exact sum",
}
# Not in the paper.
OURS = {f"{body}-latent{form}": "" for body in ("transformer", "rnn") for form in ("-top-6-straight-through", "")}
TABLE_3 = PaperTable(
    "Table 3",
    "Results measured in BLEU [%] and TER [%] on the test sets",
    columns=[
        Line(metric, split=split, measure=MEASURES[metric], text=test)
        for test, split in (("newstest2017", "test"), ("newstest2018", "newstest2018"))
        for metric in MEASURES
    ],
    rows=[
        Line(
            LABELS.get(name, name),
            pair=pair,
            entry=name if name in LABELS else "",
            figures=figures,
            text=arrow(pair),
        )
        for pair, systems in TASKS.items()
        for name, figures in (*systems.items(), *(OURS.items() if pair == "de-en" else ()))
    ],
    corner="Task, Model",
)
TABLE_4 = PaperTable(
    "Table 4",
    "AER [%] of different models, while the EOS and the full stop have been ignored",
    columns=[
        Line("last heads", split="gold", measure="AER"),
        Line("all heads", split="gold", measure="AER, all layers"),
    ],
    rows=[
        Line("transformer", entry="transformer", figures="71.4 57.1"),
        Line("transformer latent attention", entry="transformer-latent-top-6", figures="57.8 54.8"),
        *(Line(LABELS[name], entry=name) for name in OURS if not name.startswith("rnn")),
        Line("RNN attention", entry="rnn-attention", figures="51.5 –"),
        Line("RNN latent attention", entry="rnn-latent-top-6", figures="49.0 –"),
        *(Line(LABELS[name], entry=name) for name in OURS if name.startswith("rnn")),
    ],
    corner="Model",
    text="Europarl, German-English",
)
TABLE_5 = PaperTable(
    "Table 5",
    "Results measured in BLEU [%] with respect to different values of K during inference; trained using K = 6",
    columns=[Line(f"K={k}" if k else "all", split=f"valid-k{k}", measure="BLEU") for k in (1, 2, 3, 6, 10, 0)],
    rows=[
        Line("latent attention", entry="transformer-latent-top-6", figures="30.7 31.9 32.2 32.2 32.2 32.2"),
        Line("latent attention, straight-through gradient", entry="transformer-latent-top-6-straight-through"),
        Line("latent attention, trained with the exact sum", entry="transformer-latent"),
    ],
    corner="Model",
    baseline="transformer-latent-top-6",
    text="the development set (newstest2015)",
)
# The paper's latent systems, and those of ours that do not approximate the sum, held against the same figures.
LATENTS = {
    "transformer-latent-top-6": "transformer",
    "transformer-latent": "transformer",
    "rnn-latent-top-6": "rnn-attention",
    "rnn-latent": "rnn-attention",
}
TRAINED_WITH_6 = "transformer-latent-top-6"
OF_TRANSFORMER = [name for name, baseline in LATENTS.items() if baseline == "transformer"]
FINDINGS = (
    Finding(
        "The Transformer is better than the RNN", "§7.2, Table 3", (BETTER,), [Contrast("transformer", "rnn-attention")]
    ),
    Finding(
        "A latent alignment translates slightly better than the Transformer",
        "§7.2, Table 3",
        (BETTER,),
        [Contrast(name, "transformer", figures="33.7 33.5") for name in OF_TRANSFORMER],
    ),
    Finding(
        "In the RNN it makes little difference",
        "§7.2, Table 3",
        (LEVEL,),
        [Contrast(name, "rnn-attention", figures="32.8 32.6") for name in LATENTS if name not in OF_TRANSFORMER],
    ),
    Finding(
        "Its attention is a better word alignment, by the last layer's heads much better than the Transformer's",
        "§7.3, Table 4",
        (BETTER,),
        [
            Contrast(name, baseline, "AER", "gold", figures="49.0 51.5" if baseline == "rnn-attention" else "57.8 71.4")
            for name, baseline in LATENTS.items()
        ],
    ),
    Finding(
        "Averaged over all layers, the Transformer aligns much better than by its last one, the latent model slightly",
        "§7.3, Table 4",
        (BETTER,),
        [
            Contrast(name, name, "AER, all layers", "gold", other_measure="AER", figures=figures)
            for name, figures in (("transformer", "57.1 71.4"), *((name, "54.8 57.8") for name in OF_TRANSFORMER))
        ],
    ),
    Finding(
        "The RNN's attention is a better word alignment than those of the Transformer and of its latent model",
        "§7.3, Table 4",
        (BETTER,),
        [
            Contrast("rnn-attention", name, "AER", "gold", figures=figures)
            for name, figures in (("transformer", "51.5 71.4"), *((name, "51.5 57.8") for name in OF_TRANSFORMER))
        ],
    ),
    Finding(
        "Trained with six positions, the latent model translates better than with two",
        "§7.4, Figure 3",
        (BETTER,),
        [Contrast("transformer-latent-top-6", "transformer-latent-top-2", split="valid", figures="32.3 30.8")],
    ),
    Finding(
        "With more than six, it does not become significantly better",
        "§7.4, Figure 3",
        (LEVEL, WORSE),
        [
            Contrast(name, "transformer-latent-top-6", split="valid")
            for name in ("transformer-latent-top-10", "transformer-latent")
        ],
        significant=True,
    ),
    Finding(
        "The more positions, the longer the training",
        "§7.4, Figure 3",
        (WORSE,),
        [Contrast("transformer-latent-top-10", "transformer-latent-top-1", "training time of a step, relative")],
        share=0.03,
    ),
    Finding(
        "A search that sums over one position loses BLEU against one that sums over six",
        "§7.4, Table 5",
        (WORSE,),
        [Contrast(TRAINED_WITH_6, TRAINED_WITH_6, split="valid-k1", other_split="valid-k6", figures="30.7 32.2")],
    ),
    Finding(
        "Summing over more than six positions, or over all, gains nothing",
        "§7.4, Table 5",
        (LEVEL,),
        [
            Contrast(
                TRAINED_WITH_6, TRAINED_WITH_6, split=f"valid-k{count}", other_split="valid-k6", figures="32.2 32.2"
            )
            for count in (10, 0)
        ],
    ),
    Finding(
        "Summing over six positions is about 2.7 times slower than the Transformer",
        "§7.5",
        (WORSE,),
        [Contrast("transformer-latent-top-6", "transformer", "training time of a step, relative", figures="2.7 1.0")],
        margin=1.0,
    ),
)
# Chinese: 32,000 pieces, each side its own.
CHINESE = {
    "settings": {"model_type": "unigram", "vocabulary_size": 32000, "joint": False, "max_words": None},
    "published": {
        "truecase": None,
        "subword_sampling_nbest": 30,
        "drop_duplicates": True,
        "drop_illegal_characters": True,
    },
}


def transformer_entry(name, places, paper):
    """One of the paper's Transformers."""
    system = transformer(name, SOURCE, data=DATA, training=TRAINING, search=SEARCH, **places)
    return Entry(system, paper, None if name == "transformer" else "transformer")


def rnn_entry(name, output, paper):
    """One of the paper's recurrent systems."""
    system = System(name, {**RNN_6_LAYERS, **output}, DATA, RNN_TRAINING, SEARCH, source=SOURCE)
    return Entry(system, paper, None if name == "rnn-attention" else "rnn-attention")


RECIPE = Recipe(
    title="Bahar: latent alignment",
    entries={
        **{name: transformer_entry(name, *one) for name, one in TRANSFORMERS.items()},
        **{name: rnn_entry(name, *one) for name, one in RNNS.items()},
    },
    default=(
        "transformer",
        "transformer-latent-top-6",
        "transformer-latent",
        "rnn-attention",
        "rnn-latent-top-6",
        "rnn-latent",
    ),
    smoke=SMOKE,
    published={"truecase": "both"},
    pictures={
        **{file: f"curves --over-seeds {' '.join(names)}" for file, names in CURVES.items()},
        **{
            file: f"attention {one} '{{sentence}}' --target '{{translation}}' --beside {other} --subwords"
            for file, one, other in BESIDE
        },
        "trained-top-k.png": f"top-k transformer {' '.join(COUNTS)} --trained --name valid",
        "trained-top-k-speed.png": f"top-k transformer {' '.join(COUNTS)} --trained --key speed-ratio",
    },
    about="Attention is trained for translation alone, and often does not show which words translate each "
    "other. The paper makes the alignment a latent variable, so that a word is predicted from every "
    "source position and the predictions are summed, and asks whether alignments and translations become "
    "better.",
    findings=FINDINGS,
    captions={
        "curves.png": "Validation loss over training steps",
        "curves-rnn.png": "The same of the RNNs",
        "attention.png": "The attention of a sentence in the Transformer and in the latent model",
        "attention-rnn.png": "The same in the RNN and in its latent model",
        "attention-exact.png": "The attention of a sentence in the Transformer and in the latent model with the exact "
        "sum",
        "attention-rnn-exact.png": "The attention of a sentence in the RNN and in its latent model with the exact sum",
        "trained-top-k.png": "BLEU of the validation text by the number of positions summed over in training",
        "trained-top-k-speed.png": "How many times faster the Transformer is trained, by the number of positions",
    },
    tables=(TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_5),
    pairs={
        pair: Pair(
            **(CHINESE if "zh" in pair else {}), corpus=f"wmt17-{pair}", tokenize="zh" if pair.endswith("zh") else ""
        )
        for pair in ("de-en", "zh-en", "en-zh", "en-de")
    },
    note="In brackets: the paper's own figures, for WMT 2018 German-English, 5.9 million sentence pairs, newstest2017, "
    "beam 12; its latent systems sum over the six most likely positions.",
)

if __name__ == "__main__":
    sys.exit(run_recipe(RECIPE, __doc__))

"""Zeng and others: Recurrent Attention for Neural Machine Translation (RAN).

A base Transformer whose self-attention, in the encoder, the decoder or both, is replaced by learned matrices that a
shared transition refines from layer to layer; compared with hard-coded Gaussian attention and the Random Synthesizer,
with the ablations of the paper's Tables 2 and 3, and with its other tasks, summarization and dialogue (Table 4).
Tables 1 to 3 are written to `tables.md` in `--out`, Table 4 with `--task`; each of the ten language pairs is a run of
this recipe with its own text and `--pair`.

Examples:
  python recipes/zeng2021.py --train train.en train.de --out runs/zeng
  python recipes/zeng2021.py --scale paper --out runs/zeng
  python recipes/zeng2021.py --scale paper --pair tr-en --out runs/zeng
  python recipes/zeng2021.py --train train.de.gz train.en.gz --valid val.de.gz val.en.gz \\
      --test test.de.gz test.en.gz --out runs/multi30k --systems transformer ran-all \\
      --set width=256 num_heads=4 ffn_dim=1024 encoder_layers=3 decoder_layers=3 vocabulary_size=8000
  python recipes/zeng2021.py --scale paper --pair zh-en --train train.zh train.en --valid mt02.zh mt02.en \\
      --test mt03.zh mt03.en --more-test mt04 mt04.zh mt04.en --more-test mt05 mt05.zh mt05.en \\
      --more-test mt06 mt06.zh mt06.en --more-test mt08 mt08.zh mt08.en --out runs/zeng
  python recipes/zeng2021.py --scale paper --task summarization --out runs/summaries

How the paper is read:
- The other corpora of its Table 1 have names too, from `--corpus wmt14-de-en` to `--corpus wmt17-tr-en`, but for the
  Chinese one, which is not public; so have those of its Table 4, `cnn-dailymail` and `personachat`.
- The transition is normalised, which the authors' released code leaves out.
- `ran-all-feed-forward`, `ran-all-gru` and `ran-all-lstm` have the other transitions that its section 2.3 names,
  without equations or figures; those of `RecurrentTransition` are ours.
- The ablation without normalisation and residual connection leaves both out at once, as its one row in Table 3 says.
- Optimisation is that of the base Transformer, which the paper names without details: a learning rate of 7e-4
  after 4,000 steps of warm-up, falling with the inverse square root of the step, label smoothing 0.1, batches of 9,600
  tokens, padding included. Unlike there, gradients are clipped at a norm of 1.0, and Adam's second moment decays by
  0.999, not 0.98. The paper trains 250,000 steps, or 150,000 or 20,000 for smaller corpora, as does `--scale paper`;
  otherwise it is at most 30 epochs here, stopping after eight epochs without a better validation loss. The paper trains
  on eight GPUs, on two for English-Turkish and Chinese-English, and does not give the size of its batches.
- `wmt14-en-fr` has 40.8 million pairs, the paper's 36 million; `wmt17-en-lv` 3.6, not 4.46. It does not say which.
- At the scale "paper", larger texts are validated about every 5,000 steps, where a run that was stopped resumes.
- All embeddings are tied; the paper says that the vocabulary is joint. Its size is 40,000 for English with German and
  French, else 32,000; for Chinese, each side has its own, and only the target's is tied. Training sentences have at
  most 256 words, as in the paper, and 256 subwords. The paper tokenises before it makes subwords, Chinese into words;
  here subwords are made of plain text.
- Only RAN has the attention dropout of 0.2, except for English-French; the other mechanisms have none.
- Multi-BLEU, which the paper's tables call BLEU, is of text split by Moses' tokenizer (sacremoses) for the target
  language, hyphenated words whole; the paper does not give the tokeniser's options.
- The paper's figure for Chinese-English is the mean of five test texts, MT03 to MT08, on each of which a system with a
  dagger is better. MT03 is `--test`, the others are `--more-test`, as in the example, with up to four references each;
  without them, the cell is of the first alone.
- The learned matrices have 320 positions, 1.25 times the 256 subwords that a training sentence may have; the paper does
  not say how many.
- The length penalty is that of Wu et al. 2016; the paper gives its exponent, 0.6, or 1.0 for
  Chinese-English.
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

from keras_attn_zoo.cli.recipe import run_recipe
from keras_attn_zoo.runs.named_systems import RAN, TRANSFORMER_ATTENTIONS, transformer
from keras_attn_zoo.runs.settings import DataSettings, SearchSettings
from keras_attn_zoo.runs.tasks import settings_of_task
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.paper_tables import BETTER, LEVEL, WORSE, Contrast, Finding, Line, Pair, PaperTable

DATA = DataSettings(
    vocabulary_size=40000, joint=True, max_words=256, max_tokens=256, sentences_per_batch=None, tokens_per_batch=9600
)
SEARCH = SearchSettings(beams=4, length_penalty=0.6)
PLACES = ("encoder_attention", "decoder_attention")
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
    "ran-all-fixed": {place: FIXED for place in PLACES},
    "ran-all-bare": {place: BARE for place in PLACES},
    **{
        f"ran-all-{cell.replace('_', '-')}": {place: {**RAN, "cell": cell} for place in PLACES}
        for cell in ("feed_forward", "gru", "lstm")
    },
}
# SacreBLEU of English-German, newstest2014: Tables 1, 2 and 3; of other transitions there is none.
PAPER_BLEU = ["27.0", "26.3", "26.5", "26.8", "27.5", "27.0", "12.90", "26.80", "27.07", "27.40", "26.80", "26.50"]
PAPER = {name: {"BLEU": bleu} for name, bleu in zip(SYSTEMS, PAPER_BLEU, strict=False)}
# The ablations of Table 3 are of RAN in both places; everything else is compared with the Transformer.
BASELINES = {"transformer": None, **{name: "ran-all" for name in SYSTEMS if name.startswith("ran-all-")}}


# As printed, differences and daggers included: BLEU, then SacreBLEU of each pair, which the last one lacks. In two
# places the printed difference is not that of the figures: Fi⇒En with RAN-E (-0.09) and En⇒Fr with RAN-ALL (-0.35).
TABLE_1 = """
en-de BLEU 27.70 26.94(-0.76) 27.17(-0.53) 27.42(-0.28) 28.18(+0.48)† 27.66(-0.04)
en-de SacreBLEU 27.00 26.30(-0.70) 26.50(-0.50) 26.80(-0.20) 27.50(+0.50)† 27.00(+0.00)
de-en BLEU 30.97 29.82(-1.15) 30.26(-0.71) 30.74(-0.23) 30.95(-0.02) 30.84(-0.13)
de-en SacreBLEU 31.00 29.80(-1.20) 30.20(-0.80) 30.70(-0.30) 31.00(+0.00) 30.80(-0.20)
en-fr BLEU 42.40 41.26(-1.14) 41.33(-1.07) 42.26(-0.14) 42.39(-0.01) 42.05(-0.25)
en-fr SacreBLEU 39.40 38.30(-1.10) 38.30(-1.10) 39.30(-0.10) 39.40(+0.00) 39.10(-0.30)
en-lv BLEU 16.78 16.11(-0.67) 16.67(-0.11) 16.66(-0.12) 17.39(+0.61)† 17.00(+0.22)
en-lv SacreBLEU 16.30 15.60(-0.70) 16.30(+0.00) 16.20(-0.10) 16.90(+0.60)† 16.50(+0.20)
lv-en BLEU 18.74 18.41(-0.33) 18.56(-0.18) 18.78(+0.04) 18.84(+0.10) 18.81(+0.07)
lv-en SacreBLEU 17.40 17.10(-0.30) 17.30(-0.10) 17.40(+0.00) 17.50(+0.10) 17.50(+0.10)
en-fi BLEU 21.96 21.36(-0.60) 22.08(+0.12) 22.46(+0.50)† 22.89(+0.93)† 22.45(+0.49)†
en-fi SacreBLEU 20.00 19.30(-0.70) 20.10(+0.10) 20.50(+0.50)† 20.70(+0.70)† 20.50(+0.50)†
fi-en BLEU 26.05 25.07(-0.98) 25.69(-0.36) 25.96(+0.09) 26.55(+0.50)† 26.10(+0.05)
fi-en SacreBLEU 24.10 23.30(-0.80) 23.80(-0.30) 24.10(+0.00) 24.70(+0.60)† 24.30(+0.20)
en-tr BLEU 16.45 16.35(-0.10) 16.19(-0.26) 17.61(+1.16)† 17.22(+0.77)† 17.23(+0.78)†
en-tr SacreBLEU 12.20 12.00(-0.20) 11.80(-0.40) 13.20(+1.00)† 12.70(+0.50)† 13.00(+0.80)†
tr-en BLEU 17.65 17.89(+0.24) 17.18(-0.47) 18.39(+0.74)† 18.62(+0.97)† 18.41(+0.76)†
tr-en SacreBLEU 16.60 16.90(+0.30) 16.10(-0.50) 17.30(+0.70)† 17.60(+1.00)† 17.30(+0.70)†
zh-en BLEU 48.17 47.02(-1.15) 47.56(-0.61) 47.95(-0.22) 48.69(+0.52)† 47.91(-0.26)
average BLEU 26.69 26.02(-0.67) 26.27(-0.42) 26.82(+0.13) 27.17(+0.48)† 26.85(+0.16)
average SacreBLEU 22.67 22.07(-0.60) 22.27(-0.40) 22.83(+0.16) 23.11(+0.44)† 22.89(+0.22)
"""
LABELS = {
    "transformer": "TransF",
    "gaussian": "HC-SA",
    "synthesizer": "Syn-R",
    "ran-e": "RAN-E",
    "ran-d": "RAN-D",
    "ran-all": "RAN-ALL",
}
# Multi-BLEU is what the paper calls BLEU.
MEASURES = {"BLEU": "Multi-BLEU", "SacreBLEU": "BLEU"}
ROWS_1 = [line.split(maxsplit=2) for line in TABLE_1.strip().splitlines()]
AVERAGED = {label: tuple(pair for pair, one, _ in ROWS_1 if one == label and pair != "average") for label in MEASURES}


def arrow(pair):
    """A language pair as the paper writes it: En⇒De."""
    return "⇒".join(language.capitalize() for language in pair.split("-"))


def measures(*groups):
    """Columns of both measures, of each language pair."""
    return [
        Line(label, pair=pair, measure=measure, text=arrow(pair))
        for pair in groups
        for label, measure in MEASURES.items()
    ]


TABLES = (
    PaperTable(
        "Table 1",
        "Experimental results on translation tasks",
        columns=[Line(label, entry=name) for name, label in LABELS.items()],
        rows=[
            Line(
                label,
                "Average" if pair == "average" else "",
                pair=AVERAGED[label] if pair == "average" else pair,
                measure=MEASURES[label],
                figures=printed,
                text="" if pair == "average" else arrow(pair),
            )
            for pair, label, printed in ROWS_1
        ],
        corner="Lang., Matrix",
        baseline="transformer",
        dagger=True,
        differences=True,
        text="WMT14, WMT17 and NIST12",
    ),
    PaperTable(
        "Table 2",
        "Experimental results for ablating position embeddings and RAN",
        columns=measures("en-de"),
        rows=[
            Line("TransF", entry="transformer", figures="27.70 27.12"),
            Line("–Pos-E", entry="no-encoder-positions", figures="13.14 12.90"),
            Line("–Pos-E+RAN-E", entry="no-encoder-positions-ran-e", figures="27.48 26.80"),
            Line("–Pos-D", entry="no-decoder-positions", figures="27.66 27.07"),
            Line("–Pos-D+RAN-D", entry="no-decoder-positions-ran-d", figures="28.02 27.40"),
        ],
        corner="Model",
        baseline="transformer",
    ),
    PaperTable(
        "Table 3",
        "Experimental results of ablation study. RES and LN denotes residual connection and layer normalization",
        columns=measures("en-de", "en-fr"),
        rows=[
            Line("RAN-ALL", entry="ran-all", figures="27.66 27.00 42.05 39.10"),
            Line("fixed", entry="ran-all-fixed", figures="27.52 26.80 41.93 38.90"),
            Line("w/o LN&RES", entry="ran-all-bare", figures="27.15 26.50 41.14 38.20"),
        ],
        corner="Model",
        baseline="ran-all",
    ),
)
RANS = ("ran-e", "ran-d", "ran-all")
FINDINGS = (
    Finding(
        "RAN translates as well as the Transformer or better, in the encoder, the decoder or both",
        "§3.2, Table 1",
        (LEVEL, BETTER),
        [Contrast(name, "transformer") for name in RANS],
    ),
    Finding(
        "On most language pairs, RAN in the decoder alone translates significantly better than the Transformer",
        "§3.2, Table 1",
        (BETTER,),
        [Contrast("ran-d", "transformer")],
    ),
    Finding(
        "The gains in both places do not add up", "§3.2", (LEVEL, WORSE), [Contrast("ran-all", one) for one in RANS[:2]]
    ),
    Finding(
        "Gaussian attention and the Random Synthesizer translate significantly worse than the Transformer",
        "§3.2, Table 1",
        (WORSE,),
        [Contrast(name, "transformer") for name in ("gaussian", "synthesizer")],
    ),
    Finding(
        "RAN in both places closes the gap: it is better than either",
        "§3.2, Table 1",
        (BETTER,),
        [Contrast("ran-all", name) for name in ("gaussian", "synthesizer")],
    ),
    Finding("RAN has fewer parameters", "§1", (BETTER,), [Contrast("ran-all", "transformer", "parameters")]),
    Finding(
        "RAN in both places searches faster than the Transformer, by up to 23.6 %",
        "§3.3, Figure 3",
        (BETTER,),
        [Contrast("ran-all", "transformer", "translation time")],
        share=0.03,
    ),
    Finding(
        "Without the positions of the encoder, the Transformer fails",
        "§4.4, Table 2",
        (WORSE,),
        [Contrast("no-encoder-positions", "transformer", figures="12.90 27.12")],
    ),
    Finding(
        "RAN in the encoder makes up for them",
        "§4.4, Table 2",
        (LEVEL, BETTER),
        [Contrast("no-encoder-positions-ran-e", "transformer", figures="26.80 27.12")],
    ),
    Finding(
        "Without those of the decoder, it does as well",
        "§4.4, Table 2",
        (LEVEL,),
        [Contrast("no-decoder-positions", "transformer", figures="27.07 27.12")],
    ),
    Finding(
        "With RAN in their place, it does better",
        "§4.4, Table 2",
        (BETTER,),
        [Contrast("no-decoder-positions-ran-d", "transformer", figures="27.40 27.12")],
    ),
    Finding("Untrained initial matrices do as well", "§4.5, Table 3", (LEVEL,), [Contrast("ran-all-fixed", "ran-all")]),
    Finding(
        "Without normalisation and residual connection, RAN is worse",
        "§4.5, Table 3",
        (WORSE,),
        [Contrast("ran-all-bare", "ran-all")],
    ),
)
SMALLER = {"vocabulary_size": 32000}
FRENCH = {"encoder_attention.dropout": 0.0, "decoder_attention.dropout": 0.0}
LARGER, TURKISH = {"budget": "150000steps", "validations_per_epoch": 2}, {"budget": "20000steps"}
PAIRS = {
    **{pair: Pair({}, {"validations_per_epoch": 3}, corpus=f"wmt14-{pair}") for pair in ("en-de", "de-en")},
    "en-fr": Pair(FRENCH, {"validations_per_epoch": 28}, corpus="wmt14-en-fr"),
    **{pair: Pair(SMALLER, LARGER, corpus=f"wmt17-{pair}") for pair in ("en-lv", "lv-en", "en-fi", "fi-en")},
    **{pair: Pair(SMALLER, TURKISH, corpus=f"wmt17-{pair}") for pair in ("en-tr", "tr-en")},
    "zh-en": Pair(
        {**SMALLER, "joint": False, "length_penalty": 1.0},
        {"budget": "150000steps"},
        tests=("test", "mt04", "mt05", "mt06", "mt08"),
    ),
}


def entry(name, places):
    """One of the paper's systems."""
    system = transformer(name, "Zeng, sections 3 and 4", data=DATA, search=SEARCH, **places)
    return Entry(system, PAPER.get(name, {}), BASELINES.get(name, "transformer"))


# Of each picture: its file, the command that draws it, and its caption.
PICTURES = """
speed-by-batch.png | speed transformer ran-all --by batch --sentences 200 | Decoding speed by batch size
speed-by-beam.png | speed transformer ran-all --by beam --sentences 200 | Decoding speed by the number of beams
curves.png | curves --difference {systems} | Validation loss over training steps, how far above the Transformer's
entropy.png | entropy --over-seeds transformer synthesizer ran-all | Entropy of the attention of each layer
weights-encoder.png | weights {three} --places encoder | Attention weights in layers of the encoder
weights-decoder.png | weights {three} --places decoder | Attention weights in layers of the decoder
matrices.png | matrices ran-all | The learned matrices of RAN
matrices-synthesizer.png | matrices synthesizer | The learned matrices of the Random Synthesizer
divergence.png | divergence --over-seeds transformer synthesizer ran-all | Jensen-Shannon divergence between layers
by-source-length.png | by-length {rans} --side source | BLEU by the length of the source, with intervals of 95 %
by-target-length.png | by-length {rans} --side target | BLEU by the length of the reference, with intervals of 95 %
""".format(
    three="transformer synthesizer ran-all --layers 1 3 6",
    rans="--over-seeds transformer ran-e ran-d ran-all",
    systems=f"--over-seeds {' '.join(LABELS)}",
)
PICTURED = {line.split(" | ")[0]: line.split(" | ")[1:] for line in PICTURES.strip().splitlines()}
CAPTIONS = {file: caption for file, (_, caption) in PICTURED.items()}
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
SMALL = {"width": 256, "num_heads": 4, "ffn_dim": 1024, "encoder_layers": 2, "decoder_layers": 2}
SETTINGS = {"summarization": BATCHES, "dialogue": {**BATCHES, **SMALL, "vocabulary_size": 30000}}
STEPS = {"summarization": "300000steps", "dialogue": "20000steps"}
TEXTS = {"summarization": "CNN/Daily Mail", "dialogue": "PersonaChat"}
CORPORA = {"summarization": "cnn-dailymail", "dialogue": "personachat"}


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
            "entropy.png": "entropy --over-seeds transformer synthesizer ran-all",
            "by-target-length.png": "by-length --over-seeds transformer ran-e ran-d ran-all --side target",
        },
        tables=(
            PaperTable(
                "Table 4",
                f"Experimental results on {task}",
                columns=[
                    Line("BLEU-4" if measure == "BLEU" else measure, measure=measure) for measure in COLUMNS[task]
                ],
                rows=[
                    Line(LABELS[name], entry=name, figures=" ".join(figures)) for name, figures in TABLE_4[task].items()
                ],
                corner="Model",
                baseline="transformer",
                text=TEXTS[task],
            ),
        ),
        about=f"Does RAN do as well where source and target are of one language? The paper tries {task}.",
        findings=(
            Finding(
                "RAN is competitive with the Transformer",
                "§5, Table 4",
                (LEVEL, BETTER),
                [Contrast(name, "transformer", measure) for name in RANS for measure in COLUMNS[task]],
            ),
        ),
        captions=CAPTIONS
        | {"by-target-length.png": f"{COLUMNS[task][0]} by the length of the reference, with intervals of 95 %"},
        note=f"In brackets: the paper's own figures, for {TEXTS[task]}.",
        corpus=CORPORA[task],
    )


RECIPE = Recipe(
    title="Zeng: recurrent attention (RAN)",
    entries={name: entry(name, places) for name, places in SYSTEMS.items()},
    published={"budget": "250000steps", "patience": None},
    default=("transformer", "gaussian", "synthesizer", "ran-e", "ran-d", "ran-all"),
    pictures={file: command for file, (command, _) in PICTURED.items()},
    about="Most heads of self-attention learn simple patterns of positions. The paper replaces self-attention "
    "by matrices that are learned, the same for every sentence, and refined from layer to layer (RAN), "
    "and asks whether comparing tokens with one another is needed at all.",
    findings=FINDINGS,
    captions=CAPTIONS,
    tasks={task: task_recipe(task) for task in TABLE_4},
    tables=TABLES,
    pairs=PAIRS,
    note="In brackets: the paper's own SacreBLEU, for WMT 2014 English-German, 4.5 million sentence pairs, "
    "newstest2014, beam 4, length penalty 0.6.",
)

if __name__ == "__main__":
    sys.exit(run_recipe(RECIPE, __doc__))

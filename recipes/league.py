"""The league: every mechanism in its place in one Transformer or one RNN, all of one size, on one text.

What are the mechanisms of ten years worth for translation, under equal conditions? One small Transformer has each
mechanism of the registry wherever it fits: as self-attention of encoder and decoder, and as cross-attention; then
positions, normalisers, norms and gated networks, and `transformer-2026`, which has several of them.
Cross-attention without heads stands in one RNN. The width of the feed-forward networks, in the RNN that of its states,
takes the difference, so that all have as many parameters as `transformer`, within 1 %; `--set ffn_dim` gives that of
`transformer`. `tables.md` in `--out` ranks them, and `page.md` has the pictures too.

Examples:
  python recipes/league.py --train train.de.gz train.en.gz --valid val.de.gz val.en.gz --test test.de.gz test.en.gz \\
      --out runs/league --seeds 1 2 3
  python recipes/league.py --reverse --train train.tsv.gz --valid valid.tsv.gz --test test.tsv.gz --out runs/tatoeba \\
      --systems transformer,rotary,linear --seeds 1 2 3 --tune learning_rate=1e-3,2e-3
  python recipes/league.py --train train.de train.en --bitext test.de-en --gold gold.talp --gold-format talp \\
      --out runs/league --time
  python recipes/league.py --scale smoke --out runs/smoke

How it is run:
- Each system has the learning rate, one of three, with which the first seed's validation loss is lowest, see `--tune`.
- Training ends when the validation loss has not fallen in three rounds; a round is an epoch.
- Sentences of more than 20 words are not trained on. The text "joined" is the test text, consecutive sentences of which
  are joined to 20 to 60 words: how far a system translates beyond the lengths that it knows.
- Whether a system differs from the baseline of its body, in BLEU of either text, is a test that counts seeds and
  sentences. Its p-values are corrected by Holm's method for all comparisons of the table, so that of a hundred
  equal systems, five do not seem to differ. It needs three seeds.
- The state is counted: numbers that a search carries from position to position, for one hypothesis of 50 tokens.
- `luong_dot` compares states of encoder and decoder as they are, so that its encoder reads in one direction alone.
- Luong, local and Gaussian mixture attention are queried by the current state of the RNN's decoder, with input feeding;
  all others by the previous state.
"""

import sys

from keras_attn_zoo.cli.recipe import run_recipe
from keras_attn_zoo.runs.named_systems import SYSTEMS as NAMED
from keras_attn_zoo.runs.named_systems import TRANSFORMER_2026
from keras_attn_zoo.runs.registered_mechanisms import registered_mechanisms
from keras_attn_zoo.runs.settings import DataSettings, SearchSettings, TrainingSettings
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Entry, Recipe
from keras_attn_zoo.studies.paper_tables import Line, Ranking
from keras_attn_zoo.support.choices import RELATIVE_POSITIONS

DATA = DataSettings(
    vocabulary_size=8000, joint=True, max_words=20, max_tokens=128, sentences_per_batch=None, tokens_per_batch=2048
)
TRAINING = TrainingSettings(
    epochs=100,
    validations_per_epoch=1,
    patience=3,
    schedule="inverse_sqrt",
    warmup_steps=1000,
    label_smoothing=0.1,
)
SEARCH = SearchSettings(beams=4, length_penalty=0.6)
BODIES = {
    "transformer": {
        "width": 128,
        "num_heads": 4,
        "ffn_dim": 512,
        "encoder_layers": 3,
        "decoder_layers": 3,
        "max_length": None,
        "tie_embeddings": "all",
        "dropout": 0.2,
    },
    "rnn": {"embedding_dim": 128, "hidden_dim": 192, "readout": "maxout", "tie_embeddings": "all", "dropout": 0.2},
}
BASELINES = {"transformer": "transformer", "rnn": "bahdanau"}
# Settings with which a mechanism is defined, from its named system.
DEFINED_WITH = ("attention_query", "input_feeding", "bidirectional")
NEEDED = {
    name: {key: value for key, value in own.backbone.items() if key in DEFINED_WITH} for name, own in NAMED.items()
}
NEEDED["gaussian-mixture"] = NEEDED["luong-general"]


def everywhere(**arguments):
    """Multi-head attention with some arguments, in every place."""
    return {f"{place}_attention": {"attention": "multi_head", **arguments} for place in ("encoder", "decoder", "cross")}


# What is no mechanism of its own.
VARIANTS = {
    **{name: {f"{side}_positions": name for side in ("encoder", "decoder")} for name in RELATIVE_POSITIONS},
    "softmax1": everywhere(normalizer="softmax1"),
    "sigmoid": everywhere(normalizer="sigmoid"),
    "query-key-norm": everywhere(query_key_norm=True),
    "rms-norm": {"norm": "rms"},
    "swiglu": {"activation": "swiglu"},
    "transformer-2026": TRANSFORMER_2026,
}


def system(name, body, **settings):
    """A system of the league."""
    return System(name, {**BODIES[body], **settings}, DATA, TRAINING, SEARCH, body=body)


def of_mechanism(one):
    """The system of a mechanism: in the RNN if it has no heads and looks at the source."""
    name = one.name.replace("_", "-")
    if one.places == ("cross",) and not one.has_heads:
        return system(name, "rnn", cross_attention=one.name, **NEEDED.get(name, {}))
    return system(name, "transformer", **{f"{place}_attention": one.name for place in one.places})


MECHANISMS = {own.name: own for own in map(of_mechanism, registered_mechanisms()) if own.name != "multi-head"}
SYSTEMS = {
    "transformer": system("transformer", "transformer"),
    **MECHANISMS,
    **{name: system(name, "transformer", **settings) for name, settings in VARIANTS.items()},
}
# Of every kind one or two.
SMOKE = (
    *("transformer", "sliding-window", "linear", "gated-delta", "previous-weight", "rotary", "grouped-query"),
    *("transformer-2026", "bahdanau", "coverage"),
)
LENGTHS = ("transformer", "rotary", "alibi", "t5", "linear", "transformer-2026", "bahdanau")
RECIPE = Recipe(
    "The league of mechanisms",
    {
        name: Entry(own, baseline=BASELINES[own.body] if name not in BASELINES.values() else None)
        for name, own in SYSTEMS.items()
    },
    default=tuple(SYSTEMS),
    smoke=SMOKE,
    tune={"learning_rate": [7e-4, 1.5e-3, 3e-3]},
    equal_to="transformer",
    joined=(20, 60),
    about="What are the attention mechanisms of ten years worth for translation, under equal conditions? Each is in "
    "its place in one small Transformer or, without heads, in one RNN; all have as many parameters and the same text.",
    tables=(
        Ranking(
            "Ranking",
            "all systems by BLEU, mean ± standard deviation over seeds",
            [
                Line("BLEU", measure="BLEU"),
                Line("BLEU, joined", measure="BLEU", split="joined"),
                Line("chrF", measure="chrF"),
                Line("perplexity", measure="perplexity"),
                Line("AER", measure="AER", split="gold"),
                Line("parameters", measure="parameters"),
                Line("memory", measure="memory of a step"),
                Line("training, s", measure="training time"),
                Line("translation, s", measure="translation time"),
            ],
            compared=("BLEU", "BLEU, joined"),
            entries=tuple(SYSTEMS),
        ),
    ),
    pictures={
        "trade-off.png": f"trade-off --over-seeds {' '.join(SYSTEMS)}",
        "by-length.png": f"by-length --over-seeds {' '.join(LENGTHS)} --name joined --side target --bounds 30 40 50",
    },
    captions={
        "trade-off.png": "BLEU over the time of a translation; the area is the state of a search",
        "by-length.png": "BLEU of joined sentences by the length of the reference; sentences of training have at "
        "most 20 words",
    },
)

if __name__ == "__main__":
    sys.exit(run_recipe(RECIPE, __doc__))

"""The settings of a system: what makes it, trains it and searches with it; plain data, checked on entry."""

import dataclasses
import typing

from keras_attn_zoo.errors import UserError, check_counts, check_rates

_SCHEDULES = ("constant", "inverse_sqrt", "halving", "plateau")
_MODEL_TYPES = ("bpe", "unigram", "word", "char")


class _Checked:
    """Settings whose types and ranges are checked when they are made."""

    # Name to what is wanted, and a function that says whether a value, not None, is that.
    _wanted: typing.ClassVar = {}

    def __post_init__(self):
        for field, kind in typing.get_type_hints(type(self)).items():
            if field not in self.__dataclass_fields__:
                continue
            kinds = typing.get_args(kind) or (kind,)
            value = getattr(self, field)
            # A whole number is a number too; a truth value is none.
            fits = isinstance(value, kinds) or (float in kinds and isinstance(value, int))
            if not fits or (isinstance(value, bool) and bool not in kinds):
                names = " or ".join("None" if k is type(None) else k.__name__ for k in kinds)
                raise UserError(f"the setting {field} takes {names}; received {value!r}.")
            wanted, holds = self._wanted.get(field, ("", None))
            if holds is not None and value is not None and not holds(value):
                raise UserError(f"the setting {field} must be {wanted}; received {value!r}.")


def _at_least(least):
    return (f"at least {least}", lambda value: value >= least)


def _one_of(names):
    return (f"one of {', '.join(names)}", lambda value: value in names)


_POSITIVE = ("greater than 0", lambda value: value > 0)
_SHARE = ("between 0 and 1", lambda value: 0 <= value <= 1)


@dataclasses.dataclass(frozen=True)
class DataSettings(_Checked):
    """How text becomes batches.

    Attributes:
        vocabulary_size: subwords of each model.
        model_type: "bpe", "unigram", "word" or "char".
        joint: one subword model for both sides.
        byte_fallback: write unknown characters as bytes.
        min_words, max_words: bounds on the words of a training sentence, on either side.
        max_length_ratio: bound on the ratio of the two sides; None for none.
        drop_duplicates: whether to keep a training pair once.
        max_tokens: most subwords of a sentence.
        sentences_per_batch, tokens_per_batch: budget of a batch; exactly one.
        bucket_count: number of batch shapes.
    """

    vocabulary_size: int | None = 8000
    model_type: str = "bpe"
    joint: bool = False
    byte_fallback: bool = False
    min_words: int = 1
    max_words: int | None = None
    max_length_ratio: float | None = None
    drop_duplicates: bool = False
    max_tokens: int = 100
    sentences_per_batch: int | None = 128
    tokens_per_batch: int | None = None
    bucket_count: int = 6

    _wanted = {
        "vocabulary_size": _at_least(5),
        "model_type": _one_of(_MODEL_TYPES),
        "min_words": _at_least(1),
        "max_words": _at_least(1),
        "max_length_ratio": _at_least(1),
        "max_tokens": _at_least(3),
        "sentences_per_batch": _at_least(1),
        "tokens_per_batch": _at_least(1),
        "bucket_count": _at_least(1),
    }


@dataclasses.dataclass(frozen=True)
class TrainingSettings(_Checked):
    """How a system is trained.

    Attributes:
        epochs: readings of the corpus, at most.
        validations_per_epoch: rounds of an epoch.
        learning_rate: of Adam, at its peak.
        schedule: "constant", "inverse_sqrt" (with `warmup_steps`), "halving" (from step `decay_start` on, every
            `decay_every` steps) or "plateau" (times `plateau_factor` after `plateau_patience` rounds without gain).
        clip_norm: bound on the norm of the gradient; None for none.
        label_smoothing: share of the probability that is spread over the vocabulary.
        accumulation_steps: parts in which a batch is taken.
        teacher_forcing: probability of feeding the gold token at the beginning, and
        teacher_forcing_end: from step `teacher_forcing_steps` on; None keeps it constant.
        best_by: "loss" or "bleu" on the validation set.
        bleu_sentences: validation sentences that are translated for "bleu".
        patience: rounds without gain before training stops; None never stops early.
        word_vectors_source, word_vectors_target: text files of word vectors to begin with.
        pretraining_rounds: of an RNN's encoder, rounds that it trains with its first layer alone, then with two, and
            so on; optimiser and all other weights stay. None trains all layers from the start.
    """

    epochs: float = 10
    validations_per_epoch: int = 4
    learning_rate: float = 1e-3
    schedule: str = "constant"
    warmup_steps: int = 4000
    decay_start: int = 16000
    decay_every: int = 4000
    plateau_factor: float = 0.9
    plateau_patience: int = 2
    clip_norm: float | None = 1.0
    label_smoothing: float = 0.0
    accumulation_steps: int = 1
    teacher_forcing: float = 1.0
    teacher_forcing_end: float | None = None
    teacher_forcing_steps: int | None = None
    best_by: str = "loss"
    bleu_sentences: int = 500
    patience: int | None = None
    word_vectors_source: str | None = None
    word_vectors_target: str | None = None
    pretraining_rounds: int | None = None

    _wanted = {
        "epochs": _POSITIVE,
        "validations_per_epoch": _at_least(1),
        "learning_rate": _POSITIVE,
        "schedule": _one_of(_SCHEDULES),
        "warmup_steps": _at_least(1),
        "decay_start": _at_least(0),
        "decay_every": _at_least(1),
        "plateau_factor": ("between 0 and 1", lambda value: 0 < value < 1),
        "plateau_patience": _at_least(0),
        "clip_norm": _POSITIVE,
        "label_smoothing": ("at least 0 and below 1", lambda value: 0 <= value < 1),
        "accumulation_steps": _at_least(1),
        "teacher_forcing": _SHARE,
        "teacher_forcing_end": _SHARE,
        "teacher_forcing_steps": _at_least(1),
        "best_by": _one_of(("loss", "bleu")),
        "bleu_sentences": _at_least(1),
        "patience": _at_least(0),
        "pretraining_rounds": _at_least(1),
    }

    @property
    def samples_tokens(self):
        """Whether the decoder is ever fed its own guesses."""
        return self.teacher_forcing < 1 or self.teacher_forcing_end not in (None, 1)


@dataclasses.dataclass(frozen=True)
class SearchSettings(_Checked):
    """How a system translates.

    Attributes:
        beams: number of hypotheses; 1 is greedy.
        length_penalty: exponent of the length penalty.
        batch_size: sentences searched at once.
        search_top_k: source positions that a latent alignment sums over; 0 for all, None for as many as in training.
    """

    beams: int = 5
    length_penalty: float = 1.0
    batch_size: int = 64
    search_top_k: int | None = None

    _wanted = {
        "beams": _at_least(1),
        "length_penalty": _at_least(0),
        "batch_size": _at_least(1),
        "search_top_k": _at_least(0),
    }


@dataclasses.dataclass(frozen=True)
class System:
    """A named system: a builder with its data, training and search.

    Attributes:
        name: the name by which recipes and the command line know it.
        backbone: arguments of the body's class, vocabularies left out.
        body: "rnn" (`RNNBackbone`) or "transformer" (`TransformerBackbone`).
        data, training, search: the settings.
        seed: fixes weights, data order, dropout and sampling.
        source: paper and section it stands in.
    """

    name: str
    backbone: dict
    data: DataSettings = DataSettings()
    training: TrainingSettings = TrainingSettings()
    search: SearchSettings = SearchSettings()
    seed: int = 1
    source: str = ""
    body: str = "rnn"

    def __post_init__(self):
        """Check the body, the names of its settings, and that settings fit together."""
        if self.body not in BODIES:
            raise UserError(f"the setting body must be one of {', '.join(BODIES)}; received {self.body!r}.")
        if self.training.pretraining_rounds is not None and self.body != "rnn":
            raise UserError(f"pretraining_rounds adds encoder layers of an RNN; received body={self.body!r}.")
        latent = self.backbone.get("output") == "latent"
        if self.training.samples_tokens and (latent or self.body != "rnn"):
            raise UserError(
                "only an RNN without a latent alignment is trained on tokens of its own: leave teacher_forcing and "
                f"teacher_forcing_end at 1; received body={self.body!r}, output={self.backbone.get('output')!r}."
            )
        if self.search.search_top_k is not None and not latent:
            raise UserError(
                "search_top_k counts the source positions of a latent alignment, and needs output='latent'; "
                f"received search_top_k={self.search.search_top_k}."
            )
        for key in self.backbone:
            if key not in BODIES[self.body]:
                raise UserError(
                    f"a system with body={self.body!r} has no setting {key!r}: "
                    f"choose one of {', '.join(sorted(self.settings()))}."
                )
        check_counts(**{key: value for key, value in self.backbone.items() if key in _COUNTS})
        check_rates(**{key: value for key, value in self.backbone.items() if key in _RATES})
        if self.backbone.get("tie_embeddings") == "all" and not self.data.joint:
            raise UserError(
                "tie_embeddings='all' shares one matrix between both languages, and needs joint=True; received "
                "joint=False: take tie_embeddings=target, or joint=True."
            )

    def settings(self):
        """Names of all settings that `override` takes."""
        parts = (DataSettings, TrainingSettings, SearchSettings)
        return {name for part in parts for name in part.__dataclass_fields__} | BODIES[self.body] | {"seed", "name"}

    def to_dict(self):
        """Return plain data for a file."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, value):
        """Read what `to_dict` gave.

        Raises:
            UserError: a setting that does not exist.
        """
        parts = {"data": DataSettings, "training": TrainingSettings, "search": SearchSettings}
        try:
            return cls(**{key: parts[key](**part) if key in parts else part for key, part in value.items()})
        except TypeError as error:
            raise UserError(f"the settings do not fit this version: {error}. Train the system anew.") from None

    def override(self, **settings):
        """Return a copy with settings changed; each is named as in its part, `backbone` entries too.

        Raises:
            UserError: no part has a setting of that name.

        Example:
            >>> System("a", {"hidden_dim": 512}).override(epochs=3, hidden_dim=64).training.epochs
            3
        """
        changed = {"backbone": dict(self.backbone)}
        own = {"seed", "name"}
        for key, value in settings.items():
            part = next(
                (p for p in ("data", "training", "search") if key in getattr(self, p).__dataclass_fields__),
                None,
            )
            if part is not None:
                changed[part] = dataclasses.replace(changed.get(part, getattr(self, part)), **{key: value})
            elif key in own:
                changed[key] = value
            elif key in BODIES[self.body]:
                changed["backbone"][key] = value
            else:
                raise UserError(f"there is no setting {key!r}: choose one of {', '.join(sorted(self.settings()))}.")
        return dataclasses.replace(self, **changed)


# Arguments of the bodies' constructors: known here without importing Keras.
_COUNTS = ("width", "num_heads", "ffn_dim", "embedding_dim", "hidden_dim", "encoder_layers", "decoder_layers", "top_k")
_COUNTS += ("max_length",)
_RATES = ("dropout", "attention_dropout", "activation_dropout")
_OUTPUT = ("output", "marginalization", "top_k")
BODIES = {
    "rnn": frozenset(
        [
            *_OUTPUT,
            "embedding_dim",
            "hidden_dim",
            "cell",
            "encoder_layers",
            "decoder_layers",
            "bidirectional",
            "cross_attention",
            "attention_query",
            "input_feeding",
            "readout",
            "readout_dim",
            "readout_embedding",
            "initial_state",
            "tie_embeddings",
            "dropout",
        ]
    ),
    "transformer": frozenset(
        [
            *_OUTPUT,
            "width",
            "num_heads",
            "ffn_dim",
            "encoder_layers",
            "decoder_layers",
            "encoder_attention",
            "decoder_attention",
            "cross_attention",
            "normalization",
            "encoder_positions",
            "decoder_positions",
            "max_length",
            "tie_embeddings",
            "dropout",
            "attention_dropout",
            "activation_dropout",
            "attention_layer",
        ]
    ),
}

"""The settings of a system: what makes it, trains it and searches with it; one table, plain data, checked on entry."""

import dataclasses

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments.setting import Choice, Mechanism, Number, Switch, Text, Whole, shown_value

# The most of what a mistyped number must not make: more is out of reach of any machine, or of any patience.
_STEPS, _ROUNDS, _WORDS, _TOKENS, _DIM, _LAYERS, _PATH = 1_000_000_000, 10_000, 10_000, 10_000, 65_536, 100, 4096

# The four special pieces and one more.
SMALLEST_VOCABULARY = 5


def _field(setting):
    return dataclasses.field(default=setting.default, metadata={"setting": setting})


def _rate(default, help):
    return Number(default=default, help=help, least=0, most=1, below=True)


class _Checked:
    """Settings whose types and bounds are checked when they are made; a whole number becomes a rate where one is."""

    def __post_init__(self):
        for name, setting in settings_of(type(self)).items():
            object.__setattr__(self, name, setting.check(getattr(self, name), f"the setting {name}"))


@dataclasses.dataclass(frozen=True)
class DataSettings(_Checked):
    """How text becomes batches; `attn-zoo train --help` says what each setting is.

    Raises:
        UserError: a setting of another type or out of bounds; settings that do not fit together.

    Example:
        >>> DataSettings(max_words=50).max_words
        50
    """

    vocabulary_size: int | None = _field(
        Whole(
            default=8000,
            help="subwords of each model; None, of words and characters: all",
            optional=True,
            least=SMALLEST_VOCABULARY,
            most=1_000_000,
        )
    )
    model_type: str = _field(
        Choice(default="bpe", help="what pieces text is cut into", choices=("bpe", "unigram", "word", "char"))
    )
    joint: bool = _field(Switch(default=False, help="one subword model for both sides"))
    byte_fallback: bool = _field(Switch(default=False, help="write unknown characters as bytes"))
    min_words: int = _field(
        Whole(default=1, help="fewest words of a training sentence, on either side", least=1, most=_WORDS)
    )
    max_words: int | None = _field(
        Whole(help="most words of it; None for no bound", optional=True, least=1, most=_WORDS)
    )
    max_length_ratio: float | None = _field(
        Number(
            help="most words of the longer side for each word of the shorter; None for no bound",
            optional=True,
            least=1,
            most=1000,
        )
    )
    drop_duplicates: bool = _field(Switch(default=False, help="keep a training pair once"))
    max_tokens: int = _field(
        Whole(default=100, help="most subwords of a sentence, start and end tokens included", least=3, most=_TOKENS)
    )
    sentences_per_batch: int | None = _field(
        Whole(
            default=128,
            help="sentence pairs of a batch; this or tokens_per_batch, the other is None",
            optional=True,
            least=1,
            most=100_000,
        )
    )
    tokens_per_batch: int | None = _field(
        Whole(help="most padded positions of a side of a batch", optional=True, least=1, most=10_000_000)
    )
    bucket_count: int = _field(Whole(default=6, help="number of batch shapes, at most", least=1, most=100))

    def __post_init__(self):
        """Check every setting, and what must fit together."""
        super().__post_init__()
        if (self.sentences_per_batch is None) == (self.tokens_per_batch is None):
            raise UserError(
                "one of sentences_per_batch and tokens_per_batch is set, and the other is None; received "
                f"sentences_per_batch={self.sentences_per_batch}, tokens_per_batch={self.tokens_per_batch}."
            )
        if self.vocabulary_size is None and self.model_type not in ("word", "char"):
            raise UserError(f"model_type={self.model_type!r} needs a vocabulary_size; received None.")
        if self.byte_fallback and self.model_type == "word":
            raise UserError("model_type='word' has no byte_fallback: leave it out, or take another model_type.")
        if self.max_words is not None and self.max_words < self.min_words:
            raise UserError(
                f"max_words={self.max_words} is less than min_words={self.min_words}: no sentence would be left."
            )


@dataclasses.dataclass(frozen=True)
class TrainingSettings(_Checked):
    """How a system is trained; `attn-zoo train --help` says what each setting is.

    Raises:
        UserError: a setting of another type or out of bounds; settings that do not fit together.

    Example:
        >>> TrainingSettings(epochs=3, learning_rate=5e-4).epochs
        3.0
    """

    epochs: float = _field(
        Number(
            default=10.0,
            help="readings of the corpus, at most; a fraction is allowed",
            least=0,
            most=10_000,
            above=True,
        )
    )
    validations_per_epoch: int = _field(Whole(default=4, help="rounds of an epoch", least=1, most=1000))
    learning_rate: float = _field(
        Number(default=1e-3, help="learning rate of Adam, at its peak", least=0, most=10, above=True)
    )
    schedule: str = _field(
        Choice(
            default="constant",
            help="how the learning rate changes",
            choices=("constant", "inverse_sqrt", "halving", "plateau"),
        )
    )
    warmup_steps: int = _field(Whole(default=4000, help="steps of warm-up of inverse_sqrt", least=1, most=_STEPS))
    decay_start: int = _field(Whole(default=16000, help="first step at which halving halves", least=0, most=_STEPS))
    decay_every: int = _field(Whole(default=4000, help="steps from there to the next", least=1, most=_STEPS))
    plateau_factor: float = _field(
        Number(default=0.9, help="factor of plateau", least=0, most=1, above=True, below=True)
    )
    plateau_patience: int = _field(
        Whole(default=2, help="rounds without gain before plateau lowers the rate", least=0, most=_ROUNDS)
    )
    clip_norm: float | None = _field(
        Number(
            default=1.0,
            help="bound on the norm of the whole gradient; None for none",
            optional=True,
            least=0,
            most=1_000_000_000,
            above=True,
        )
    )
    label_smoothing: float = _field(_rate(0.0, "share of the probability that is spread over the vocabulary"))
    accumulation_steps: int = _field(
        Whole(default=1, help="parts in which a batch is taken, to save memory", least=1, most=10_000)
    )
    teacher_forcing: float = _field(
        Number(default=1.0, help="probability of feeding the gold token, at the beginning", least=0, most=1)
    )
    teacher_forcing_end: float | None = _field(
        Number(
            help="the same from step teacher_forcing_steps on; None keeps it constant", optional=True, least=0, most=1
        )
    )
    teacher_forcing_steps: int | None = _field(
        Whole(help="steps of the linear decay", optional=True, least=1, most=_STEPS)
    )
    best_by: str = _field(
        Choice(default="loss", help="what the best round is best by, on the validation text", choices=("loss", "bleu"))
    )
    bleu_sentences: int = _field(
        Whole(
            default=500,
            help="validation sentences that are translated for bleu, the first ones",
            least=1,
            most=1_000_000,
        )
    )
    patience: int | None = _field(
        Whole(
            help="rounds without gain before training stops; None never stops early",
            optional=True,
            least=0,
            most=_ROUNDS,
        )
    )
    word_vectors_source: str | None = _field(
        Text(help="text file of word vectors to begin with, of the source", optional=True, longest=_PATH)
    )
    word_vectors_target: str | None = _field(Text(help="the same of the target", optional=True, longest=_PATH))
    pretraining_rounds: int | None = _field(
        Whole(
            help="rounds after which an RNN's encoder gets its next layer; None trains all from the start",
            optional=True,
            least=1,
            most=_ROUNDS,
        )
    )

    def __post_init__(self):
        """Check every setting, and what must fit together."""
        super().__post_init__()
        if self.teacher_forcing_end not in (None, self.teacher_forcing) and self.teacher_forcing_steps is None:
            raise UserError(
                f"teacher forcing decays from {self.teacher_forcing:g} to {self.teacher_forcing_end:g}: say in how "
                "many steps (teacher_forcing_steps)."
            )

    @property
    def samples_tokens(self):
        """Whether the decoder is ever fed its own guesses."""
        return self.teacher_forcing < 1 or self.teacher_forcing_end not in (None, 1)


@dataclasses.dataclass(frozen=True)
class SearchSettings(_Checked):
    """How a system translates; `attn-zoo train --help` says what each setting is.

    Raises:
        UserError: a setting of another type or out of bounds.

    Example:
        >>> SearchSettings(beams=12).beams
        12
    """

    beams: int = _field(Whole(default=5, help="hypotheses kept; 1 is greedy", least=1, most=1000))
    length_penalty: float = _field(Number(default=1.0, help="exponent of the length penalty", least=0, most=10))
    batch_size: int = _field(Whole(default=64, help="sentences searched at once", least=1, most=10_000))
    search_top_k: int | None = _field(
        Whole(
            help="source positions that a latent alignment sums over; 0 for all, None for as many as in training",
            optional=True,
            least=0,
            most=_TOKENS,
        )
    )


def _layers(default, side):
    return Whole(default=default, help=f"layers of the {side}", least=1, most=_LAYERS)


_TIE_EMBEDDINGS = Choice(
    default="none",
    help="target shares the target's embedding with the output, all the source's too and needs joint=True",
    choices=("none", "target", "all"),
)
# Arguments of the bodies' constructors, with their defaults: known here without importing Keras.
_OUTPUT = {
    "output": Choice(
        default="softmax", help="softmax, or latent: a mixture over source positions", choices=("softmax", "latent")
    ),
    "marginalization": Choice(
        default="exact", help="sum of a latent alignment in training", choices=("exact", "top_k")
    ),
    "top_k": Whole(default=6, help="how many positions top_k sums over", least=1, most=_TOKENS),
}
_RNN = {
    "embedding_dim": Whole(default=256, help="width of the embeddings", least=1, most=_DIM),
    "hidden_dim": Whole(
        default=512, help="width of a decoder state, and of an encoder state a direction", least=1, most=_DIM
    ),
    "cell": Choice(default="gru", help="recurrent cell", choices=("gru", "lstm")),
    "encoder_layers": _layers(1, "encoder"),
    "decoder_layers": _layers(1, "decoder"),
    "bidirectional": Switch(default=True, help="whether the encoder reads in both directions"),
    "cross_attention": Mechanism(default="bahdanau", help="mechanism of the cross-attention"),
    "attention_query": Choice(
        default="previous_state",
        help="decoder state that asks the attention",
        choices=("previous_state", "current_state"),
    ),
    "input_feeding": Switch(default=False, help="whether the previous readout enters the decoder's cells"),
    "readout": Choice(
        default="linear",
        help="what stands before the output; state: the decoder state alone",
        choices=("linear", "tanh", "maxout", "state"),
    ),
    "readout_dim": Whole(
        help="its width; None takes the concatenation, hidden_dim or embedding_dim",
        optional=True,
        least=1,
        most=_DIM,
    ),
    "readout_embedding": Switch(default=True, help="whether the readout sees the previous token"),
    "initial_state": Choice(
        default="linear", help="map from the encoder's last states to the decoder's first", choices=("linear", "tanh")
    ),
    "tie_embeddings": _TIE_EMBEDDINGS,
    "dropout": _rate(0.0, "dropout on embeddings, between layers, on the readout"),
}
_POSITIONS = ("sine", "learned", "none")
_TRANSFORMER = {
    "width": Whole(default=512, help="width of the model", least=1, most=_DIM),
    "num_heads": Whole(default=8, help="heads of an attention", least=1, most=1024),
    "ffn_dim": Whole(default=2048, help="hidden width of the feed-forward networks", least=1, most=4 * _DIM),
    "encoder_layers": _layers(6, "encoder"),
    "decoder_layers": _layers(6, "decoder"),
    "encoder_attention": Mechanism(
        default="multi_head", help="mechanism of the encoder's self-attention", layers=_LAYERS
    ),
    "decoder_attention": Mechanism(
        default="multi_head", help="mechanism of the decoder's self-attention", layers=_LAYERS
    ),
    "cross_attention": Mechanism(default="multi_head", help="mechanism of the cross-attention", layers=_LAYERS),
    "normalization": Choice(
        default="post", help="where each part of a layer is normalised: after it, or before", choices=("post", "pre")
    ),
    "encoder_positions": Choice(default="sine", help="positions of the encoder", choices=_POSITIONS),
    "decoder_positions": Choice(default="sine", help="positions of the decoder", choices=_POSITIONS),
    "max_length": Whole(
        help="longest sentence of mechanisms and learned positions, which have to know it; None: 1.25 times max_tokens",
        optional=True,
        least=1,
        most=2 * _TOKENS,
    ),
    "tie_embeddings": _TIE_EMBEDDINGS,
    "dropout": _rate(0.1, "dropout on embeddings and on what each part of a layer adds"),
    "attention_dropout": _rate(0.0, "dropout on attention weights"),
    "activation_dropout": _rate(0.0, "dropout on the networks' hidden layers"),
    "attention_layer": Whole(
        default=-1,
        help="decoder layer whose attention stands for the alignment, from 0, or from -1 back; all for the mean",
        least=-_LAYERS,
        most=_LAYERS - 1,
        words=("all",),
    ),
}
BODIES = {"rnn": {**_RNN, **_OUTPUT}, "transformer": {**_TRANSFORMER, **_OUTPUT}}
_SYSTEM = {
    "seed": Whole(default=1, help="fixes weights, data order, dropout and sampling", least=0, most=2**32 - 1),
    "name": Text(help="name of the system, in logs and scores", longest=100),
}
_PARTS = {"data": DataSettings, "training": TrainingSettings, "search": SearchSettings}


def settings_of(part):
    """Return the settings of one of the three classes above, by name."""
    return {field.name: field.metadata["setting"] for field in dataclasses.fields(part)}


# The table: every setting by the part that it stands in, which makes `--set`, the checks, `--help` and the docs.
SETTINGS = {
    "Data": settings_of(DataSettings),
    "Training": settings_of(TrainingSettings),
    "Search": settings_of(SearchSettings),
    "RNN": _RNN,
    "Transformer": _TRANSFORMER,
    "Output": _OUTPUT,
    "System": _SYSTEM,
}


def parse_settings(items):
    """Read settings that were typed as NAME=VALUE.

    Args:
        items: strings; the last of a name counts.

    Returns:
        a dict of names and values, each in the type of its setting.

    Raises:
        UserError: no equals sign, a name that no system has, a value of another type or out of bounds.

    Example:
        >>> parse_settings(["epochs=3", "bidirectional=no", "clip_norm=none"])
        {'epochs': 3.0, 'bidirectional': False, 'clip_norm': None}
    """
    found = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals:
            raise UserError(f"--set takes NAME=VALUE; received {shown_value(item)}.")
        # Both bodies have settings of one name: what only one of them takes, its systems decide.
        for setting in {id(part[name]): part[name] for part in SETTINGS.values() if name in part}.values():
            try:
                found[name] = setting.parse(text, f"the setting {name}")
                break
            except UserError as error:
                refusal = error
        else:
            if not any(name in part for part in SETTINGS.values()):
                raise _unknown(name, {name for part in SETTINGS.values() for name in part})
            raise refusal
    return found


def _unknown(name, names):
    return UserError(f"there is no setting {shown_value(name)}: choose one of {', '.join(sorted(names))}.")


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

    Raises:
        UserError: a setting that its body has not, of another type or out of bounds; settings that do not fit together.
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
        """Check every setting, and that they fit together."""
        if not isinstance(self.body, str) or self.body not in BODIES:
            raise UserError(f"the setting body must be one of {', '.join(BODIES)}; received {shown_value(self.body)}.")
        for name, setting in _SYSTEM.items():
            object.__setattr__(self, name, setting.check(getattr(self, name), f"the setting {name}"))
        for name, kind in {**_PARTS, "backbone": dict, "source": str}.items():
            if not isinstance(getattr(self, name), kind):
                received = shown_value(getattr(self, name))
                raise UserError(f"the settings of {self.name!r} are damaged: {name} is {received}.")
        checked = {}
        for key, value in self.backbone.items():
            if key not in BODIES[self.body]:
                raise UserError(
                    f"a system with body={self.body!r} has no setting {shown_value(key)}: "
                    f"choose one of {', '.join(sorted(self.settings()))}."
                )
            checked[key] = BODIES[self.body][key].check(value, f"the setting {key}")
        object.__setattr__(self, "backbone", checked)
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
        if self.backbone.get("tie_embeddings") == "all" and not self.data.joint:
            raise UserError(
                "tie_embeddings='all' shares one matrix between both languages, and needs joint=True; received "
                "joint=False: take tie_embeddings=target, or joint=True."
            )

    def settings(self):
        """Names of all settings that `override` takes."""
        parts = (*map(settings_of, _PARTS.values()), BODIES[self.body], _SYSTEM)
        return {name for part in parts for name in part}

    def to_dict(self):
        """Return plain data for a file."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, value):
        """Read what `to_dict` gave.

        Raises:
            UserError: a setting that does not exist, or a value that it cannot have.
        """
        if not isinstance(value, dict):
            raise UserError(f"the settings of a system are damaged: received {shown_value(value)}.")
        try:
            return cls(**{key: _PARTS[key](**part) if key in _PARTS else part for key, part in value.items()})
        except TypeError as error:
            raise UserError(f"the settings do not fit this version: {error}. Train the system anew.") from None

    def override(self, **settings):
        """Return a copy with settings changed; each is named as in its part, `backbone` entries too.

        Raises:
            UserError: no part has a setting of that name.

        Example:
            >>> System("a", {"hidden_dim": 512}).override(epochs=3, hidden_dim=64).training.epochs
            3.0
        """
        # All settings of a part at once: one may fit only beside another.
        changed = {}
        for key, value in settings.items():
            part = next((name for name, kind in _PARTS.items() if key in settings_of(kind)), None)
            if part is not None:
                changed.setdefault(part, {})[key] = value
            elif key in _SYSTEM:
                changed[key] = value
            elif key in BODIES[self.body]:
                changed.setdefault("backbone", dict(self.backbone))[key] = value
            else:
                raise _unknown(key, self.settings())
        for part in _PARTS:
            if part in changed:
                changed[part] = dataclasses.replace(getattr(self, part), **changed[part])
        return dataclasses.replace(self, **changed)

    def understood(self, settings):
        """Return those of some settings that mean something in this system: its body has them, and its output.

        Args:
            settings: a dict of names and values, for systems of either body.

        Example:
            >>> System("a", {}).understood({"epochs": 3.0, "num_heads": 4, "search_top_k": 2})
            {'epochs': 3.0}
        """
        latent = settings.get("output", self.backbone.get("output")) == "latent"
        without = set()
        if self.body != "rnn":
            without |= {"pretraining_rounds"}
        if self.body != "rnn" or latent:
            without |= {name for name in settings_of(TrainingSettings) if name.startswith("teacher_forcing")}
        if not latent:
            without |= {"search_top_k"}
        known = self.settings() - without
        return {name: value for name, value in settings.items() if name in known}

"""The settings of data, training and search: plain data, checked on entry."""

import dataclasses

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments.setting_types import MOST_TOKENS, Choice, Number, Setting, Switch, Text, Whole, rate

# The most of what a mistyped number must not make: more is out of reach of any machine, or of any patience.
_STEPS, _ROUNDS, _WORDS, _PATH = 1_000_000_000, 10_000, 10_000, 4096

# The four special pieces and one more.
SMALLEST_VOCABULARY = 5


def _field(setting):
    return dataclasses.field(default=setting.default, metadata={"setting": setting})


class _Checked:
    """Settings whose types and bounds are checked on creation; whole numbers become floats if the setting is a rate."""

    def __post_init__(self):
        for name, setting in settings_of(type(self)).items():
            object.__setattr__(self, name, setting.check(getattr(self, name), f"the setting {name}"))


@dataclasses.dataclass(frozen=True)
class DataSettings(_Checked):
    """How text becomes batches; `attn-zoo train --help` explains each setting.

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
        Whole(default=100, help="most subwords of a sentence, start and end tokens included", least=3, most=MOST_TOKENS)
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
        """Check every setting, and that they fit together."""
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
    """How a system is trained; `attn-zoo train --help` explains each setting.

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
    label_smoothing: float = _field(rate("share of the probability that is spread over the vocabulary"))
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
        """Check every setting, and that they fit together."""
        super().__post_init__()
        if self.teacher_forcing_end not in (None, self.teacher_forcing) and self.teacher_forcing_steps is None:
            raise UserError(
                f"teacher forcing decays from {self.teacher_forcing:g} to {self.teacher_forcing_end:g}: say in how "
                "many steps (teacher_forcing_steps)."
            )

    @property
    def samples_tokens(self) -> bool:
        """Whether the decoder is ever fed its own guesses."""
        return self.teacher_forcing < 1 or self.teacher_forcing_end not in (None, 1)


@dataclasses.dataclass(frozen=True)
class SearchSettings(_Checked):
    """How a system translates; `attn-zoo train --help` explains each setting.

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
            most=MOST_TOKENS,
        )
    )


def settings_of(part: type) -> dict[str, Setting]:
    """Return the settings of one of the three classes above, by name."""
    return {field.name: field.metadata["setting"] for field in dataclasses.fields(part)}

"""The settings of data, training and search: plain data, checked on entry."""

import dataclasses

from keras_attn_zoo.data.truncation import KEPT, Truncation
from keras_attn_zoo.evaluation.symmetrization import SYMMETRIZATIONS
from keras_attn_zoo.runs.budget import Budget
from keras_attn_zoo.runs.tasks import TASKS
from keras_attn_zoo.support.choices import ALIGNERS, HIGHEST_PENALTY, MOST_BEAMS, MOST_TOKENS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.setting_types import (
    Choice,
    Number,
    Rate,
    Switch,
    Text,
    Whole,
    Width,
    Words,
    field,
    settings_of,
)

# Upper bounds that catch mistyped numbers: beyond them, no machine and nobody's patience would do.
_STEPS, _ROUNDS, _WORDS, _PATH = 1_000_000_000, 10_000, 10_000, 4096
# SentencePiece gives no more.
_SEGMENTATIONS = 512

# The usual exponent of subword sampling.
_ALPHA = 0.1
# Of sacrebleu, which takes long to import; the first is its usual one.
_TOKENIZERS = ("13a", "intl", "zh", "char", "ja-mecab", "ko-mecab", "flores101", "flores200", "none")

# Parts of a body whose weights may be frozen.
PARTS = ("embeddings", "source_embedding", "target_embedding", "encoder", "decoder", "cross_attention", "output")

# The four special tokens and one more.
SMALLEST_VOCABULARY = 5


class _Checked:
    """Settings whose types and bounds are checked on creation; an integer becomes a float if the setting is one."""

    def __post_init__(self) -> None:
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

    vocabulary_size: int | None = field(
        Whole,
        8000,
        "vocabulary size; None keeps all tokens (word and char models only)",
        optional=True,
        least=SMALLEST_VOCABULARY,
        most=1_000_000,
    )
    model_type: str = field(Choice, "bpe", "units that text is split into", choices=("bpe", "unigram", "word", "char"))
    joint: bool = field(Switch, False, "share one vocabulary between both languages")
    byte_fallback: bool = field(Switch, False, "encode unknown characters as bytes")
    min_words: int = field(Whole, 1, "minimum words per training sentence, on either side", least=1, most=_WORDS)
    max_words: int | None = field(
        Whole, None, "maximum words per training sentence, on either side; None for no limit", least=1, most=_WORDS
    )
    max_length_ratio: float | None = field(
        Number, None, "maximum ratio of the longer side to the shorter, in words; None for no limit", least=1, most=1000
    )
    drop_duplicates: bool = field(Switch, False, "drop repeated training pairs")
    drop_illegal_characters: bool = field(
        Switch, False, "drop training pairs with control, private-use or undecodable characters"
    )
    truecase: str | None = field(
        Choice,
        None,
        "sides whose words take the case they have mid-sentence; translations begin with a capital again",
        choices=("source", "target", "both"),
    )
    subword_sampling_nbest: int | None = field(
        Whole,
        None,
        "number of best segmentations from which each epoch draws one for a training sentence (unigram "
        "models only); None always takes the best",
        least=2,
        most=_SEGMENTATIONS,
    )
    subword_sampling_alpha: float = field(
        Number,
        _ALPHA,
        "exponent of their probabilities in subword sampling: 0 draws evenly, 1 by the model",
        least=0,
        most=100,
    )
    max_tokens: int = field(
        Whole, 100, "maximum tokens per sentence, including start and end tokens", least=3, most=MOST_TOKENS
    )
    truncate_source: int | None = field(
        Whole,
        None,
        "tokens that longer source sentences are cut to, counted as for max_tokens and at most as many; "
        "None leaves them out of training",
        least=3,
        most=MOST_TOKENS,
    )
    truncate_target: int | None = field(
        Whole, None, "likewise for target sentences; test scores compare with the whole ones", least=3, most=MOST_TOKENS
    )
    truncate_keep: str = field(Choice, KEPT[0], "part of a source sentence that stays when it is cut", choices=KEPT)
    sentences_per_batch: int | None = field(
        Whole, 128, "sentence pairs per batch; None if tokens_per_batch is set", optional=True, least=1, most=100_000
    )
    tokens_per_batch: int | None = field(
        Whole,
        None,
        "maximum tokens per side of a batch, padding included; None if sentences_per_batch is set",
        least=1,
        most=10_000_000,
    )
    bucket_count: int = field(Whole, 6, "maximum number of batch shapes", least=1, most=100)
    task: str = field(Choice, "translation", "what is learned, which decides how it is scored", choices=tuple(TASKS))

    def __post_init__(self) -> None:
        """Check every setting, and that they fit together."""
        super().__post_init__()
        if (self.sentences_per_batch is None) == (self.tokens_per_batch is None):
            raise UserError(
                "set either sentences_per_batch or tokens_per_batch, and the other to None; received "
                f"sentences_per_batch={self.sentences_per_batch}, tokens_per_batch={self.tokens_per_batch}."
            )
        if self.vocabulary_size is None and self.model_type not in ("word", "char"):
            raise UserError(f"model_type={self.model_type!r} needs a vocabulary_size; received None.")
        if self.byte_fallback and self.model_type == "word":
            raise UserError(
                "model_type='word' does not support byte_fallback: leave it out, or choose another model_type."
            )
        if self.subword_sampling_nbest is not None and self.model_type != "unigram":
            raise UserError(
                f"subword_sampling_nbest needs model_type='unigram', whose segmentations have probabilities; received "
                f"model_type={self.model_type!r}."
            )
        if self.subword_sampling_nbest is None and self.subword_sampling_alpha != _ALPHA:
            raise UserError(
                f"subword_sampling_alpha={self.subword_sampling_alpha:g} has no effect without "
                "subword_sampling_nbest: set it too, or leave both out."
            )
        if self.max_words is not None and self.max_words < self.min_words:
            raise UserError(
                f"max_words={self.max_words} is less than min_words={self.min_words}: no sentences would be left."
            )

    @property
    def truncation(self) -> Truncation:
        """What sentences are cut to."""
        source, target = (one and min(one, self.max_tokens) for one in (self.truncate_source, self.truncate_target))
        return Truncation(source, target, self.truncate_keep)


@dataclasses.dataclass(frozen=True)
class TrainingSettings(_Checked):
    """How a system is trained; `attn-zoo train --help` explains each setting.

    Raises:
        UserError: a setting of another type or out of bounds; settings that do not fit together.

    Example:
        >>> TrainingSettings(epochs=3, learning_rate=5e-4).epochs
        3.0
    """

    epochs: float = field(Number, 10.0, "maximum number of epochs; may be fractional", least=0, most=10_000, above=True)
    budget: str | None = field(
        Budget,
        None,
        "length of the training in steps, target tokens, or minutes of steps without compilation; None "
        "trains for epochs",
    )
    validations_per_epoch: int = field(Whole, 4, "validations per epoch; each ends a round", least=1, most=1000)
    learning_rate: float = field(Number, 1e-3, "peak learning rate of Adam", least=0, most=10, above=True)
    schedule: str = field(
        Choice,
        "constant",
        "learning-rate schedule",
        choices=("constant", "inverse_sqrt", "cosine", "halving", "plateau"),
    )
    warmup_steps: int = field(
        Whole, 4000, "warm-up steps of the inverse_sqrt and cosine schedules", least=1, most=_STEPS
    )
    decay_start: int = field(
        Whole, 16000, "step at which the halving schedule first halves the rate", least=0, most=_STEPS
    )
    decay_every: int = field(Whole, 4000, "steps from one halving to the next", least=1, most=_STEPS)
    plateau_factor: float = field(
        Number, 0.9, "factor that the plateau schedule multiplies the rate by", least=0, most=1, above=True, below=True
    )
    plateau_patience: int = field(
        Whole, 2, "rounds without improvement before the plateau schedule lowers the rate", least=0, most=_ROUNDS
    )
    clip_norm: float | None = field(
        Number,
        1.0,
        "maximum global gradient norm; None disables clipping",
        optional=True,
        least=0,
        most=1_000_000_000,
        above=True,
    )
    label_smoothing: float = field(Rate, help="probability mass spread evenly over the vocabulary")
    guided_alignment: float = field(
        Number,
        0.0,
        "weight of the loss of attention_layer, or of an RNN's attention, against links of the training text; 0 "
        "trains without links",
        least=0,
        most=1000,
    )
    guided_links: str | None = field(
        Text,
        None,
        "file of links in Pharaoh's format, with a line for each training pair; None aligns the text with "
        "guided_aligner; --links sets it",
        longest=_PATH,
    )
    guided_index_base: int = field(Whole, 0, "number of the first word in guided_links", least=0, most=1)
    guided_aligner: str = field(Choice, "hmm", "statistical aligner that links the training text", choices=ALIGNERS)
    guided_symmetrization: str = field(
        Choice,
        "grow-diag-final-and",
        "how the links of its two directions are made one alignment",
        choices=SYMMETRIZATIONS,
    )
    accumulation_steps: int = field(Whole, 1, "parts a batch is split into, to save memory", least=1, most=10_000)
    teacher_forcing: float = field(
        Number, 1.0, "initial probability of feeding the decoder the reference token", least=0, most=1
    )
    teacher_forcing_end: float | None = field(
        Number, None, "final probability, reached after teacher_forcing_steps; None keeps it constant", least=0, most=1
    )
    teacher_forcing_steps: int | None = field(
        Whole, None, "steps over which teacher forcing decays linearly", least=1, most=_STEPS
    )
    best_by: str = field(
        Choice, "loss", "validation score that selects the best round", choices=("loss", "bleu", "free_running_loss")
    )
    bleu_sentences: int = field(
        Whole, 500, "number of validation sentences, from the first, translated for BLEU", least=1, most=1_000_000
    )
    bleu_tokenize: str = field(
        Choice, _TOKENIZERS[0], "tokeniser of sacrebleu for validation BLEU", choices=_TOKENIZERS
    )
    patience: int | None = field(
        Whole,
        None,
        "rounds without improvement before training stops; None disables early stopping",
        least=0,
        most=_ROUNDS,
    )
    keep_last: int = field(Whole, 0, "last rounds that are kept as presets", least=0, most=_ROUNDS)
    keep_best: int = field(Whole, 0, "best rounds by best_by that are kept as presets", least=0, most=_ROUNDS)
    average: int | None = field(
        Whole,
        None,
        "last rounds whose mean weights are saved as a preset and scored beside the best round; it keeps them",
        least=2,
        most=_ROUNDS,
    )
    ema_momentum: float | None = field(
        Number,
        None,
        "momentum of an exponential moving average of the weights, with which rounds are scored and saved; "
        "None scores the weights themselves",
        least=0,
        most=1,
        above=True,
        below=True,
    )
    initial_model: str | None = field(
        Text, None, "run or preset whose weights and subwords the training begins with; --from sets it", longest=_PATH
    )
    freeze: str | None = field(
        Words, None, "parts whose weights are not trained, such as embeddings,encoder", choices=PARTS
    )
    lora_rank: int | None = field(
        Width,
        None,
        "rank of the matrices that LoRA trains beside the linear maps of initial_model; None trains all weights",
    )
    word_vectors_source: str | None = field(
        Text, None, "text file of pretrained word vectors for the source embedding", longest=_PATH
    )
    word_vectors_target: str | None = field(
        Text, None, "text file of pretrained word vectors for the target embedding", longest=_PATH
    )
    pretraining_rounds: int | None = field(
        Whole,
        None,
        "rounds before each further encoder layer is added (RNN only); None trains all from the start",
        least=1,
        most=_ROUNDS,
    )

    def __post_init__(self) -> None:
        """Check every setting, and that they fit together."""
        super().__post_init__()
        if self.schedule == "cosine" and self.budget is not None and self.budget.endswith("min"):
            raise UserError(
                f"schedule='cosine' needs the number of steps, which budget={self.budget} does not give: set a budget "
                "in steps or tokens, or another schedule."
            )
        if self.lora_rank is not None and self.initial_model is None:
            raise UserError(
                f"lora_rank={self.lora_rank} adapts a trained model: give one with --from, or leave it out."
            )
        for name in ("pretraining_rounds", "word_vectors_source", "word_vectors_target"):
            if getattr(self, name) is not None and self.initial_model is not None:
                raise UserError(f"{name} is for weights that are drawn: leave it out, or train without --from.")
        if self.pretraining_rounds is not None and self.freeze is not None:
            raise UserError(
                f"freeze={self.freeze} is for a body that has all its layers: leave it out, or pretraining_rounds."
            )
        if self.guided_links is not None and not self.guided_alignment:
            raise UserError(
                f"guided_links={self.guided_links} has no effect without guided_alignment, their weight: set it too, "
                "such as guided_alignment=0.05.",
                "--links has no effect without their weight: add --set guided_alignment=0.05, or the like.",
            )
        if self.guided_index_base and self.guided_links is None:
            raise UserError(
                "guided_index_base=1 has no effect without guided_links: set it too.",
                "--index-base has no effect without --links: add it.",
            )
        if self.best_by != "bleu" and self.bleu_tokenize != _TOKENIZERS[0]:
            raise UserError(
                f"bleu_tokenize={self.bleu_tokenize} has no effect without best_by=bleu: set it too, or leave both out."
            )
        if self.best_by == "free_running_loss" and not self.samples_tokens:
            raise UserError(
                "best_by=free_running_loss is the loss of a decoder that is fed its own predictions: set "
                "teacher_forcing below 1, or best_by=loss."
            )
        if self.teacher_forcing_end not in (None, self.teacher_forcing) and self.teacher_forcing_steps is None:
            raise UserError(
                f"teacher forcing decays from {self.teacher_forcing:g} to {self.teacher_forcing_end:g}, but over how "
                "many steps is not set: set teacher_forcing_steps."
            )

    @property
    def samples_tokens(self) -> bool:
        """Whether the decoder is ever fed its own predictions."""
        return self.teacher_forcing < 1 or self.teacher_forcing_end not in (None, 1)


# The settings of guided alignment, without it.
UNGUIDED = {name: one.default for name, one in settings_of(TrainingSettings).items() if name.startswith("guided_")}


@dataclasses.dataclass(frozen=True)
class SearchSettings(_Checked):
    """How a system translates; `attn-zoo train --help` explains each setting.

    Raises:
        UserError: a setting of another type or out of bounds.

    Example:
        >>> SearchSettings(beams=12).beams
        12
    """

    beams: int = field(Whole, 5, "beam size; 1 is greedy search", least=1, most=MOST_BEAMS)
    length_penalty: float = field(Number, 1.0, "exponent of the length penalty", least=0, most=HIGHEST_PENALTY)
    batch_size: int = field(Whole, 64, "sentences per batch of a search", least=1, most=10_000)
    search_top_k: int | None = field(
        Whole,
        None,
        "source positions that a latent alignment sums over in search; 0 for all, None for the training value",
        least=0,
        most=MOST_TOKENS,
    )
    coverage_penalty: float = field(
        Number, 0.0, "weight of the coverage penalty, against source words left out", least=0, most=HIGHEST_PENALTY
    )
    min_length: int = field(Whole, 0, "minimum tokens of a translation, without its end", least=0, most=MOST_TOKENS)
    no_repeat_ngram: int = field(
        Whole, 0, "n of the n-grams that no translation has twice; 0 for no limit", least=0, most=MOST_TOKENS
    )

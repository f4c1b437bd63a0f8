"""Preparation for training: check a system and its text, train subwords, encode text, compile a translator."""

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import keras

from keras_attn_zoo.bodies.schema import BODIES, longest_translation
from keras_attn_zoo.corpora.corpus import Corpus
from keras_attn_zoo.data.batches import TranslationBatches
from keras_attn_zoo.data.cache import EncodedCorpus, build_cache, fingerprint
from keras_attn_zoo.data.filters import Filter, filter_pairs
from keras_attn_zoo.data.sampled_corpus import SampledCorpus, build_sampled_corpus
from keras_attn_zoo.data.subword_links import SubwordLinks
from keras_attn_zoo.data.subwords import Subwords, train_subword_pair
from keras_attn_zoo.data.text_files import NormalisedPairs
from keras_attn_zoo.data.truecasing import Truecaser, train_truecaser
from keras_attn_zoo.data.truncation import UNCUT
from keras_attn_zoo.evaluation.aligners import check_aligner
from keras_attn_zoo.evaluation.text_scores import check_tokenizer
from keras_attn_zoo.runs.memory import check_memory
from keras_attn_zoo.runs.outline import body_arguments, outline
from keras_attn_zoo.runs.precision import policy
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.settings import SMALLEST_VOCABULARY, DataSettings, TrainingSettings
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.runs.tasks import check_task
from keras_attn_zoo.support.checksums import CHECKSUMS, check_sum, read_checksums, write_checksums
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, check_file, kind_of, remove_partials, shown
from keras_attn_zoo.support.locks import locked
from keras_attn_zoo.support.messages import progress_bar
from keras_attn_zoo.training.adam import Adam
from keras_attn_zoo.training.schedules import CosineSchedule, HalvingSchedule, InverseSquareRoot, TeacherForcing
from keras_attn_zoo.translators import TranslationPreprocessor, TranslationTokenizer, Translator
from keras_attn_zoo.translators.search import sampler_of

_LOG = logging.getLogger(__name__)


def check_system(system: System, max_tokens: int | None = None, tell: bool = True) -> None:
    """Raise if a system cannot be trained on this machine, or cannot handle the sentences it must translate.

    The check takes a fraction of a second, creates no weights and reads no text; `train_system` begins with it.

    Args:
        system: a `System`.
        max_tokens: maximum tokens of a test sentence; see `train_system`.
        tell: whether to report the memory that training needs.

    Raises:
        UserError: mechanisms and sizes that do not fit together; more memory than the machine has; weights for
            sentences that are too short; a missing file of word vectors or links; a tokeniser or an aligner
            that cannot be used; a missing package to score with.

    Example:
        >>> from keras_attn_zoo.runs.named_systems import SYSTEMS
        >>> check_system(SYSTEMS["transformer"].override(num_heads=7))  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        keras_attn_zoo.support.errors.UserError: a width of 512 is not divisible by 7 heads: choose a multiple, ...
    """
    check_task(system.data.task)
    longest = longest_translation(system.data.max_tokens)
    if (system.sizes.get("max_length") or longest) < longest:
        raise UserError(
            f"max_length={system.backbone['max_length']} is less than the {longest} tokens that a translation may have "
            f"with max_tokens={system.data.max_tokens}: leave max_length out, or lower max_tokens."
        )
    for side in ("source", "target"):
        path = getattr(system.training, f"word_vectors_{side}")
        if path is not None and not Path(path).is_file():
            raise UserError(f"there is no file {path}: word_vectors_{side} names a text file of word vectors.")
    check_tokenizer(system.training.bleu_tokenize)
    training = system.training
    if training.guided_links is not None:
        check_file(training.guided_links)
    elif training.guided_alignment:
        check_aligner(training.guided_aligner, training.guided_symmetrization)
    size = system.data.vocabulary_size
    # With None, the number of words or characters is known only once the text is read.
    found = outline(system, size or SMALLEST_VOCABULARY, size or SMALLEST_VOCABULARY)
    if found.longest_sentence is not None:
        if found.longest_sentence < longest:
            raise UserError(
                f"{system.name} has weights for {found.longest_sentence} tokens, less than the {longest} that a "
                f"translation may have with max_tokens={system.data.max_tokens}: raise max_length, or lower "
                "max_tokens."
            )
        if max_tokens is not None and max_tokens > found.longest_sentence:
            raise UserError(
                f"{system.name} has weights for {found.longest_sentence} tokens, but test sentences may have "
                f"{max_tokens}: train it with max_length={max_tokens}, or lower --max-tokens."
            )
    check_memory(system, found.parameters, size or SMALLEST_VOCABULARY, tell=tell and size is not None)


@dataclasses.dataclass(frozen=True)
class PreparedData:
    """Subword models and encoded splits of a corpus, and a fingerprint of the training text; links, if it has any."""

    key: str
    subwords: tuple[Subwords, Subwords]
    train: EncodedCorpus | SampledCorpus
    valid: EncodedCorpus
    links: SubwordLinks | None = None


def prepare_subwords(
    corpus: Corpus, settings: DataSettings, folder: PathLike, key: str | None = None
) -> tuple[Subwords, Subwords]:
    """Train truecasers and subword models, or reuse what exists: the part of `prepare_data` before text is encoded."""
    place = Path(folder) / (key or _key(corpus, settings))
    with locked(place, wait=True):
        remove_partials(place)
        return _subwords(corpus, settings, place)


def _subwords(corpus, settings, place):
    """Train truecasers and subword models in a locked folder, or reuse what is there."""
    models = ("joint.spm",) if settings.joint else ("source.spm", "target.spm")
    cases = [side if settings.truecase in (side, "both") else None for side in ("source", "target")]
    names = (*models, *(f"{side}.truecase" for side in cases if side))
    if not all(kind_of(place / name) for name in names):
        pair_filter = _filter(settings)
        for number, side in enumerate(cases):
            if side:
                _LOG.info("learning the case of %s words", side)
                with progress_bar("reading the training text", unit="pair") as show:
                    pairs = _Filtered(corpus.splits.train, pair_filter, show)
                    try:
                        train_truecaser((pair[number] for pair in pairs), place / f"{side}.truecase")
                    except UserError as error:
                        raise UserError(f"truecase={settings.truecase}, {side}: {error}") from None
        _LOG.info("training the subword models")
        with progress_bar("reading the training text", unit="pair") as show:
            pairs = _Filtered(corpus.splits.train, pair_filter, show, _truecasers(place, cases))
            train_subword_pair(pairs, place, **_subword_options(settings))
        write_checksums(place, names)
    elif kind_of(place / CHECKSUMS):
        for name, expected in read_checksums(place / CHECKSUMS).items():
            check_sum(place / name, expected)
    else:
        # Of an earlier version, or of a process that was killed before it wrote them.
        write_checksums(place, names)
    source, target = map(Subwords, (place / models[0], place / models[-1]), _truecasers(place, cases))
    return source, target


def prepare_data(
    corpus: Corpus,
    settings: DataSettings,
    folder: PathLike,
    key: str | None = None,
    subwords: tuple[Subwords, Subwords] | None = None,
) -> PreparedData:
    """Train truecasers and subword models, and encode the training and validation text, or reuse what exists.

    Args:
        corpus: the text.
        settings: how it is prepared.
        folder: folder for subword models and caches; systems with the same settings share them.
        key: the fingerprint in what `described` returned, if that is known: it takes a pass over the text.
        subwords: those of a trained model, with which the text is encoded instead.

    Raises:
        UserError: text that cannot be read, or that the settings do not suit.
    """
    key = key or _key(corpus, settings, subwords)
    place = Path(folder) / key
    # Two runs that share their data wait for each other.
    with locked(place, wait=True):
        remove_partials(place)
        source, target = subwords or _subwords(corpus, settings, place)

        def cache(name, pairs, pair_filter):
            limit, truncation = settings.max_tokens - 2, settings.truncation
            folder = place / cache_name(name, settings)
            with progress_bar(f"encoding the {name} text", unit="pair") as show:
                made = build_cache(
                    folder, pairs, source, target, pair_filter, limit, limit, progress=show, truncation=truncation
                )
            if not made.reused:
                _LOG.info("encoded the %s text", name)
            return made

        train = cache("train", corpus.splits.train, _filter(settings))
        valid = cache("valid", NormalisedPairs(corpus.splits.valid), Filter())
        if settings.subword_sampling_nbest is not None:
            train = _sampled(place, train, corpus.splits.train, (source, target), settings)
        return PreparedData(key, (source, target), train, valid)


def described(
    corpus: Corpus, settings: DataSettings, subwords: tuple[Subwords, Subwords] | None = None
) -> dict[str, Any]:
    """Return the description of a corpus for a run folder, with a fingerprint of each part, by a pass over the text.

    Args:
        corpus, settings, subwords: see `prepare_data`.

    Raises:
        UserError: text that cannot be read.
    """
    return {
        **corpus.description,
        "fingerprint": _key(corpus, settings, subwords),
        "valid_fingerprint": fingerprint(corpus.splits.valid, (), [])[:12],
        "test_fingerprint": corpus.test.checksum[:12],
    }


def _key(corpus, settings, subwords=None):
    """The fingerprint of the training text and of the settings, or subword models, that it is prepared with."""
    # Without truecasing, it is that of earlier versions.
    cased = {} if settings.truecase is None else {"truecase": settings.truecase}
    options = {**_subword_options(settings), **cased}
    text = corpus.splits.train
    return fingerprint(text, subwords or (), [{} if subwords else options, _filter(settings).described(text)])[:12]


def _filter(settings):
    return Filter(**{field.name: getattr(settings, field.name) for field in dataclasses.fields(Filter)})


def _subword_options(settings):
    return {name: getattr(settings, name) for name in ("vocabulary_size", "joint", "model_type", "byte_fallback")}


def encoded_training_text(folder: PathLike, key: str, settings: DataSettings) -> EncodedCorpus:
    """Open the training text that `prepare_data` has encoded, in the folder that it was given, by the key it returned.

    Raises:
        UserError: it is not there, or is damaged.
    """
    return EncodedCorpus(Path(folder) / key / cache_name("train", settings))


def training_text_of(run: RunFolder) -> EncodedCorpus | SampledCorpus:
    """Open the encoded training text of a run, which is in its folder or beside it.

    Raises:
        UserError: it is not there, or is damaged.
    """
    key, settings = str(run.corpus().get("fingerprint")), run.system().data
    places = [run.path / "data", run.path.absolute().parent / "data"]
    place = next((one for one in places if kind_of(one / key) == "folder"), None)
    if place is None:
        raise UserError(
            f"{shown(run.path)} has no encoded training text, in its folder data or in one beside it: repeat the "
            "command that trained it, which encodes the text again."
        )
    text = encoded_training_text(place, key, settings)
    if settings.subword_sampling_nbest is None:
        return text
    return SampledCorpus(place / key / _sampled_name(settings), text, settings.subword_sampling_alpha)


def cache_name(text: str, settings: DataSettings) -> str:
    """Return the name of the folder of an encoded text, by the lengths of its sentences."""
    cut = () if settings.truncation == UNCUT else dataclasses.astuple(settings.truncation)
    return "-".join(map(str, (text, settings.max_tokens, *cut)))


def _sampled_name(settings):
    """The name of the folder of the segmentations that each epoch draws of."""
    return f"{cache_name('train', settings)}-best-{settings.subword_sampling_nbest}"


def _truecasers(place, cases):
    return [Truecaser(place / f"{side}.truecase") if side else None for side in cases]


def _sampled(place, train, pairs, subwords, settings):
    _LOG.info("segmenting the training text in %d ways", settings.subword_sampling_nbest)
    with progress_bar("segmenting the training text", unit="pair") as show:
        return build_sampled_corpus(
            place / _sampled_name(settings),
            train,
            pairs,
            *subwords,
            settings.subword_sampling_nbest,
            settings.subword_sampling_alpha,
            settings.max_tokens - 2,
            progress=show,
            truncation=settings.truncation,
        )


def training_batches(
    system: System,
    text: EncodedCorpus | SampledCorpus,
    special: Mapping[str, Any] | None = None,
    links: SubwordLinks | None = None,
) -> TranslationBatches:
    """Return the batches that a system is trained on, of its encoded training text.

    Args:
        system, text: the system and its text.
        special: `start` and `ends` of `TranslationBatches` if they are not the usual ones.
        links: those of the text, for guided alignment.
    """
    training, teacher_forcing = system.training, None
    if training.samples_tokens:
        begin, end = training.teacher_forcing, training.teacher_forcing_end
        teacher_forcing = TeacherForcing(begin, end, training.teacher_forcing_steps)
    return TranslationBatches(
        text,
        tokens_per_batch=system.data.tokens_per_batch,
        sentences_per_batch=system.data.sentences_per_batch,
        seed=system.seed,
        bucket_count=system.data.bucket_count,
        teacher_forcing=teacher_forcing,
        rounds_per_epoch=training.validations_per_epoch,
        links=links,
        **(special or {}),
    )


def special_tokens(translator: Translator) -> dict[str, Any]:
    """Return `start` and `ends` of `TranslationBatches` as a translator has them: Marian models have their own."""
    preprocessor = translator.preprocessor
    source, target = preprocessor.subwords
    return {"start": preprocessor.tokenizer.start_token_id, "ends": (source.end, target.end)}


class _Filtered:
    """The pairs that a filter keeps, truecased; can be iterated repeatedly, and counts what was read."""

    def __init__(self, pairs, pair_filter, show, truecasers=(None, None)):
        self.pairs, self.pair_filter, self.show, self.count = pairs, pair_filter, show, 0
        self.truecasers = truecasers

    def __iter__(self):
        for pair in filter_pairs(self.pairs, self.pair_filter):
            self.count += 1
            if self.show is not None:
                self.show(self.count)
            yield tuple(
                text if truecaser is None else truecaser.truecase(text)
                for text, truecaser in zip(pair, self.truecasers, strict=True)
            )


def build_translator(system: System, subwords: Iterable[Subwords], max_tokens: int) -> Translator:
    """Build a system's translator in its precision, with weights initialised from its seed."""
    keras.utils.set_random_seed(system.seed)
    source, target = subwords
    length = longest_translation(max_tokens)
    preprocessor = TranslationPreprocessor(
        TranslationTokenizer(source.model_bytes, source.truecaser, config_file="source_tokenizer.json"),
        TranslationTokenizer(target.model_bytes, target.truecaser),
        encoder_sequence_length=length,
        decoder_sequence_length=length,
        truncation=system.data.truncation,
    )
    backbone = BODIES[system.body].body_class(
        preprocessor.source_tokenizer.vocabulary_size(),
        preprocessor.tokenizer.vocabulary_size(),
        dtype=policy(system.precision),
        **body_arguments(system),
    )
    return Translator(backbone, preprocessor)


def compile_translator(translator: Translator, system: System, steps: int | None) -> None:
    """Compile according to the system's training and search settings, to be trained for so many steps, if known."""
    training, search = system.training, system.search
    schedules = {
        "constant": lambda: training.learning_rate,
        "plateau": lambda: training.learning_rate,
        "inverse_sqrt": lambda: _inverse_sqrt(training, steps),
        "cosine": lambda: _cosine(training, steps),
        "halving": lambda: HalvingSchedule(training.learning_rate, training.decay_start, training.decay_every),
    }
    translator.compile(
        optimizer=Adam(
            schedules[training.schedule](),
            global_clipnorm=training.clip_norm,
            use_ema=training.ema_momentum is not None,
            ema_momentum=training.ema_momentum or 0.0,
        ),
        label_smoothing=training.label_smoothing,
        accumulation_steps=training.accumulation_steps,
        guided_alignment=training.guided_alignment,
        sampler=sampler_of(dataclasses.asdict(search)),
        search_top_k=search.search_top_k,
    )


def _inverse_sqrt(training, steps):
    if steps is not None and steps < training.warmup_steps:
        _LOG.warning(
            "the learning rate rises for %d steps, but training has only %d: set fewer warmup_steps, or train for "
            "longer",
            training.warmup_steps,
            steps,
        )
    return InverseSquareRoot(training.learning_rate, training.warmup_steps)


def _cosine(training, steps):
    check_schedule(training, steps)
    return CosineSchedule(training.learning_rate, training.warmup_steps, steps)


def check_schedule(training: TrainingSettings, steps: int | None) -> None:
    """Raise if so many steps, None for an unknown number, are too few for the schedule of the learning rate."""
    if training.schedule == "cosine" and steps is not None and steps <= training.warmup_steps:
        raise UserError(
            f"schedule=cosine with warmup_steps={training.warmup_steps}: training has only {steps} steps; set fewer "
            "warm-up steps, or train for longer."
        )

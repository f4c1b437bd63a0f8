"""Train a system into a run folder, or resume a run there."""

import dataclasses
import logging
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_attn_zoo.bodies.schema import longest_translation
from keras_attn_zoo.bodies.word_vectors import load_word_vectors
from keras_attn_zoo.corpora.corpus import Corpus
from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.data.batches import TranslationBatches, as_fit_input, evaluation_batches, fit_arguments
from keras_attn_zoo.data.encoded_text import EncodedText
from keras_attn_zoo.data.shapes import EVALUATION_ROWS
from keras_attn_zoo.data.subwords import Subwords
from keras_attn_zoo.devices import agreed, leader_first, leads
from keras_attn_zoo.devices import wait as wait_for_all
from keras_attn_zoo.evaluation.overlap_scores import check_references
from keras_attn_zoo.evaluation.text_scores import bleu_key
from keras_attn_zoo.runs.averaging import average_models, checkpoints_of
from keras_attn_zoo.runs.budget import amount, planned_steps
from keras_attn_zoo.runs.guided_links import check_links, links_key, prepare_links
from keras_attn_zoo.runs.initial_model import build_from, load_initial_model
from keras_attn_zoo.runs.memory import check_memory
from keras_attn_zoo.runs.outline import outline
from keras_attn_zoo.runs.precision import resolve
from keras_attn_zoo.runs.preparation import (
    PreparedData,
    build_translator,
    check_schedule,
    check_system,
    compile_translator,
    described,
    prepare_data,
    prepare_subwords,
    special_tokens,
    training_batches,
)
from keras_attn_zoo.runs.resuming import check_length, check_resumable, has_other_length
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.settings import SMALLEST_VOCABULARY
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.runs.tasks import TASKS
from keras_attn_zoo.runs.trained_parts import choose_trained
from keras_attn_zoo.support.choices import MOST_TOKENS
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.extras import require
from keras_attn_zoo.support.files import PathLike, kind_of, remove, shown
from keras_attn_zoo.support.messages import progress_bar
from keras_attn_zoo.training.averaged_weights import AveragedWeights
from keras_attn_zoo.training.budget_callback import SpentBudget
from keras_attn_zoo.training.callbacks import BestPreset, BLEUAtSteps, FreeRunningLoss, ValidationBLEU
from keras_attn_zoo.training.checkpoints import Checkpoints, figures_of_rounds
from keras_attn_zoo.training.progress import Progress
from keras_attn_zoo.training.random_state import SeparateNoise, make_deterministic
from keras_attn_zoo.training.resumable_state import ResumableState
from keras_attn_zoo.training.run_log import RunLog, read_log
from keras_attn_zoo.training.tensorboard_log import TensorBoardLog

_LOG = logging.getLogger(__name__)
# Rounds of a run that ends by itself.
_ENDLESS = sys.maxsize


def train_system(
    system: System,
    corpus: Corpus,
    folder: PathLike,
    data_folder: PathLike | None = None,
    resume: bool = False,
    max_tokens: int | None = None,
    bleu_after: Sequence[int] = (),
    scoring: Mapping[str, Any] | None = None,
    wait: bool = False,
    tensorboard: bool = False,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> RunFolder:
    """Train a system on a corpus into a run folder.

    With `resume=True`, an interrupted or killed run continues from its last round, with the same results as an
    uninterrupted one. A run that has ended goes on if the budget or the epochs are more than before, with the results
    of one that was given them at once; not with the schedule "cosine", whose rates depend on the end.

    Args:
        system: a `System`; precision "auto" is that of the run to be resumed, or else what suits this machine.
        corpus: a `Corpus`.
        folder: the run folder.
        data_folder: folder for subword models and caches; by default in the run folder.
        resume: whether to resume the run in this folder.
        max_tokens: maximum tokens of a test sentence; a longer one is refused before training. By default, as many
            as a translation may have.
        bleu_after: percentages of the planned steps after which the test text is translated, see `BLEUAtSteps`; what
            is trained does not depend on it. Without effect if the budget is a time, as no steps are planned then.
        scoring: how that text is scored, see `score_text`: `tokenize` and `lowercase`.
        wait: whether to wait while another process is training in the folder, instead of raising.
        tensorboard: whether the log is also written for TensorBoard, see `TensorBoardLog`.
        callbacks: further Keras callbacks. A round is what they know as an epoch, and the logs are those of
            `log.jsonl`. What they count begins again when a run is resumed.

    Returns:
        the `RunFolder`.

    Raises:
        UserError: bad settings or text; a folder that holds something else, or in which another process is training;
            a run with a missing part; training that reaches NaN or infinity.

    Example:
        >>> train_system(SYSTEMS["uniform"], embedded_corpus(), "runs/uniform")  # doctest: +SKIP
    """
    if tensorboard:
        require("tensorboard", user="a log for TensorBoard", extra="tensorboard")
    check_system(system, max_tokens)
    check_texts(system, corpus, max_tokens)
    initial = load_initial_model(system)
    given = None if initial is None else initial.preprocessor.subwords
    run = RunFolder(folder)
    data_folder = data_folder or run.path / "data"
    with run.lock(wait):
        with leader_first():
            run.check_free(resume, beside=("data",))
            run.check_links()
            run.remove_partials()
        if system.precision == "auto":
            own = agreed(run.system().precision if run.holds_run else None)
            system = system.override(precision=own or resolve("auto"))
        description = described(corpus, system.data, given)
        with leader_first():
            # Before anything is written: whoever gives another text by mistake finds all as it was.
            # Where scores after a part of all steps are logged, the log depends on their number.
            check_resumable(run, system, description, corpus.test.rows(), length=bool(bleu_after))
            links = links_key(system.training)
            if run.holds_run and run.corpus().get("links") != links:
                raise UserError(
                    f"{shown(run.path)} was started with other links than those of {system.training.guided_links}: "
                    "resume with the same file, or choose another folder."
                )
            key = description["fingerprint"]
            subwords = given or prepare_subwords(corpus, system.data, data_folder, key)
            check_with_subwords(system, corpus, subwords, max_tokens)
            data = prepare_data(corpus, system.data, data_folder, key, given)
            data = dataclasses.replace(data, links=prepare_links(corpus, system, data, data_folder))
        bleu = {"max_tokens": max_tokens, "bleu_after": bleu_after, "scoring": scoring or {}}
        return _train(system, corpus, run, data, description, initial, tensorboard, callbacks, **bleu)


def _train(
    system, corpus, run, data, description, initial, tensorboard, more_callbacks, max_tokens, bleu_after, scoring
):
    """Train in a folder that this process has locked."""
    training = system.training
    special = None if initial is None else special_tokens(initial)
    batches, steps = check_training(system, data, special)
    make_deterministic()
    valid = evaluation_batches(
        data.valid,
        sentences_per_batch=EVALUATION_ROWS,
        bucket_count=min(3, system.data.bucket_count),
        **(special or {}),
    )
    rounds = None if steps is None else math.ceil(steps / len(batches))
    watched, stopping = _watching(training, run, batches)
    state = ResumableState(run.state, batches, [*watched, *stopping])
    ended = state.read()
    if agreed(run.holds_run and has_other_length(run, system)):
        with leader_first():
            check_length(run, system, steps)
            if ended and not state.stopped_early:
                # Before the settings: a process that is killed in between repeats the last round.
                if leads():
                    state.reopen()
                ended = False
            if leads():
                run.set_length(system)
    translator = _translator_of_round(system, data, batches.round, steps, initial)
    state.check(translator, batches.round in _grows_at(system))
    if batches.round == 0:
        _load_vectors(translator, training)
    more = {"subwords": list(translator.preprocessor.models)}
    if data.links is not None:
        more["links"] = links_key(training)
    run.create(system, {**description, **more}, corpus.test.rows())
    # A budget ends by itself, and one of tokens not exactly when it is expected to.
    last = rounds if rounds is not None and training.budget is None else _ENDLESS
    if ended or batches.round >= last:
        # A round that ended early is in the log alone.
        _check_grown(system, max(batches.round, len([line for line in read_log(run.log) if "round" in line])))
        _LOG.info("training is already complete")
        return _averaged(run, system)
    if leads():
        remove(run.average)
        run.restore_best()
    callbacks = _scorers(system, corpus, data)
    keys: dict[int, list[str]] = {}
    # How many steps a budget of tokens allows is only known when it is spent.
    by_tokens = training.budget is not None and amount(training.budget)[1] == "tokens"
    at_end = [bleu_key(100, **scoring)] if by_tokens and 100 in bleu_after else []
    for percent in bleu_after if steps is not None else ():
        if (key := bleu_key(percent, **scoring)) not in at_end:
            keys.setdefault(math.ceil(steps * percent / 100), []).append(key)
    if keys or at_end:
        first, *more = corpus.test.references
        search = {"batch_size": system.search.batch_size, "max_tokens": max_tokens}
        test = corpus.test.encoded(*data.subwords, truncation=system.data.truncation)
        scores = {"more_references": more, "last": at_end, **search, **scoring}
        callbacks.append(BLEUAtSteps(keys, batches, test, first, **scores))
    # A run of a comparison has its seed and its point of the grid in its name.
    label = run.path.name if run.path.name.startswith(f"{system.name}-") else system.name
    with progress_bar(label, steps, "step", batches.round * len(batches)) as show:
        log = RunLog(run.log, batches)
        shown = [TensorBoardLog(run.tensorboard, log)] if tensorboard else []
        callbacks += [Progress(batches, rounds, label, show), log, *shown, *_budget(training, log)]
        callbacks += [*watched, *more_callbacks]
        if training.average or training.keep_last or training.keep_best:
            callbacks.append(_checkpoints(system, run, batches))
        if training.ema_momentum is not None:
            callbacks.append(AveragedWeights())
        while True:
            later = range(batches.round + 1, last)
            until = next((number for number in _grows_at(system) if number in later), last)
            translator.fit(
                **fit_arguments(batches),
                epochs=until,
                validation_data=as_fit_input(valid),
                # No early stopping until the model has all its layers.
                callbacks=[*callbacks, *(stopping if until == last else ()), state, SeparateNoise(system.seed)],
                verbose=0,
            )
            if translator.stop_training or until == last:
                # Until the next growth, all rounds have equally many layers.
                _check_grown(system, batches.round + 1)
                return _averaged(run, system)
            # The larger model loads what was just saved, as it would if the run were resumed here.
            state.read()
            translator = _translator_of_round(system, data, until, steps)
            state.check(translator, grown=True)


def check_texts(system: System, corpus: Corpus, max_tokens: int | None = None) -> None:
    """Raise if a system cannot be trained or scored on a text, as far as is known before subwords are trained.

    Args:
        system: the system.
        corpus: the text, whose training part is read only beside a file of links.
        max_tokens: see `train_system`.

    Raises:
        UserError: test sentences that are too long, or references that cannot be scored; links that do not fit the
            training text; a budget of steps that is too short for the schedule.
    """
    room = max_tokens or longest_translation(system.data.max_tokens)
    for name, text in _test_texts(corpus).items():
        check_test_words(text, system, room, name)
        check_references(TASKS[system.data.task].metrics, text.references, name)
    check_links(system, corpus)
    if system.training.budget is not None:
        number, unit = amount(system.training.budget)
        check_schedule(system.training, int(number) if unit == "steps" else None)


def check_with_subwords(
    system: System,
    corpus: Corpus,
    subwords: tuple[Subwords, Subwords],
    max_tokens: int | None = None,
    tell: bool = True,
) -> None:
    """Raise if a system cannot be trained or scored on a text, as far as is known before that is encoded.

    Args:
        system, corpus, max_tokens: see `check_texts`.
        subwords: those of `prepare_subwords`.
        tell: whether to report the memory that training needs, if that was not known without the text.

    Raises:
        UserError: test sentences that are too long; more memory than the machine has.
    """
    room = max_tokens or longest_translation(system.data.max_tokens)
    sizes = [one.vocabulary_size for one in subwords]
    found = outline(system, *sizes)
    for name, text in _test_texts(corpus).items():
        check_test_text(text.encoded(*subwords, truncation=system.data.truncation), room, name, found.longest_sentence)
    if system.data.vocabulary_size is None:
        check_memory(system, found.parameters, sizes[1], tell)


def _test_texts(corpus):
    return {"test": corpus.test, **corpus.more_tests}


def check_test_words(text: ParallelText, system: System, room: int, name: str = "test") -> None:
    """Raise if a sentence of a test text has more words than the translator accepts tokens, so without any subwords.

    No piece spans two words. `check_test_text` tells what else is too long.
    """
    cut = system.data.truncation
    needed = [
        max(_least_tokens(source, cut.source), _least_tokens(target, cut.target)) for source, target in text.pairs
    ]
    if max(needed, default=0) > room:
        longest = outline(system, SMALLEST_VOCABULARY, SMALLEST_VOCABULARY).longest_sentence
        _raise_too_long(needed, room, name, longest, "to at least ")


def _least_tokens(sentence, most):
    """How many tokens a normalised sentence has at least, with its end, if it is cut to so many with its start."""
    # Pieces may join what is nothing but SentencePiece's mark for a space.
    count = 1 + sum(word.strip("\u2581") != "" for word in sentence.split())
    return count if most is None else min(count, most - 1)


def check_test_text(text: EncodedText, room: int, name: str = "test", longest: int | None = None) -> None:
    """Raise if a sentence of a test text of this name has more tokens than the translator will accept.

    `longest` is what its weights allow, None for any length.
    """
    needed = [max(len(source), len(target)) for source, target in zip(text.sources, text.targets or (), strict=True)]
    if max(needed, default=0) > room:
        _raise_too_long(needed, room, name, longest)


def _raise_too_long(needed, room, name, longest, least=""):
    most, count = max(needed), sum(one > room for one in needed)
    room_for_all = most <= min(MOST_TOKENS, longest or MOST_TOKENS)
    advice = f"set --max-tokens {least}{most}, or leave them out" if room_for_all else "leave them out, or split them"
    raise UserError(
        f"{count} of {len(needed)} {name} sentences have more than the {room} tokens that the model accepts; the "
        f"longest is sentence {needed.index(most) + 1}: {advice}."
    )


def check_training(
    system: System, data: PreparedData, special: Mapping[str, Any] | None = None
) -> tuple[TranslationBatches, int | None]:
    """Raise if a system cannot be trained on encoded text, as far as is known before its weights are created.

    Args:
        system: the system.
        data: the text.
        special: see `training_batches`.

    Returns:
        the training batches, and how many steps are planned; None if the budget is a time.

    Raises:
        UserError: a training that is too short for its schedule, or for the layers that it adds one by one.
    """
    batches = training_batches(system, data.train, special, data.links)
    steps = planned_steps(system.training, batches)
    check_schedule(system.training, steps)
    if steps is not None:
        _check_grown(system, math.ceil(steps / len(batches)))
        whole = steps // len(batches) - max(_grows_at(system), default=0)
        if (wanted := system.training.average or 0) > whole:
            raise UserError(
                f"average={wanted} needs as many whole rounds, but training has only {whole}: train for longer, "
                "validate more often, or average fewer."
            )
    return batches, steps


def _scorers(system, corpus, data):
    """Callbacks that score the validation text in other ways than Keras does.

    They translate sentences after every round; where the decoder was fed its own predictions in training, they score
    the pairs of the validation loss with these alone.
    """
    found = []
    source, target = data.subwords
    models = source.checksum, target.checksum
    if system.training.best_by == "bleu":
        pairs = list(corpus.splits.valid)[: system.training.bleu_sentences]
        ids = data.valid.first_sources([one for one, _ in pairs], source)
        text = system.data.truncation.cut_sources(EncodedText(ids, None, models))
        # What is too long to be translated says nothing of the others.
        longest = longest_translation(system.data.max_tokens)
        fits = [i for i, one in enumerate(text.sources) if len(one) <= longest]
        references = [pairs[i][1] for i in fits]
        arguments = text.select(fits), references, system.search.batch_size
        found.append(ValidationBLEU(*arguments, tokenize=system.training.bleu_tokenize))
    if system.training.samples_tokens:
        every = range(len(data.valid))
        sources = [[*data.valid.source(i).tolist(), source.end] for i in every]
        targets = [[*data.valid.target(i).tolist(), target.end] for i in every]
        found.append(FreeRunningLoss(EncodedText(sources, targets, models), EVALUATION_ROWS))
    return found


def _watching(training, run, batches):
    """Callbacks that keep the best round and lower the learning rate, and callbacks that stop training."""
    monitor, mode = f"val_{training.best_by}", "max" if training.best_by == "bleu" else "min"
    watched, stopping = [BestPreset(run.best, monitor, batches, run.earlier_best)], []
    if training.schedule == "plateau":
        watched.append(
            keras.callbacks.ReduceLROnPlateau(
                monitor, training.plateau_factor, training.plateau_patience, mode=mode, min_delta=0.0
            )
        )
    if training.patience is not None:
        stopping.append(keras.callbacks.EarlyStopping(monitor, patience=training.patience, mode=mode))
    return watched, stopping


def _checkpoints(system, run, batches):
    training = system.training
    return Checkpoints(
        run.checkpoints,
        run.log,
        batches,
        f"val_{training.best_by}",
        last=max(training.keep_last, training.average or 0),
        best=training.keep_best,
        first=max(_grows_at(system), default=0),
    )


def _averaged(run, system):
    """Save the average of a complete run, if it is to have one."""
    wanted = system.training.average
    if wanted is None or agreed(kind_of(run.average) is not None):
        return run
    rounds = len(figures_of_rounds(run.log, "val_loss")) - max(_grows_at(system), default=0)
    if rounds < wanted:
        _LOG.warning("average=%d: training ended after %s", wanted, counted(rounds, "whole round"))
    if rounds > 1:
        averaged = average_models(checkpoints_of(run, last=min(wanted, rounds)))
        if leads():
            averaged.save_to_preset(run.average)
        wait_for_all()
    return run


def _budget(training, log):
    if training.budget is None:
        return []
    number, unit = amount(training.budget)
    return [SpentBudget(log, "seconds", 60 * number) if unit == "min" else SpentBudget(log, unit, number)]


def _check_grown(system, rounds):
    """Raise if the encoder does not have all its layers after so many rounds."""
    wanted, reached = system.sizes["encoder_layers"], _encoder_layers(system, rounds - 1)
    if reached not in (None, wanted):
        raise UserError(
            f"with pretraining_rounds={system.training.pretraining_rounds}, the encoder has only {reached} of its "
            f"{wanted} layers after {rounds} rounds: train for longer, or validate more often."
        )


def _encoder_layers(system, number):
    """How many encoder layers are trained in a round; None if the system does not add them one by one."""
    rounds = system.training.pretraining_rounds
    return rounds and min(system.sizes["encoder_layers"], 1 + number // rounds)


def _grows_at(system):
    """The rounds that begin with more encoder layers than the previous one."""
    rounds = system.training.pretraining_rounds
    return [rounds * layers for layers in range(1, system.sizes["encoder_layers"])] if rounds else []


def _translator_of_round(system, data, number, steps, initial=None):
    layers = _encoder_layers(system, number)
    stage = system if layers is None else system.override(encoder_layers=layers)
    if initial is None:
        translator = build_translator(stage, data.subwords, system.data.max_tokens)
    else:
        translator = build_from(initial, system)
    choose_trained(translator.backbone, system.training)
    compile_translator(translator, system, steps)
    return translator


def _load_vectors(translator, training):
    backbone, preprocessor = translator.backbone, translator.preprocessor
    for path, embedding, tokenizer in (
        (training.word_vectors_source, backbone.source_embedding, preprocessor.source_tokenizer),
        (training.word_vectors_target, backbone.target_embedding, preprocessor.tokenizer),
    ):
        if path is not None:
            found = load_word_vectors(embedding, tokenizer.get_vocabulary(), path)
            _LOG.info("initialised %d of %d embeddings from %s", found, embedding.input_dim, path)

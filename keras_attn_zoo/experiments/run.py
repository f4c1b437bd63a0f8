"""Train a system into a run folder, and score it there."""

import dataclasses
import math
import time
from pathlib import Path

import keras
import numpy as np

from keras_attn_zoo.analysis.pictures import plot_attention, plot_curves
from keras_attn_zoo.data.batches import TranslationBatches, as_fit_input, evaluation_batches, fit_arguments
from keras_attn_zoo.data.cache import EncodedCorpus, build_cache, fingerprint
from keras_attn_zoo.data.corpus import Filter, filter_pairs
from keras_attn_zoo.data.subwords import Subwords, train_subword_pair
from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.evaluation.alignments import Alignment, write_alignments
from keras_attn_zoo.evaluation.text_scores import score_text
from keras_attn_zoo.evaluation.timing import CompilationClock
from keras_attn_zoo.experiments.bodies import BODIES, body_arguments, longest_translation, outline
from keras_attn_zoo.experiments.memory import check_memory
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.experiments.settings import SMALLEST_VOCABULARY, SearchSettings
from keras_attn_zoo.experiments.word_alignment import align_words, score_links, sentence_picture
from keras_attn_zoo.files import (
    CHECKSUMS,
    check_sum,
    kind_of,
    locked,
    read_checksums,
    remove_partials,
    shown,
    write_checksums,
    write_text,
)
from keras_attn_zoo.models import (
    TranslationPreprocessor,
    TranslationTokenizer,
    Translator,
)
from keras_attn_zoo.models.word_vectors import load_word_vectors
from keras_attn_zoo.training.callbacks import BestPreset, ResumableState, RunLog, ValidationBLEU, read_log
from keras_attn_zoo.training.progress import Progress
from keras_attn_zoo.training.random_state import make_deterministic
from keras_attn_zoo.training.schedules import HalvingSchedule, InverseSquareRoot, TeacherForcing

# How many sentences a run folder shows, and about how long they are.
PICTURES, WORDS_OF_A_PICTURE = 3, 14
# Sentences of a validation or test batch.
EVALUATION_ROWS = 64
_OF_REFERENCES = ("loss", "perplexity", "accuracy", "tokens")


@dataclasses.dataclass(frozen=True)
class PreparedData:
    """Subword models and encoded splits of a corpus, and a fingerprint of the training text."""

    key: str
    subword_paths: tuple
    train: EncodedCorpus
    valid: EncodedCorpus


def prepare_data(corpus, settings, folder, say=lambda text: None):
    """Train subwords and encode training and validation text, or open what stands there already.

    Args:
        corpus: a `Corpus`.
        settings: a `DataSettings`.
        folder: where subword models and caches stand; systems with the same settings share them.
        say: function of a line of text that tells what is being done.

    Raises:
        UserError: text that cannot be read, or settings that it does not allow.
    """
    pair_filter = Filter(settings.min_words, settings.max_words, settings.max_length_ratio, settings.drop_duplicates)
    options = {
        "vocabulary_size": settings.vocabulary_size,
        "joint": settings.joint,
        "model_type": settings.model_type,
        "byte_fallback": settings.byte_fallback,
    }
    kept = _Filtered(corpus.splits.train, pair_filter)
    key = fingerprint(corpus.splits.train, (), [options, dataclasses.asdict(pair_filter)])[:12]
    folder = Path(folder) / key
    names = ("joint.spm",) if settings.joint else ("source.spm", "target.spm")
    # Two runs that share their data wait for each other.
    with locked(folder, wait=say):
        remove_partials(folder)
        if not all(kind_of(folder / name) for name in names):
            say("training the subword models")
            train_subword_pair(kept, folder, **options)
            write_checksums(folder, names)
        elif kind_of(folder / CHECKSUMS):
            for name, expected in read_checksums(folder / CHECKSUMS).items():
                check_sum(folder / name, expected)
        paths = (folder / names[0], folder / names[-1])
        source, target = (Subwords(path) for path in paths)

        def cache(name, pairs, pair_filter):
            say(f"encoding the {name} text")
            limit, place = settings.max_tokens - 2, folder / f"{name}-{settings.max_tokens}"
            return build_cache(place, pairs, source, target, pair_filter, limit, limit)

        train = cache("train", corpus.splits.train, pair_filter)
        return PreparedData(key, paths, train, cache("valid", corpus.splits.valid, Filter()))


class _Filtered:
    """The pairs that a filter keeps, as often as they are asked for."""

    def __init__(self, pairs, pair_filter):
        self.pairs, self.pair_filter = pairs, pair_filter

    def __iter__(self):
        return iter(filter_pairs(self.pairs, self.pair_filter))


def build_translator(system, subword_paths, max_tokens):
    """Build a system's translator, with fresh weights drawn from the system's seed."""
    keras.utils.set_random_seed(system.seed)
    source, target = (Path(path).read_bytes() for path in subword_paths)
    length = longest_translation(max_tokens)
    preprocessor = TranslationPreprocessor(
        TranslationTokenizer(source, config_file="source_tokenizer.json"),
        TranslationTokenizer(target),
        encoder_sequence_length=length,
        decoder_sequence_length=length,
    )
    backbone = BODIES[system.body](
        preprocessor.source_tokenizer.vocabulary_size(),
        preprocessor.tokenizer.vocabulary_size(),
        **body_arguments(system),
    )
    return Translator(backbone, preprocessor)


def check_system(system, max_tokens=None, say=lambda text: None):
    """Raise where a system cannot be trained on this machine, or cannot translate as long as it has to.

    It takes a fraction of a second, makes no weights and reads no text; `train_system` begins with it.

    Args:
        system: a `System`.
        max_tokens: most tokens of a test sentence, see `train_system`.
        say: function of a line of text; it is told how much memory the system takes.

    Raises:
        UserError: mechanisms and sizes that do not fit together; more memory than the machine has; weights for
            sentences shorter than they may be; no file of word vectors.

    Example:
        >>> check_system(SYSTEMS["transformer"].override(num_heads=7))  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        keras_attn_zoo.errors.UserError: a width of 512 is not divisible by 7 heads: take a multiple, ...
    """
    longest = longest_translation(system.data.max_tokens)
    if (system.backbone.get("max_length") or longest) < longest:
        raise UserError(
            f"max_length={system.backbone['max_length']} is less than the {longest} tokens that a translation may have "
            f"with max_tokens={system.data.max_tokens}: leave max_length out, or lower max_tokens."
        )
    for side in ("source", "target"):
        path = getattr(system.training, f"word_vectors_{side}")
        if path is not None and not Path(path).is_file():
            raise UserError(f"there is no file {path}: word_vectors_{side} names a text file of word vectors.")
    size = system.data.vocabulary_size
    # All words or characters of a text: how many there are is known once it is read.
    found = outline(system, size or SMALLEST_VOCABULARY, size or SMALLEST_VOCABULARY)
    if found.longest_sentence is not None:
        if found.longest_sentence < longest:
            raise UserError(
                f"{system.name} has weights for {found.longest_sentence} tokens, less than the {longest} that a "
                f"translation may have with max_tokens={system.data.max_tokens}: take a larger max_length, or lower "
                "max_tokens."
            )
        if max_tokens is not None and max_tokens > found.longest_sentence:
            raise UserError(
                f"{system.name} has weights for {found.longest_sentence} tokens, and test sentences may have "
                f"{max_tokens}: train it with max_length={max_tokens}, or ask for less."
            )
    check_memory(system, found.parameters, size or SMALLEST_VOCABULARY, say if size else lambda text: None)


def _check_test_text(pairs, subword_paths, room):
    """Raise where a test sentence has more tokens than a translator takes, which is known before it is trained."""
    needed = []
    for path, sentences in zip(subword_paths, zip(*pairs, strict=True), strict=True):
        needed.append([len(ids) + 1 for ids in Subwords(path).encode(list(sentences))])
    needed = [max(both) for both in zip(*needed, strict=True)]
    long = [count for count in needed if count > room]
    if long:
        number = needed.index(max(long)) + 1
        raise UserError(
            f"{len(long)} of {len(needed)} test sentences have more tokens than the {room} that there is room for, "
            f"sentence {number} the most: make room for it with --max-tokens {max(long)}, or leave them out."
        )


def compile_translator(translator, system):
    """Compile as the system's training and search settings say."""
    training, search = system.training, system.search
    schedules = {
        "constant": lambda: training.learning_rate,
        "plateau": lambda: training.learning_rate,
        "inverse_sqrt": lambda: InverseSquareRoot(training.learning_rate, training.warmup_steps),
        "halving": lambda: HalvingSchedule(training.learning_rate, training.decay_start, training.decay_every),
    }
    translator.compile(
        optimizer=keras.optimizers.Adam(schedules[training.schedule](), global_clipnorm=training.clip_norm),
        label_smoothing=training.label_smoothing,
        accumulation_steps=training.accumulation_steps,
        sampler=BeamSearch(search.beams, search.length_penalty),
        search_top_k=search.search_top_k,
    )


def train_system(system, corpus, folder, data_folder=None, resume=False, say=lambda text: None, max_tokens=None):
    """Train a system on a corpus into a run folder.

    A run that was stopped, by Ctrl-C or by a kill, goes on with `resume=True`
    from its last round, to the numbers of an uninterrupted one.

    Args:
        system: a `System`.
        corpus: a `Corpus`.
        folder: the run folder.
        data_folder: where subword models and caches stand; by default in the run folder.
        resume: whether to go on with a run that stands there.
        say: function of a line of text that tells what is being done.
        max_tokens: most tokens of a test sentence, as `score_run` will be told: a longer one is refused before
            anything is trained. By default as many as a translation may have.

    Returns:
        the `RunFolder`.

    Raises:
        UserError: bad settings or text; a folder that holds something else, or in which another process trains; a
            run of which a part is missing; training that reaches NaN or infinity.

    Example:
        >>> train_system(SYSTEMS["uniform"], embedded_corpus(), "runs/uniform")  # doctest: +SKIP
    """
    check_system(system, max_tokens, say)
    run = RunFolder(folder)
    with run.lock():
        run.check_free(resume, beside=("data",))
        run.check_links()
        run.remove_partials()
        data = prepare_data(corpus, system.data, data_folder or run.path / "data", say)
        return _train(system, corpus, run, data, max_tokens, say)


def _train(system, corpus, run, data, max_tokens, say):
    """Train in a folder that is this process's own."""
    training = system.training
    description = {**corpus.description, "fingerprint": data.key}
    # Before the state is read, which of another model's says less.
    run.check_settings(system, description)
    _check_test_text(corpus.splits.test, data.subword_paths, max_tokens or longest_translation(system.data.max_tokens))
    if system.data.vocabulary_size is None:
        sizes = [Subwords(path).vocabulary_size for path in data.subword_paths]
        check_memory(system, outline(system, *sizes).parameters, sizes[1], say)
    make_deterministic()
    batches = TranslationBatches(
        data.train,
        tokens_per_batch=system.data.tokens_per_batch,
        sentences_per_batch=system.data.sentences_per_batch,
        seed=system.seed,
        bucket_count=system.data.bucket_count,
        teacher_forcing=_teacher_forcing(training),
        rounds_per_epoch=training.validations_per_epoch,
    )
    valid = evaluation_batches(
        data.valid, sentences_per_batch=EVALUATION_ROWS, bucket_count=min(3, system.data.bucket_count)
    )
    rounds = max(1, round(training.epochs * batches.batches_per_epoch / len(batches)))
    wanted, reached = system.backbone.get("encoder_layers", 1), _encoder_layers(system, rounds - 1)
    if reached not in (None, wanted):
        raise UserError(
            f"{rounds} rounds of validation end at {reached} of {wanted} encoder layers with "
            f"pretraining_rounds={training.pretraining_rounds}: train for more epochs, or validate more often."
        )
    monitor = f"val_{training.best_by}"
    watched = [BestPreset(run.best, monitor)]
    mode = "max" if training.best_by == "bleu" else "min"
    if training.schedule == "plateau":
        watched.append(
            keras.callbacks.ReduceLROnPlateau(
                monitor, training.plateau_factor, training.plateau_patience, mode=mode, min_delta=0.0
            )
        )
    stopping = []
    if training.patience is not None:
        stopping.append(keras.callbacks.EarlyStopping(monitor, patience=training.patience, mode=mode))
    state = ResumableState(run.state, batches, [*watched, *stopping])
    callbacks = []
    if training.best_by == "bleu":
        sources, references = zip(*list(corpus.splits.valid)[: training.bleu_sentences], strict=True)
        callbacks.append(ValidationBLEU(list(sources), list(references), system.search.batch_size))
    callbacks += [Progress(batches, rounds, system.name), RunLog(run.log, batches), *watched]

    ended = state.read()
    _check_whole(run, batches.round)
    translator = _translator_of_round(system, data, batches.round)
    state.check(translator, batches.round in _grows_at(system))
    if batches.round == 0:
        _load_vectors(translator, training, say)
    run.create(system, description, corpus.splits.test)
    if ended or batches.round >= rounds:
        say("training has ended already")
        return run
    while True:
        later = range(batches.round + 1, rounds)
        until = next((number for number in _grows_at(system) if number in later), rounds)
        translator.fit(
            **fit_arguments(batches),
            epochs=until,
            validation_data=as_fit_input(valid),
            # A model that has yet to grow stops nothing.
            callbacks=[*callbacks, *(stopping if until == rounds else ()), state],
            verbose=0,
        )
        if translator.stop_training or until == rounds:
            return run
        # The larger model takes over what was just saved, as it would if the run had been stopped here.
        state.read()
        translator = _translator_of_round(system, data, until)
        state.check(translator, grown=True)


def _check_whole(run, rounds):
    """Raise where what a run has trained is gone in part: it would begin again, or end without its best."""
    logged = sum("round" in line for line in read_log(run.log)) if kind_of(run.log) else 0
    lost = run.state if logged and not kind_of(run.state) else run.best if rounds and not kind_of(run.best) else None
    if lost is not None:
        raise UserError(
            f"{shown(run.path)} has trained {max(rounds, logged)} rounds, but its {lost.name} is gone: restore it from "
            "a copy, or remove the folder to begin again."
        )


def _encoder_layers(system, number):
    """How many encoder layers train in a round; None where the system does not add them one by one."""
    rounds = system.training.pretraining_rounds
    return rounds and min(system.backbone.get("encoder_layers", 1), 1 + number // rounds)


def _grows_at(system):
    """The rounds that begin with more encoder layers than the one before had."""
    rounds = system.training.pretraining_rounds
    return [rounds * layers for layers in range(1, system.backbone.get("encoder_layers", 1))] if rounds else []


def _translator_of_round(system, data, number):
    """The compiled translator that trains in a round."""
    layers = _encoder_layers(system, number)
    stage = system if layers is None else system.override(encoder_layers=layers)
    translator = build_translator(stage, data.subword_paths, system.data.max_tokens)
    compile_translator(translator, system)
    return translator


def _teacher_forcing(training):
    if not training.samples_tokens:
        return None
    return TeacherForcing(training.teacher_forcing, training.teacher_forcing_end, training.teacher_forcing_steps)


def _load_vectors(translator, training, say):
    sides = (
        (
            training.word_vectors_source,
            translator.backbone.source_embedding,
            translator.preprocessor.source_tokenizer,
        ),
        (
            training.word_vectors_target,
            translator.backbone.target_embedding,
            translator.preprocessor.tokenizer,
        ),
    )
    for path, embedding, tokenizer in sides:
        if path is not None:
            found = load_word_vectors(embedding, tokenizer.get_vocabulary(), path)
            say(f"{found} of {embedding.input_dim} embeddings begin as vectors of {path}")


def load_translator(path, beams=None, length_penalty=None, search_top_k=None, max_tokens=None):
    """Load the translator of a run folder or of a preset.

    Args:
        path: a run folder, or whatever `Translator.from_preset` takes.
        beams, length_penalty, search_top_k: settings of the search; by default those of the run, or of
            `SearchSettings`.

    Raises:
        UserError: there is no trained system, or it is damaged.
    """
    run = RunFolder(path)
    search = SearchSettings()
    preset = str(path)
    if run.holds_run:
        search = run.system().search
        if kind_of(run.best) is None:
            raise UserError(f"{shown(path)} has no trained model yet: train it, or resume it with --resume.")
        preset = str(run.best)
    elif "://" not in preset and kind_of(preset) != "folder":
        raise UserError(f"there is no run folder or preset {shown(path)}: check the path.")
    translator = _from_preset(preset)
    given = {"beams": beams, "length_penalty": length_penalty, "search_top_k": search_top_k}
    # Made anew, the settings are checked.
    search = dataclasses.replace(search, **{name: value for name, value in given.items() if value is not None})
    translator.compile(sampler=BeamSearch(search.beams, search.length_penalty), search_top_k=search.search_top_k)
    if max_tokens is not None:
        translator.make_room(max_tokens)
    return translator


def _from_preset(preset):
    """Load a preset; whatever is wrong with it is one line that names it."""
    try:
        return Translator.from_preset(preset)
    except UserError as error:
        if preset in str(error):
            raise
        reason = error
    except Exception as error:
        # A damaged or hostile file makes Keras, HDF5 and SentencePiece raise all there is.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    raise UserError(f"{shown(preset)} is no preset of a translator, or is damaged: {reason}") from None


def score_run(
    folder,
    pairs,
    gold=None,
    name="test",
    beams=None,
    length_penalty=None,
    search_top_k=None,
    max_tokens=None,
    known=None,
    progress=None,
):
    """Translate and score a test set; write hypotheses, references, scores and alignments into the run folder.

    Args:
        folder: the run folder of a trained system.
        pairs: test sentence pairs.
        gold: for each pair `(source words, target words, Alignment)`, or None for no alignment scores.
        name: of the test set, in files and tables.
        beams, length_penalty, search_top_k: settings of the search; by default those of the system.
        max_tokens: most tokens of a sentence, see `Translator.make_room`; by default as in training.
        known: scores of the same text with another search: what does not depend on it is taken from there.
        progress: function called with a word and the number of sentences done.

    Returns:
        the scores, plain data.
    """
    run = RunFolder(folder)
    system = run.system()
    search = system.search
    # All that is read is read before anything is written.
    training, _ = training_summary(run), run.read_scores()
    translator = load_translator(folder, beams, length_penalty, search_top_k, max_tokens)
    pairs = list(pairs)
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    known = known or _scores_of_references(translator, system, pairs, gold, run.alignment(name))
    clock = CompilationClock()
    report = None if progress is None else (lambda done: progress("translated", done))
    began = time.perf_counter()
    found = translator.translate(sources, batch_size=search.batch_size, clock=clock, progress=report)
    seconds = time.perf_counter() - began
    hypotheses = [best[0].text for best in found]
    scores = {
        "system": system.name,
        "sentences": len(pairs),
        "beams": translator.sampler.num_beams,
        "length_penalty": translator.sampler.length_penalty,
        "search_top_k": translator.search_top_k,
        "text": score_text(hypotheses, references).as_dict(),
        **{key: known[key] for key in (*_OF_REFERENCES, "free_running", "alignment") if key in known},
        "translation_seconds": seconds,
        "translation_compilation_seconds": clock.compilation,
        "training": training,
        "parameters": translator.count_params(),
        "backend": keras.config.backend(),
    }
    with run.lock_scores():
        for path, lines in ((run.hypotheses(name), hypotheses), (run.references(name), references)):
            write_text(path, "".join(text + "\n" for text in lines))
        run.add_scores(name, scores)
    return scores


def score_alignment(translator, gold, path, batch_size=32):
    """Align gold-aligned sentence pairs by forced decoding; write the links; return AER, precision, recall.

    Args:
        translator: a `Translator`.
        gold: `(source words, target words, Alignment)` a sentence.
        path: file of the links, in Pharaoh's format counted from 0, source first.

    Returns:
        "aer", "precision", "recall" and "sentences"; of a latent alignment, "posterior_aer" too.
    """
    words = [(source, target) for source, target, _ in gold]
    links, _ = align_words(translator, words, batch_size=batch_size)
    predicted = [Alignment(sure=frozenset(found)) for found in links]
    write_alignments(path, predicted)
    wanted = [alignment for *_, alignment in gold]
    scores = score_links(links, words, wanted)
    found = {
        "aer": scores.aer,
        "precision": scores.precision,
        "recall": scores.recall,
        "sentences": scores.sentences,
    }
    if translator.backbone.latent_head is not None:
        links, _ = align_words(translator, words, layers="posterior", batch_size=batch_size)
        found["posterior_aer"] = score_links(links, words, wanted).aer
    return found


def _scores_of_references(translator, system, pairs, gold, path):
    """What a test set's references score along the model, whatever the search."""
    scores = likelihood(translator, pairs)
    if system.training.samples_tokens:
        scores["free_running"] = likelihood(translator, pairs, free_running=True)
    if gold is not None:
        scores["alignment"] = score_alignment(translator, gold, path, system.search.batch_size)
    return scores


def likelihood(translator, pairs, free_running=False):
    """Return loss, perplexity, accuracy and number of the real target tokens of a test set.

    Args:
        translator: a compiled `Translator`.
        pairs: sentence pairs.
        free_running: whether the decoder is fed its own best guesses and not the given tokens: an RNN without a
            latent alignment can be.

    Example:
        >>> likelihood(translator, [("Guten Tag", "Hello")])["perplexity"]
    """
    x, y, weights = translator.preprocessor.call(
        {"encoder_text": [source for source, _ in pairs], "decoder_text": [target for _, target in pairs]}
    )
    if free_running:
        x["teacher_forcing_mask"] = np.zeros(y.shape, dtype="bool")
    longest = np.maximum(x["encoder_padding_mask"].sum(axis=1), x["decoder_padding_mask"].sum(axis=1))
    # Few lengths and one number of rows: a compiled backend compiles once a length.
    lengths = np.minimum(2 ** np.ceil(np.log2(longest)).astype(int), y.shape[1])
    sums = dict.fromkeys(_OF_REFERENCES, 0.0)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        real = len(rows)
        rows = np.pad(rows, (0, -real % EVALUATION_ROWS), mode="edge")
        of_rows = weights[rows, :length] * (np.arange(len(rows)) < real)[:, None]
        found = translator.evaluate(
            {name: ids[rows, :length] for name, ids in x.items()},
            y[rows, :length],
            sample_weight=of_rows,
            batch_size=EVALUATION_ROWS,
            verbose=0,
            return_dict=True,
        )
        tokens = float(found["tokens"])
        sums["tokens"] += tokens
        sums["perplexity"] += tokens * math.log(found["perplexity"])
        for name in ("loss", "accuracy"):
            sums[name] += tokens * float(found[name])
    means = {name: sums[name] / sums["tokens"] for name in ("loss", "perplexity", "accuracy")}
    return {**means, "perplexity": math.exp(means["perplexity"]), "tokens": sums["tokens"]}


def training_summary(run):
    """Return steps, rounds and wall time of a run's training, from its log; compilation apart."""
    lines = read_log(run.log)
    steps = [line for line in lines if "seconds" in line]
    rounds = [line for line in lines if "round" in line]
    clock = CompilationClock()
    for line in steps:
        clock.record(tuple(line["shape"]), line["seconds"])
    tokens = sum(line["tokens"] for line in steps)
    return {
        "steps": len(steps),
        "rounds": len(rounds),
        "best_valid_loss": min((x for line in rounds if (x := line.get("val_loss")) is not None), default=None),
        "seconds": clock.total,
        "compilation_seconds": clock.compilation,
        "tokens_per_second": tokens / clock.steady if clock.steady else None,
        "steps_per_second": len(steps) / clock.steady if clock.steady else None,
        "environment": run.backend(),
    }


def titles(folders):
    """Names of folders for a picture: the last parts of the paths, or all of them where two of those are alike.

    Example:
        >>> titles(["runs/a", "runs/b"])
        ['a', 'b']
    """
    names = [Path(folder).name for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder) for folder in folders]


def curves(folders, key="val_loss"):
    """Return the curves of runs, for `plot_curves`: `{name: (steps, values)}`.

    Args:
        folders: run folders.
        key: a number of the log's rounds.

    Raises:
        UserError: the log of a run has no such number.
    """
    found = {}
    for folder, name in zip(folders, titles(folders), strict=True):
        run = RunFolder(folder)
        run.check_links()
        rounds = [line for line in read_log(run.log) if "round" in line]
        lines = [line for line in rounds if line.get(key) is not None]
        if not lines:
            known = sorted({one for line in rounds for one in line} - {"round", "step"})
            choice = f"choose one of {', '.join(known)}" if known else "no round has ended yet"
            raise UserError(f"the log of {shown(folder)} has no {shown(key)}: {choice}.")
        found[name] = ([line["step"] for line in lines], [line[key] for line in lines])
    return found


def curves_over_top_k(folders, name, value):
    """Return a score of runs over the number of source positions in search, for `plot_curves`.

    Args:
        folders: run folders of latent alignments, scored with several `search_top_k`.
        name: of the test set; its scores are those of any name that begins so.
        value: function of a dict of scores that gives the number.

    Returns:
        curves `{run: (steps, values)}` and ticks `{step: label}`; all positions stand behind the largest count.

    Raises:
        UserError: a run was not scored with any count.
    """
    found = {}
    for folder, title in zip(folders, titles(folders), strict=True):
        scores = [s for key, s in RunFolder(folder).read_scores().items() if key.startswith(f"{name}-k")]
        found[title] = {s["search_top_k"]: value(s) for s in scores if s["search_top_k"] is not None}
        if not found[title]:
            raise UserError(f"{folder} was not scored with counts of positions: evaluate it with --top-k 1 2 3 6 0.")
    return _over_counts(found)


def curves_over_trained_top_k(folders, name, value):
    """Return a score of runs over the number of source positions that each was trained with, for `plot_curves`.

    Args:
        folders: run folders: latent alignments, a point each; others are levels beside them.
        name: of the test set.
        value: function of a dict of scores that gives the number.

    Returns:
        curves and ticks, see `curves_over_top_k`.

    Raises:
        UserError: a run was not scored on the test set; two with one number; none has a latent alignment.
    """
    latent, levels = {}, {}
    for folder, title in zip(folders, titles(folders), strict=True):
        run = RunFolder(folder)
        scores, backbone = run.read_scores(), run.system().backbone
        if name not in scores:
            raise UserError(f"{folder} is not scored on {name!r}: evaluate it first.")
        if backbone.get("output") != "latent":
            levels[title] = value(scores[name])
            continue
        # Without a word about it the sum is exact, and K six: what the bodies have by default.
        approximate = backbone.get("marginalization") == "top_k"
        count = backbone.get("top_k", 6) if approximate else 0
        if count in latent:
            raise UserError(f"{folder} was trained with as many positions as a run before it: draw one for each count.")
        latent[count] = value(scores[name])
    if not latent:
        raise UserError("no run has a latent alignment: there is nothing to draw over source positions.")
    return _over_counts({"latent alignment": latent, **{one: dict.fromkeys(latent, x) for one, x in levels.items()}})


def _over_counts(found):
    """Curves and ticks of `{curve: {count: value}}`; 0, all positions, comes last."""
    counts = sorted({k for values in found.values() for k in values}, key=lambda k: k or math.inf)
    ticks = {step: k or "all" for step, k in enumerate(counts)}
    curves = {
        run: ([step for step, k in enumerate(counts) if k in values], [values[k] for k in counts if k in values])
        for run, values in found.items()
    }
    return curves, ticks


def draw_run(folder, pairs, gold=None, count=PICTURES, max_tokens=None):
    """Draw the attention of a few test sentences, and the curve of the validation loss, into the run folder.

    Sentences of a length that shows reordering and still reads well are taken; the given translation is
    decoded along, and gold links are outlined.

    Args:
        folder: the run folder of a trained system.
        pairs, gold, max_tokens: see `score_run`.
        count: number of sentences.

    Returns:
        the paths of the pictures.
    """
    run = RunFolder(folder)
    translator = load_translator(folder, max_tokens=max_tokens)
    full = [i for i, pair in enumerate(pairs) if all(side.strip() for side in pair)]
    chosen = sorted(full, key=lambda i: abs(len(pairs[i][0].split()) - WORDS_OF_A_PICTURE))[:count]
    paths = []
    for number, i in enumerate(chosen, start=1):
        matrix, source_words, target_words = sentence_picture(translator, *pairs[i])
        paths.append(run.picture(f"attention-{number}"))
        plot_attention(matrix, source_words, target_words, paths[-1], gold=gold and gold[i][2])
    paths.append(run.picture("curves"))
    plot_curves(curves([folder]), paths[-1], ylabel="validation loss")
    return paths

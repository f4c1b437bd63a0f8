"""What a comparison would do: the runs that are left, how long they will take and how much memory they need."""

import dataclasses
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_attn_zoo.corpora.corpus import Corpus
from keras_attn_zoo.corpora.named_corpora import NamedCorpus
from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.data.batches import TranslationBatches
from keras_attn_zoo.devices import leader_first
from keras_attn_zoo.runs.budget import amount, planned_steps
from keras_attn_zoo.runs.finished_run import SCORING_PRECISION, left_to_score, logged_steps, outdated_scores
from keras_attn_zoo.runs.memory import activation_bytes, on_cpu, shown_bytes, weight_bytes
from keras_attn_zoo.runs.outline import outline
from keras_attn_zoo.runs.precision import policy
from keras_attn_zoo.runs.preparation import (
    PreparedData,
    build_translator,
    compile_translator,
    described,
    prepare_data,
    training_batches,
)
from keras_attn_zoo.runs.run_folder import RunFolder, backend_here
from keras_attn_zoo.runs.search_time import SearchTime, encoded, scored_search, target_tokens, timed_search
from keras_attn_zoo.runs.settings import UNGUIDED, TrainingSettings
from keras_attn_zoo.runs.step_times import step_seconds
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Run
from keras_attn_zoo.studies.tabular import markdown_table
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.files import PathLike
from keras_attn_zoo.support.machine_memory import machine_bytes
from keras_attn_zoo.training.progress import clock_time, parameter_count
from keras_attn_zoo.training.resumable_state import saved_progress
from keras_attn_zoo.training.run_log import clock_of

_LOG = logging.getLogger(__name__)
# Steps to time, and batches by whose shapes they stand for all.
_TIMED, _MOST_SHAPES = 3, 500
# How long a token takes in validation, which has no backward pass, compared with training.
_OF_VALIDATION = 1 / 3


@dataclasses.dataclass(frozen=True)
class Speed:
    """What a step takes.

    Attributes:
        step: seconds of a step, on average.
        compilation: seconds to compile all shapes.
        measured: on what.
    """

    step: float
    compilation: float
    measured: str


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is left of a comparison.

    Attributes:
        table: a Markdown table of the runs, with notes.
        seconds: how long it will take.
    """

    table: str
    seconds: float


def plan_comparison(
    runs: Sequence[Run],
    corpus: Corpus,
    out: PathLike,
    texts: Mapping[str, Mapping[str, ParallelText]] | None = None,
    bleu_after: Sequence[int] = (),
) -> Plan:
    """Return what is done and what is left. The text is prepared, but no system is trained.

    The time of a step is that of a run in the folder with the same body, data and precision under the same backend,
    whatever its seed and schedule; without one, a few steps are timed. That of a translation is likewise that of a
    run which searches alike, or of a batch.

    Args:
        runs: the runs, see `expand`.
        corpus: the text.
        out: the folder of the runs.
        texts: by the name of a run, those that are scored beside the corpus' own test texts, see `score_and_draw`.
        bleu_after: see `train_system`.

    Raises:
        UserError: text or settings that cannot be trained; a run that was begun with others.
    """
    folders = {run.name: RunFolder(Path(out) / run.name) for run in runs}
    known, rows, whole, needed = _Times(folders.values(), corpus), [], 0.0, _Needed()
    for run in runs:
        folder, system = folders[run.name], run.system
        description = described(corpus, system.data)
        if folder.holds_run:
            system = system.override(precision=folder.system().precision)
            try:
                folder.check_settings(system, description)
            except UserError as error:
                raise UserError(f"{run.name}: {error}") from None
        with leader_first():
            data = prepare_data(corpus, system.data, Path(out) / "data", description["fingerprint"])
        batches = training_batches(run.system, data.train)
        scores, log, steps = folder.read_scores(), logged_steps(folder), planned_steps(system.training, batches)
        whole_texts = {"test": corpus.test, **corpus.more_tests, **(texts or {}).get(run.name, {})}
        outdated = outdated_scores(folder, scores)
        trained = _is_trained(folder, system, steps, log)
        # What is trained further is scored again.
        unscored = [*(left_to_score(whole_texts, scores, outdated) if trained else whole_texts).values()]
        state = "begun" if folder.holds_run else "to do"
        training = translation = 0.0
        measured: list[str] = []
        if not trained:
            speed = known.of_steps(run.name, system, data, batches)
            seconds = _seconds_left(system, steps, log, speed)
            training = seconds + speed.compilation + seconds * _of_validation(system, data)
            rounds = seconds / speed.step / len(batches)
            measured.append(speed.measured)
            translation = known.of_watching(run.name, system, data, rounds, _milestones(steps, log, bleu_after))
        elif not unscored:
            state = "done"
        if unscored:
            scored = _scoring(system)
            search = known.of_search(run.name, scored, data)
            measured.append(search.measured)
            translation += sum(search.seconds_for(encoded(text, scored, data), scored) for text in unscored)
            translation += known.of_references(run.name, scored, data, batches, unscored)
        sizes = [one.vocabulary_size for one in data.subwords]
        shown = needed.by(system, sizes, state == "done")
        of = system.training.budget if steps is None else f"{steps:,}"
        times = [clock_time(training), clock_time(translation), "; ".join(measured) or "–"]
        rows.append([run.name, state, f"{len(log):,} of {of}", *times, *shown])
        whole += training + translation
    heads = ["run", "state", "steps", "training left", "translation left", "measured on", *_NEEDS]
    return Plan(
        f"{markdown_table(heads, rows)}\n\n"
        f"- time left: {clock_time(whole)} in all under {backend_here()}, at most: steps, searches, their "
        "compilation and, estimated, validation and the scoring of references; pictures come on top\n"
        f"{needed}",
        whole,
    )


def plan_without_text(runs: Sequence[Run], corpus: NamedCorpus) -> Plan:
    """Return what is known of runs as long as their text, of the catalogue, is not on this machine."""
    rows, needed = [], _Needed()
    for run in runs:
        training, size = run.system.training, run.system.data.vocabulary_size
        length = training.budget or f"{training.epochs:g} epochs"
        rows.append([run.name, length, *needed.by(run.system, None if size is None else [size, size])])
    pairs = counted(corpus.pairs[0], "training pair") if corpus.pairs[0] else "an unknown number of training pairs"
    return Plan(
        f"{markdown_table(['run', 'training', *_NEEDS], rows)}\n\n"
        f"- time left: unknown, as {corpus.name}, {pairs}, is not on this machine: attn-zoo corpora --download "
        f"{corpus.name}\n{needed}",
        math.nan,
    )


_NEEDS = ("parameters", "memory")


class _Needed:
    """What runs need: the memory of the largest, and the room of all on the disk."""

    def __init__(self) -> None:
        self.memory = self.disk = 0
        self.besides = ""

    def by(self, system: System, vocabulary_sizes: Sequence[int] | None, done: bool = False) -> list[str]:
        """Add a run, and return its numbers of parameters and memory; unknown without sizes of the vocabularies."""
        if vocabulary_sizes is None:
            self.besides = ", less those whose vocabulary the text decides"
            return ["–", "–"]
        parameters = outline(system, *vocabulary_sizes).parameters
        memory = weight_bytes(parameters) + activation_bytes(system, vocabulary_sizes[1])
        if not done:
            self.memory = max(self.memory, memory)
            # The best round, and the state, which has the weights and both moments of Adam.
            self.disk += weight_bytes(parameters)
        return [parameter_count(parameters), shown_bytes(memory)]

    def __str__(self) -> str:
        return (
            "- memory: weights, gradients and Adam, and the activations of the largest batch, at most"
            f"{_beside(self.memory)}\n"
            f"- on disk: {shown_bytes(self.disk)} for the weights and states of these runs, beside the encoded text"
            f"{self.besides}"
        )


def _seconds_left(system, steps, log, speed):
    """The seconds of the steps that are left."""
    if steps is None:
        return max(0.0, 60 * amount(system.training.budget or "")[0] - clock_of(log).steady)
    return max(0, steps - len(log)) * speed.step


def _is_trained(folder, system, steps, log):
    """Whether a run has ended; one with a budget says so in its state, as does one without patience left."""
    rounds_done = system.training.budget is None and folder.holds_run and len(log) >= steps
    return rounds_done or saved_progress(folder.state)[1]


def _milestones(steps, log, bleu_after):
    """How many steps are left after which the test text is translated."""
    found = {math.ceil(steps * percent / 100) for percent in bleu_after} if steps is not None else ()
    return sum(step > len(log) for step in found)


def _of_validation(system, data):
    """How long the validations of a training take, compared with its steps."""
    share = data.valid.tokens("target") / data.train.tokens("target")
    return _OF_VALIDATION * share * _passes(system) * system.training.validations_per_epoch


def _passes(system):
    """How often references are scored: where the decoder was fed its own predictions, with these too."""
    return 2 if system.training.samples_tokens else 1


class _Times:
    """How long steps and searches take: as in runs that are there, or else as measured, once for all that are alike."""

    def __init__(self, folders: Iterable[RunFolder], corpus: Corpus) -> None:
        self.corpus, self.folders = corpus, [folder for folder in folders if folder.holds_run]
        self.speeds: dict[tuple[str, str], Speed] = {}
        self.searches: dict[tuple[str, ...], SearchTime] = {}
        for folder in self.folders:
            if (speed := _logged(folder, logged_steps(folder))) is not None:
                self.speeds[_same(folder.system())] = speed

    def of_steps(self, name: str, system: System, data: PreparedData, batches: TranslationBatches) -> Speed:
        """Return the speed of a system's steps."""
        key = _same(system)
        if key not in self.speeds:
            _LOG.info("timing a few steps of %s", name)
            self.speeds[key] = _timed(system, data, batches)
        return self.speeds[key]

    def of_search(self, name: str, system: System, data: PreparedData) -> SearchTime:
        """Return the speed of a system's search."""
        key = _searching(system)
        if key not in self.searches:
            test = encoded(self.corpus.test, system, data)
            alike = (folder for folder in self.folders if _searching(_scoring(folder.system())) == key)
            scored = (scored_search(folder, self.corpus.test, test, system) for folder in alike)
            found = next((one for one in scored if one is not None), None)
            if found is None:
                _LOG.info("timing a search of %s", name)
                found = timed_search(system, data)
            self.searches[key] = found
        return self.searches[key]

    def of_watching(self, name: str, system: System, data: PreparedData, rounds: float, milestones: int) -> float:
        """Return seconds of translations in training: of validation text after rounds, of test text at milestones."""
        seconds = 0.0
        if system.training.best_by == "bleu":
            valid = ParallelText(list(self.corpus.splits.valid)[: system.training.bleu_sentences])
            seconds += self.of_search(name, system, data).seconds_for(encoded(valid, system, data), system, rounds)
        if milestones:
            test = encoded(self.corpus.test, system, data)
            seconds += self.of_search(name, system, data).seconds_for(test, system, milestones)
        return seconds

    def of_references(
        self, name: str, system: System, data: PreparedData, batches: TranslationBatches, texts: Sequence[ParallelText]
    ) -> float:
        """Return the seconds to score the references of texts, of each once."""
        tokens = sum(target_tokens(encoded(text, system, data)) for text in {id(text): text for text in texts}.values())
        epoch = self.of_steps(name, system, data, batches).step * batches.batches_per_epoch
        # With the end of each sentence, as in the texts.
        trained = data.train.tokens("target") + len(data.train)
        return _OF_VALIDATION * _passes(system) * epoch * tokens / trained


def _beside(needed):
    """What a line on the memory that a run needs says of this machine's."""
    if not on_cpu() or machine_bytes() == float("inf"):
        return ""
    there = f"this machine has {shown_bytes(machine_bytes())}"
    return f"; {there}, which may be too little for the largest" if needed > machine_bytes() else f"; {there}"


def _same(system: System) -> tuple[str, str]:
    """What systems have in common whose steps take equally long."""
    kept = TrainingSettings(
        accumulation_steps=system.training.accumulation_steps,
        teacher_forcing=0.5 if system.training.samples_tokens else 1.0,
        pretraining_rounds=system.training.pretraining_rounds,
    )
    same = System("any", system.backbone, system.data, kept, body=system.body)
    return repr(same), policy(system.precision)


def _scoring(system: System) -> System:
    """A system in the precision that it is scored in."""
    return system.override(precision=SCORING_PRECISION)


def _searching(system: System) -> tuple[str, ...]:
    """What systems have in common whose searches take equally long."""
    return *_same(system), repr(system.search)


def _logged(folder: RunFolder, steps: list[dict[str, Any]]) -> Speed | None:
    """The speed of a run under this backend by its log, if that has steps beyond those that compile."""
    shapes, clock = {tuple(step["shape"]) for step in steps}, clock_of(steps)
    known = len(clock.unresolved) < len(shapes) and clock.steady > 0
    if not known or not folder.holds_run or folder.backend() != backend_here():
        return None
    return Speed(clock.steady / len(steps), clock.compilation_of_one, f"the log of {folder.path.name}")


def _timed(system: System, data: PreparedData, batches: TranslationBatches) -> Speed:
    """The speed of a system, from a few steps of the most frequent shape; nothing is kept of them."""
    translator = build_translator(system, data.subwords, system.data.max_tokens)
    # The learning rate does not matter, nor do links.
    constant = system.override(schedule="constant", **UNGUIDED)
    compile_translator(translator, constant, None)
    shapes = _shapes(batches)
    # Each further one would have to be compiled.
    of_one = max(dict.fromkeys(shapes), key=shapes.count)
    alike = [index for index, shape in enumerate(shapes) if shape == of_one]
    first, *others = step_seconds(translator, batches, [alike[i % len(alike)] for i in range(1 + _TIMED)])
    rows = dict(zip(batches.bounds, batches.rows, strict=True))
    step = sum(others) / len(others)
    positions = [rows[shape] * sum(shape) for shape in shapes]
    share = sum(positions) / len(positions) / (rows[of_one] * sum(of_one))
    return Speed(share * step, max(0.0, first - step) * len(batches.bounds), f"{len(others)} timed steps")


def _shapes(batches):
    """The shapes of the first batches of an epoch."""
    return [batches.bound(index) for index in range(min(batches.batches_per_epoch, _MOST_SHAPES))]

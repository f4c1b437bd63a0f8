"""What a comparison would do: the runs that are left, how long they will take and how much memory they need."""

import dataclasses
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from keras_attn_zoo.data.batches import TranslationBatches, fit_arguments
from keras_attn_zoo.devices import leader_first
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments.budget import amount, planned_steps
from keras_attn_zoo.experiments.comparison import Run
from keras_attn_zoo.experiments.corpora import Corpus
from keras_attn_zoo.experiments.memory import activation_bytes, machine_bytes, on_cpu, shown_bytes, weight_bytes
from keras_attn_zoo.experiments.outline import outline
from keras_attn_zoo.experiments.precision import policy
from keras_attn_zoo.experiments.preparation import (
    PreparedData,
    build_translator,
    compile_translator,
    described,
    prepare_data,
    training_batches,
)
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.experiments.settings import TrainingSettings
from keras_attn_zoo.experiments.system import System
from keras_attn_zoo.experiments.tabular import markdown_table
from keras_attn_zoo.files import PathLike, kind_of
from keras_attn_zoo.training.progress import clock_time, parameter_count
from keras_attn_zoo.training.run_log import clock_of, read_steps
from keras_attn_zoo.types import Logs

_LOG = logging.getLogger(__name__)
# Steps to time: those of a shape that has been compiled, and the most of all.
_TIMED, _MOST_STEPS = 3, 20
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


def plan_table(runs: Sequence[Run], corpus: Corpus, out: PathLike) -> str:
    """Return a Markdown table of what is done and what is left. The text is prepared, but no system is trained.

    The time of a step is that of a run in the folder with the same body, data and precision under the same backend,
    whatever its seed and schedule; without one, a few steps are timed.

    Args:
        runs: the runs, see `expand`.
        corpus: the text.
        out: the folder of the runs.

    Raises:
        UserError: text or settings that cannot be trained; a run that was begun with others.
    """
    out, rows, whole, most = Path(out), [], 0.0, 0.0
    logs = {run.name: _steps(RunFolder(out / run.name)) for run in runs}
    speeds: dict[tuple[str, str], Speed] = {}
    for name, log in logs.items():
        if (speed := _logged(RunFolder(out / name), log)) is not None:
            speeds[_same(RunFolder(out / name).system())] = speed
    for run in runs:
        with leader_first():
            data = prepare_data(corpus, run.system.data, out / "data")
        folder, batches = RunFolder(out / run.name), training_batches(run.system, data)
        system, log = run.system, logs[run.name]
        if folder.holds_run:
            system = system.override(precision=folder.system().precision)
            try:
                folder.check_settings(system, described(corpus, data), corpus.test.rows())
            except UserError as error:
                raise UserError(f"{run.name}: {error}") from None
        state, steps = _state(folder), planned_steps(system.training, batches)
        left, measured = 0.0, ""
        if state != "done":
            key = _same(system)
            if key not in speeds:
                _LOG.info("timing a few steps of %s", run.name)
                speeds[key] = _timed(system, data, batches)
            speed = speeds[key]
            measured = speed.measured
            if steps is None:
                left = max(0.0, 60 * amount(system.training.budget or "")[0] - clock_of(log).steady) + speed.compilation
            else:
                left = max(0, steps - len(log)) * speed.step + speed.compilation
            left += _validation(left - speed.compilation, system, data)
        sizes = [one.vocabulary_size for one in data.subwords]
        parameters = outline(system, *sizes).parameters
        memory = weight_bytes(parameters) + activation_bytes(system, sizes[1])
        most = max(most, memory if state != "done" else 0)
        of = system.training.budget if steps is None else f"{steps:,}"
        cells = [f"{len(log):,} of {of}", clock_time(left), measured or "–", parameter_count(parameters)]
        rows.append([run.name, state, *cells, shown_bytes(memory)])
        whole += left
    table = markdown_table(["run", "state", "steps", "time left", "measured on", "parameters", "memory"], rows)
    return (
        f"{table}\n\n"
        f"- time left: {clock_time(whole)} in all under {keras.config.backend()}, at most: steps, their compilation "
        "and, estimated, validation; translation and scoring come on top\n"
        f"- memory: weights, gradients and Adam, and the activations of the largest batch, at most{_beside(most)}"
    )


def _validation(seconds, system, data):
    """About how long the validations of a training take whose steps take so many seconds."""
    share = data.valid.tokens("target") / data.train.tokens("target")
    times = 2 if system.training.samples_tokens else 1
    return seconds * _OF_VALIDATION * share * times * system.training.validations_per_epoch


def _beside(needed):
    """What a line on the memory that a run needs says of this machine's."""
    if not on_cpu() or machine_bytes() == float("inf"):
        return ""
    there = f"this machine has {shown_bytes(machine_bytes())}"
    return f"; {there}, which may be too little for the largest" if needed > machine_bytes() else f"; {there}"


def _state(folder):
    if "test" in folder.read_scores():
        return "done"
    return "begun" if folder.holds_run else "to do"


def _same(system: System) -> tuple[str, str]:
    """What systems have in common whose steps take equally long."""
    kept = TrainingSettings(
        accumulation_steps=system.training.accumulation_steps,
        teacher_forcing=0.5 if system.training.samples_tokens else 1.0,
        pretraining_rounds=system.training.pretraining_rounds,
    )
    same = System("any", system.backbone, system.data, kept, body=system.body)
    return repr(same), policy(system.precision)


def _steps(folder: RunFolder) -> list[dict[str, Any]]:
    """The steps in the log of a run; none if there is no log."""
    return read_steps(folder.log) if kind_of(folder.log) is not None else []


def _logged(folder: RunFolder, steps: list[dict[str, Any]]) -> Speed | None:
    """The speed of a run under this backend by its log, if that has steps beyond those that compile."""
    shapes, clock = {tuple(step["shape"]) for step in steps}, clock_of(steps)
    if len(clock.unresolved) == len(shapes) or not folder.holds_run or folder.backend() != keras.config.backend():
        return None
    return Speed(clock.steady / len(steps), clock.compilation_of_one, f"the log of {folder.path.name}")


class _Times(keras.callbacks.Callback):
    """Record the shapes and seconds of the first steps, then stop."""

    def __init__(self, batches: TranslationBatches) -> None:
        super().__init__()
        self.batches = batches
        self.calls: list[tuple[tuple[int, int], float]] = []

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Start the clock."""
        self._began = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Record a step."""
        float(logs["loss"])
        seconds = time.perf_counter() - self._began
        self.calls.append((self.batches.bound(len(self.calls)), seconds))
        again = len(self.calls) - len({shape for shape, _ in self.calls})
        self.model.stop_training = again >= _TIMED or len(self.calls) >= _MOST_STEPS


def _timed(system: System, data: PreparedData, batches: TranslationBatches) -> Speed:
    """The speed of a system, from its first steps; nothing is kept of them."""
    translator = build_translator(system, data.subwords, system.data.max_tokens)
    # The learning rate does not matter.
    constant = system.override(schedule="constant")
    compile_translator(translator, constant, None)
    times = _Times(batches)
    # A round may have fewer steps than are timed.
    arguments = {**fit_arguments(batches), "steps_per_epoch": _MOST_STEPS}
    translator.fit(**arguments, epochs=1, callbacks=[times], verbose=0)
    rows = dict(zip(batches.bounds, batches.rows, strict=True))

    def positions(shape):
        return rows[shape] * sum(shape)

    seen: set[tuple[int, int]] = set()
    firsts: list[tuple[int, float]] = []
    repeated: list[tuple[int, float]] = []
    for shape, seconds in times.calls:
        (repeated if shape in seen else firsts).append((positions(shape), seconds))
        seen.add(shape)
    # In an epoch of as many batches as shapes, all of them compile.
    rate = sum(s for _, s in repeated or firsts) / sum(count for count, _ in repeated or firsts)
    compilations = [max(0.0, seconds - rate * count) for count, seconds in firsts]
    some = range(min(batches.batches_per_epoch, 500))
    step = rate * sum(positions(batches.bound(i)) for i in some) / len(some)
    compilation = sum(compilations) / len(compilations) * len(batches.bounds)
    return Speed(step, compilation, f"{len(repeated or firsts)} timed steps")

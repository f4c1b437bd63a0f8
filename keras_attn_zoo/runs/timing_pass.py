"""The timing pass of a comparison: trained systems take turns on an idle machine, after their memory is measured."""

import datetime
import functools
import logging
import multiprocessing
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

import keras

from keras_attn_zoo.bodies.schema import longest_translation
from keras_attn_zoo.data.batches import TranslationBatches
from keras_attn_zoo.kernels import peak_bytes, processor_name
from keras_attn_zoo.runs.curves import titles
from keras_attn_zoo.runs.described_corpora import own_test_text
from keras_attn_zoo.runs.finished_run import SCORING_PRECISION
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.memory import on_cpu
from keras_attn_zoo.runs.preparation import compile_translator, training_batches, training_text_of
from keras_attn_zoo.runs.run_folder import RunFolder, backend_here
from keras_attn_zoo.runs.settings import UNGUIDED
from keras_attn_zoo.runs.step_times import step_seconds
from keras_attn_zoo.runs.timing_data import ROUNDS
from keras_attn_zoo.support.backends import choose_backend
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, write_json
from keras_attn_zoo.support.machine_load import IDLE, MachineLoad, cores, load_of_others
from keras_attn_zoo.support.messages import progress_bar
from keras_attn_zoo.training.random_state import make_deterministic

_LOG = logging.getLogger(__name__)
_Found = TypeVar("_Found")
# In each turn: steps of a shape, and sentences at most.
_STEPS, _SENTENCES = 2, 200
# How long the machine is watched before.
_WATCHED = 3.0
# Of the order of the batches, the same for all systems.
_SEED = 0


def time_runs(
    folders: Sequence[PathLike], rounds: int = ROUNDS, anyway: bool = False, ask: Callable[[str], bool] | None = None
) -> None:
    """Time trained runs in turn, and write what was found to `timing.json` in each folder.

    Each system trains on the same batches of its encoded text, and translates the same sentences of the test text with
    its own search, in float32 as it is scored. What compiles comes first and is not timed. Of a step, the time is the
    mean over the batches of an epoch of the medians for each shape; of the translation, the median. The weights that
    the steps change are thrown away.

    What memory a step needs besides weights and optimizer is measured before, of each system in a process of its own.

    Args:
        folders: run folders; for the times, all systems are in memory at once.
        rounds: how often each has its turn.
        anyway: whether to go on while others use the machine. The figures are marked then, as they are if others begin
            to during the pass.
        ask: see `own_test_text`.

    Raises:
        UserError: the machine is not idle; a run has no trained system or encoded text; runs have other test texts.
    """
    runs = dict(zip(titles(folders), map(RunFolder, folders), strict=True))
    text = _shared_text(runs, ask)
    batches = {name: _batches(run) for name, run in runs.items()}
    before = load_of_others(_WATCHED)
    if before > IDLE and not anyway:
        raise _busy(before)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    memory = {name: _step_bytes(run) for name, run in runs.items()}
    make_deterministic()
    _LOG.info("timing training steps of %s in turn", ", ".join(runs))
    steps, in_training, cores_used = _timed({name: _Steps(run, batches[name]) for name, run in runs.items()}, rounds)
    _LOG.info("timing the translation of %s in turn", ", ".join(runs))
    translations, in_search, _ = _timed(_searches(runs, text), rounds)
    used = max(before, in_training, in_search)
    if used > IDLE:
        _LOG.warning("others used %.0f %% of this machine's processors: the figures are marked", 100 * used)
    of_pass = {
        "started": started,
        "systems": list(runs),
        "rounds": rounds,
        "test_sentences": len(text.pairs),
        "machine": processor_name() if on_cpu() else f"{processor_name()}, {keras.ops.zeros((1,)).device}",
        "cores": cores(),
        "cores_used": cores_used,
        "backend": backend_here(),
        "used_by_others": used,
        "beside_other_work": used > IDLE,
    }
    for name, run in runs.items():
        own = {**_of_steps(steps[name], batches[name]), **_of_search(translations[name]), **of_pass}
        write_json(run.timing, {**own, "step_bytes": memory[name], "precision": run.system().precision})


def _busy(share):
    found = f"other processes use {share:.0%} of this machine's processors, so nothing is timed: wait until it is idle"
    return UserError(
        f"{found}, or go on with anyway=True, which marks the figures.",
        for_shell=f"{found}, or go on with `attn-zoo time RUN ... --anyway`, which marks the figures.",
    )


def _shared_text(runs, ask):
    """The test text of runs, which is the same for all."""
    texts = {name: own_test_text(run, ask) for name, run in runs.items()}
    first = next(iter(texts))
    for name, text in texts.items():
        if text.sources != texts[first].sources:
            raise UserError(f"{name} and {first} have different test texts: time them apart.")
    return texts[first]


def _batches(run):
    """The batches that a run was trained on, in an order that is the same for all."""
    return training_batches(run.system().override(seed=_SEED), training_text_of(run))


def in_turn(
    works: Mapping[str, Callable[[], _Found]], rounds: int, progress: Callable[..., None] | None = None
) -> dict[str, list[_Found]]:
    """Let each work have its turn, so many times; return what each found, turn by turn.

    A slow spell of the machine then affects all of them.

    Args:
        works: functions, by name.
        rounds: how often each has its turn.
        progress: called with the number of turns done.

    Example:
        >>> in_turn({"a": lambda: 1, "b": lambda: 2}, rounds=2)
        {'a': [1, 1], 'b': [2, 2]}
    """
    found: dict[str, list[_Found]] = {name: [] for name in works}
    for done, (name, work) in enumerate(list(works.items()) * rounds, start=1):
        found[name].append(work())
        if progress:
            progress(done)
    return found


def _timed(works, rounds):
    """What each work found in its turns, after one that compiles.

    And what used the machine meanwhile: the share of others, and how many processors this process used.
    """
    for work in works.values():
        work()
    load = MachineLoad()
    with progress_bar("timing", rounds * len(works), "turn") as progress:
        found = in_turn(works, rounds, progress)
    return found, load.of_others(), load.own_cores()


class _Steps:
    """A few training steps of each shape of batch, always the same; those who call it time them."""

    def __init__(self, run: RunFolder, batches: TranslationBatches) -> None:
        system = run.system()
        self.translator, self.batches = load_translator(run.path, precision=system.precision), batches
        # The learning rate does not matter, nor do links.
        compile_translator(self.translator, system.override(schedule="constant", **UNGUIDED), None)
        alike: dict[tuple[int, int], list[int]] = {}
        for index in range(batches.batches_per_epoch):
            alike.setdefault(batches.bound(index), []).append(index)
        self.indices = [some[i % len(some)] for some in alike.values() for i in range(_STEPS)]

    def __call__(self) -> list[tuple[tuple[int, int], float]]:
        """Take the steps; return shape and seconds of each."""
        # The first step of a call takes longer.
        _, *seconds = step_seconds(self.translator, self.batches, [self.indices[0], *self.indices])
        return list(zip(map(self.batches.bound, self.indices), seconds, strict=True))


def _step_bytes(run):
    """The peak memory of training steps of all shapes, in a process in which nothing lies free; None if unknown."""
    _LOG.info("measuring the memory of a training step of %s", run.path.name)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, initializer=choose_backend, initargs=(backend_here(),)) as process:
        return process.submit(_bytes_of_steps, run).result()


def _bytes_of_steps(run):
    return peak_bytes(_Steps(run, _batches(run)))


def _of_steps(turns, batches):
    """The time of a step: the medians for each shape, and their mean over the batches of an epoch."""
    count = batches.batches_per_epoch
    shares = {shape: number / count for shape, number in Counter(map(batches.bound, range(count))).items()}
    medians = {
        shape: statistics.median(seconds for turn in turns for one, seconds in turn if one == shape) for shape in shares
    }
    step = sum(shares[shape] * medians[shape] for shape in shares)
    text = batches.corpus
    return {
        "step_seconds": step,
        "shapes": {f"{s}x{t}": {"seconds": medians[s, t], "share": shares[s, t]} for s, t in sorted(shares)},
        # With the end of each sentence.
        "tokens_per_second": (text.tokens("target") + len(text)) / (count * step),
    }


def _translate(translator, text, batch_size):
    """Translate sentences; return how many there are, and the seconds."""
    began = time.perf_counter()
    translator.translate(text, batch_size=batch_size)
    return len(text), time.perf_counter() - began


def _searches(runs, text):
    """A search of each run for the same sentences, none of which is too long for any."""
    translators = {name: load_translator(run.path, precision=SCORING_PRECISION) for name, run in runs.items()}
    encoded = {name: text.encoded_for(one.preprocessor) for name, one in translators.items()}
    systems = {name: run.system() for name, run in runs.items()}
    room = {name: longest_translation(system.data.max_tokens) for name, system in systems.items()}
    fitting = [
        i for i in range(len(text.pairs)) if all(len(encoded[name].sources[i]) <= room[name] for name in translators)
    ]
    if not fitting:
        raise UserError("every sentence of the test text is too long for one of the runs: leave that one out.")
    count = min(_SENTENCES, len(fitting))
    # Evenly from the whole text, which may be sorted.
    chosen = [fitting[i * len(fitting) // count] for i in range(count)]
    return {
        name: functools.partial(_translate, one, encoded[name].select(chosen), systems[name].search.batch_size)
        for name, one in translators.items()
    }


def _of_search(turns):
    (sentences, *_), seconds = zip(*turns, strict=True)
    return {"translation_seconds": statistics.median(seconds), "sentences": sentences}

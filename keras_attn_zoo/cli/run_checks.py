"""What is checked of the runs of a comparison before the first one is trained."""

import argparse
import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from keras_attn_zoo.bodies.schema import longest_translation
from keras_attn_zoo.corpora.corpus import Corpus
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.settings import SMALLEST_VOCABULARY
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.studies.comparison import Run
from keras_attn_zoo.studies.scales import SCALES
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import kind_of


def check_runs(runs: Sequence[Run], options: argparse.Namespace, out: Path) -> None:
    """Raise if any system cannot be trained, whatever the text, or not resume the run in its folder in `out`."""
    from keras_attn_zoo.runs.preparation import check_system
    from keras_attn_zoo.training.resumable_state import check_backend

    for run in runs:
        with _named(run):
            check_system(run.system, room_of(run.system, options), tell=False)
            folder = RunFolder(out / run.name)
            folder.check_free(resume=True)
            if folder.holds_run:
                folder.check_settings(as_resumed(run, folder), folder.corpus())
                if kind_of(folder.state) and kind_of(folder.environment):
                    check_backend(folder.backend())


def check_with_text(runs: Sequence[Run], options: argparse.Namespace, out: Path, corpus: Corpus) -> None:
    """Prepare the text for all runs; raise if any system cannot be trained on it, or its run is one of another text."""
    from keras_attn_zoo.devices import leader_first
    from keras_attn_zoo.runs.preparation import described, prepare_data, prepare_subwords
    from keras_attn_zoo.runs.training import check_texts, check_training, check_with_subwords

    groups: dict[str, list[Run]] = {}
    keys: dict[str, str] = {}
    for run in runs:
        groups.setdefault(repr(run.system.data), []).append(run)
        with _named(run):
            check_texts(run.system, corpus, room_of(run.system, options))
    # Of all runs, before any text is prepared.
    for prepared, group in groups.items():
        description = described(corpus, group[0].system.data)
        keys[prepared] = description["fingerprint"]
        for run in group:
            with _named(run):
                folder = RunFolder(out / run.name)
                if folder.holds_run:
                    folder.check_settings(as_resumed(run, folder), description, corpus.test.rows())
    for prepared, group in groups.items():
        systems: dict[str, Run] = {}
        for run in group:
            # Whether it can be trained does not depend on the seed.
            systems.setdefault(repr(dataclasses.replace(run.system, seed=0)), run)
        text, where = (corpus, group[0].system.data), (out / "data", keys[prepared])
        with _named(group[0]), leader_first():
            subwords = prepare_subwords(*text, *where)
        for run in systems.values():
            with _named(run):
                check_with_subwords(run.system, corpus, subwords, room_of(run.system, options), tell=False)
        with _named(group[0]), leader_first():
            data = prepare_data(*text, *where)
        for run in systems.values():
            with _named(run):
                check_training(run.system, data)


@contextlib.contextmanager
def _named(run: Run) -> Iterator[None]:
    """Let errors begin with the name of the run."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{run.name}: {error}") from None


def as_resumed(run: Run, folder: RunFolder) -> System:
    """Return the system of a run that is in this folder already, whose precision it keeps if none was asked for."""
    return run.system.override(precision=folder.system().precision) if run.system.precision == "auto" else run.system


def room_of(system: System, options: argparse.Namespace) -> int | None:
    """Return how many tokens a test sentence may have: `--max-tokens`, or as the scale has it; None for the system's.

    A system with weights for each position has room for no more than its own.
    """
    from keras_attn_zoo.runs.outline import outline

    room = SCALES[options.scale].room if options.scale else None
    if options.max_tokens is not None or room is None or longest_translation(system.data.max_tokens) >= room:
        return options.max_tokens
    return room if outline(system, SMALLEST_VOCABULARY, SMALLEST_VOCABULARY).longest_sentence is None else None

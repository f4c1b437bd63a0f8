"""The command line of a recipe: train named systems on one corpus, score them, compare them with the paper."""

import argparse
import dataclasses
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from keras_attn_zoo.commands.guard import guarded
from keras_attn_zoo.commands.options import (
    add_backend_argument,
    add_corpus_arguments,
    add_override_argument,
    add_precision_argument,
    backend_of_run,
    corpus_from_options,
    resumed,
    settings_from_options,
)
from keras_attn_zoo.commands.parser import Parser
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments.setting_types import shown_value
from keras_attn_zoo.experiments.system import System
from keras_attn_zoo.process import reason

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Entry:
    """One system of a recipe, with the paper's figures for it.

    Attributes:
        system: the `System`.
        paper: the paper's figures, `{column: figure}`; empty if it reports none.
        baseline: name of the system that the paper compares it with, or None.
    """

    system: System
    paper: dict[str, str] = dataclasses.field(default_factory=dict)
    baseline: str | None = None


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A paper's comparison.

    Attributes:
        title: short title of the paper.
        entries: its systems, by name.
        default: names of the systems trained by default.
        note: text below the table.
        rank_by: function that takes a run's scores and returns the number by which the paper ranks its systems,
            lowest first; None keeps their order.
    """

    title: str
    entries: dict[str, Entry]
    default: tuple[str, ...]
    note: str = ""
    rank_by: Callable[[dict], float] | None = None


def run_recipe(recipe: Recipe, description: str, arguments: Sequence[str] | None = None) -> int:
    """Run a recipe as a script: parse the command line, train, score and write the table.

    Args:
        recipe: a `Recipe`.
        description: the script's docstring, shown by `--help`.
        arguments: command line; by default that of the process.

    Returns:
        the exit status.
    """
    parser = Parser(description=description)
    parser.add_argument("--out", type=Path, required=True, help="folder for the runs; runs in it are resumed")
    parser.add_argument(
        "--systems",
        nargs="+",
        default=list(recipe.default),
        metavar="NAME",
        help=f"systems to train, among {', '.join(recipe.entries)} (default: {' '.join(recipe.default)})",
    )
    parser.add_argument(
        "--table-only", action="store_true", help="write the table of the existing runs without training"
    )
    add_corpus_arguments(parser)
    add_precision_argument(parser, None)
    add_override_argument(parser)
    add_backend_argument(parser)
    parser.set_defaults(
        job="training",
        own_backend=lambda options: backend_of_run(options.out / name for name in options.systems),
    )
    return guarded(
        parser, lambda options: _run(recipe, options), arguments, farewell="Run the recipe again to resume it."
    )


def _run(recipe: Recipe, options: argparse.Namespace) -> None:
    from keras_attn_zoo.experiments.run_folder import RunFolder
    from keras_attn_zoo.experiments.table import results_table
    from keras_attn_zoo.files import write_text

    for name in options.systems:
        if name not in recipe.entries:
            raise UserError(f"unknown system {shown_value(name)}: choose from {', '.join(recipe.entries)}.")
    names = list(dict.fromkeys(options.systems))
    entries, folders = {name: recipe.entries[name] for name in names}, [options.out / name for name in names]
    settings = settings_from_options(options)
    systems = _systems([entry.system for entry in entries.values()], settings)
    systems = [resumed(system, folder, settings) for system, folder in zip(systems, folders, strict=True)]
    failed = {}
    if not options.table_only:
        _check(systems, folders, options.max_tokens)
        failed = _train(systems, folders, corpus_from_options(options), options)
    if not failed or any(RunFolder(folder).read_scores() for folder in folders):
        paper = {name: entry.paper for name, entry in entries.items()}
        baselines = {options.out / name: options.out / one.baseline for name, one in entries.items() if one.baseline}
        table = results_table(folders, paper=paper, baseline=baselines, rank_by=recipe.rank_by)
        text = "\n\n".join(part for part in (f"# {recipe.title}", table, recipe.note) if part) + "\n"
        write_text(options.out / "results.md", text)
        print(text)
    if failed:
        reasons = "; ".join(f"{name} ({why.rstrip('.')})" for name, why in failed.items())
        raise UserError(f"{len(failed)} of {len(names)} systems failed: {reasons}.")


def _check(systems, folders, max_tokens):
    """Raise if any system cannot be trained, before the first is."""
    from keras_attn_zoo.experiments.preparation import check_system
    from keras_attn_zoo.experiments.run_folder import RunFolder

    for system, folder in zip(systems, folders, strict=True):
        try:
            check_system(system, max_tokens)
            RunFolder(folder).check_free(resume=True)
        except UserError as error:
            raise UserError(f"{folder.name}: {error}") from None


def _train(systems, folders, corpus, options):
    """Train and score; if a system fails, the others go on. Return the reasons for failures by name."""
    from keras_attn_zoo.experiments.drawing import draw_run
    from keras_attn_zoo.experiments.loading import load_translator
    from keras_attn_zoo.experiments.scoring import score_run
    from keras_attn_zoo.experiments.training import train_system

    failed, room = {}, {"max_tokens": options.max_tokens}
    for system, folder in zip(systems, folders, strict=True):
        try:
            run = train_system(system, corpus, folder, options.out / "data", resume=True, **room)
            scored, drawn = "test" in run.read_scores(), run.picture("curves").exists()
            if not (scored and drawn):
                translator = load_translator(folder, **room)
                if not scored:
                    score_run(folder, translator, corpus.test)
                draw_run(folder, translator, corpus.test)
        except Exception as error:
            failed[folder.name] = reason(error)
            # Of a bug, where it is.
            bug = error if failed[folder.name] is None else None
            if bug is not None:
                failed[folder.name] = f"{type(bug).__name__}: {bug}".splitlines()[0]
            _LOG.error("%s failed: %s", folder.name, failed[folder.name], exc_info=bug)
    return failed


def _systems(systems, settings):
    """Return the systems with settings changed, each by those that apply to it.

    Raises:
        UserError: a setting that no system has; a value that a system rejects.
    """
    understood = [system.understood(settings) for system in systems]
    for name in settings:
        if not any(name in one for one in understood):
            raise UserError(f"none of the systems {', '.join(one.name for one in systems)} has a setting {name!r}.")
    changed = []
    for system, own in zip(systems, understood, strict=True):
        try:
            changed.append(system.override(**own))
        except UserError as error:
            raise UserError(f"{system.name}: {error}") from None
    return changed

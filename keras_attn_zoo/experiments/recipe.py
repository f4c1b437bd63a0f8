"""What the recipes share: train named systems on one corpus, score them, set the table beside the paper's."""

import dataclasses
from pathlib import Path

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments.settings import System, parse_settings


@dataclasses.dataclass(frozen=True)
class Entry:
    """One system of a recipe, with what the paper reports of it.

    Attributes:
        system: the `System`.
        paper: the paper's figures, `{column: figure}`; empty where it reports none.
    """

    system: System
    paper: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A paper's comparison.

    Attributes:
        title: short title of the paper.
        entries: its systems, by name.
        default: names of the systems that run where none are named.
        note: what a reader of the table must know.
    """

    title: str
    entries: dict
    default: tuple
    note: str = ""


def run_recipe(recipe, description, arguments=None):
    """Run a recipe as a script: parse the command line, train, score, write the table.

    Args:
        recipe: a `Recipe`.
        description: the script's docstring, shown by `--help`.
        arguments: command line; by default that of the process.

    Returns:
        the exit status.
    """
    from keras_attn_zoo.cli import Parser, add_backend_argument, add_corpus_arguments, add_override_argument, guarded

    parser = Parser(description=description)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs; a run that stands there resumes")
    parser.add_argument(
        "--systems",
        nargs="+",
        default=list(recipe.default),
        metavar="NAME",
        help=f"systems to train, of: {', '.join(recipe.entries)} (default: {' '.join(recipe.default)})",
    )
    parser.add_argument("--table-only", action="store_true", help="train nothing, write the table of what stands there")
    add_corpus_arguments(parser)
    add_override_argument(parser)
    add_backend_argument(parser)
    return guarded(parser, lambda options: _run(recipe, options), arguments)


def _run(recipe, options):
    from keras_attn_zoo.cli import corpus_from_options, say, show_progress
    from keras_attn_zoo.experiments.run import draw_run, score_run, train_system
    from keras_attn_zoo.experiments.run_folder import RunFolder
    from keras_attn_zoo.experiments.table import results_table
    from keras_attn_zoo.files import write_text

    for name in options.systems:
        if name not in recipe.entries:
            raise UserError(f"unknown system {name!r}: choose of {', '.join(recipe.entries)}.")
    systems = _systems([recipe.entries[name].system for name in options.systems], parse_settings(options.set))
    folders = [options.out / name for name in options.systems]
    if not options.table_only:
        corpus = corpus_from_options(options)
        for system, folder in zip(systems, folders, strict=True):
            run = train_system(system, corpus, folder, options.out / "data", resume=True, say=say)
            if not run.read_scores():
                score_run(folder, corpus.splits.test, corpus.gold, progress=show_progress(len(corpus.splits.test)))
                draw_run(folder, corpus.splits.test, corpus.gold)
    paper = {name: recipe.entries[name].paper for name in options.systems}
    baseline = folders[0] if RunFolder(folders[0]).read_scores() else None
    table = results_table(folders, paper=paper, baseline=baseline)
    text = "\n\n".join(part for part in (f"# {recipe.title}", table, recipe.note) if part) + "\n"
    write_text(options.out / "results.md", text)
    print(text)


def _systems(systems, settings):
    """Systems with their settings changed, each by those that mean something in it.

    Raises:
        UserError: a setting that none of them knows; a value that one of them cannot have.
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

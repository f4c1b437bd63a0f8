"""What `attn-zoo compare` and the recipes share: their options; check, train and score the runs, write the table."""

import argparse
import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_attn_zoo.bodies.schema import longest_translation
from keras_attn_zoo.cli.device_options import add_devices_arguments
from keras_attn_zoo.cli.options import (
    OF_A_RUN,
    add_budget_argument,
    add_corpus_arguments,
    add_more_tests_argument,
    add_override_argument,
    add_precision_argument,
    add_scoring_arguments,
    add_significance_argument,
    add_task_argument,
    backend_of_run,
    check_corpus_options,
    corpus_from_options,
    missing_corpus,
    more_tests,
    refuse,
    resumed,
    scoring_options,
    settings_from_options,
    task_of,
)
from keras_attn_zoo.cli.parser import Parser, checked
from keras_attn_zoo.cli.part_failures import format_failure
from keras_attn_zoo.cli.plot import draw_pictures
from keras_attn_zoo.cli.table_options import (
    EVERY,
    check_gold_is_scored,
    folder_of_runs,
    pair_of,
    places_of_runs,
    recipe_of,
    take_corpus_of_paper,
    tell_of_other_languages,
    texts_of_tables,
)
from keras_attn_zoo.corpora.corpus import Corpus
from keras_attn_zoo.corpora.joined_text import joined_text
from keras_attn_zoo.runs.run_folder import AVERAGE, RunFolder
from keras_attn_zoo.runs.settings import SMALLEST_VOCABULARY
from keras_attn_zoo.runs.system import SETTINGS, System
from keras_attn_zoo.runs.timing_data import timed_together
from keras_attn_zoo.studies.comparison import Recipe, Run, expand, parse_grid, run_name
from keras_attn_zoo.studies.paper_tables import bleu_percents, measures_of, systems_of
from keras_attn_zoo.studies.scales import SCALES
from keras_attn_zoo.support.errors import UserError, choice
from keras_attn_zoo.support.files import kind_of, shown
from keras_attn_zoo.support.locks import locked
from keras_attn_zoo.support.setting_types import shown_value

_LOG = logging.getLogger(__name__)


def add_comparison_arguments(
    parser: Parser,
    systems: Mapping[str, System],
    default: Sequence[str] | None,
    tasks: Mapping[str, Sequence[str]],
    smoke: Sequence[str] = (),
    tune: Mapping[str, Sequence[Any]] | None = None,
) -> None:
    """Add the options of a comparison.

    Args:
        parser: the parser.
        systems: those to choose from, by name.
        default: names of those that are trained by default; None if some must be named.
        tasks: names of those that are trained by default for tasks other than translation, by the task's name.
        smoke: names of those that are trained by default at the scale smoke; empty for all.
        tune: what `--tune` is by default: values by the name of the setting.
    """
    parser.add_argument("--out", type=Path, required=True, help="folder for the runs; runs in it are resumed")
    usual = ""
    if default:
        usual = f"{EVERY}" if [*default] == [*systems] else " ".join(default)
        at_smoke = " ".join(smoke) or EVERY
        usual = f", among {', '.join(systems)} (default: {usual}; at the scale smoke, {at_smoke})"
    parser.add_argument(
        "--systems",
        nargs="+",
        required=default is None,
        metavar="NAME",
        help=f"systems to train, separated by spaces or commas, or {EVERY}{usual}",
    )
    parser.add_argument(
        "--scale",
        choices=SCALES,
        help="; ".join(f"{scale.name}: {scale.about}" for scale in SCALES.values())
        + ", and in a recipe the paper's corpus if no text is given (default: the systems as they are)",
    )
    parser.add_argument(
        "--seeds",
        nargs="+",
        action="extend",
        type=checked(lambda text: [*map(SETTINGS["System"]["seed"].parse, text.split(","))]),
        default=[],
        metavar="N",
        help="train every system once with each of these seeds, separated by spaces or commas (default: 1)",
    )
    parser.add_argument(
        "--grid",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE,VALUE",
        help="train every system once with each combination of these settings, for example learning_rate=1e-3,5e-4 "
        "dropout=0.1,0.3",
    )
    tuned = [f"{name}={','.join(map(str, values))}" for name, values in (tune or {}).items()]
    parser.add_argument(
        "--tune",
        nargs="*",
        action="extend",
        metavar="NAME=VALUE,VALUE",
        help="train every system with each combination of these settings and the first seed, and with further seeds "
        "only with that of the lowest validation loss, which tables have; without values, nothing is tuned"
        + (f" (default: {' '.join(tuned)})" if tuned else ""),
    )
    add_budget_argument(parser)
    parser.add_argument(
        "--plan",
        action="store_true",
        help="show finished and remaining runs, with estimated time and memory; prepare the text, but train nothing",
    )
    parser.add_argument(
        "--table-only", action="store_true", help="write the table of the existing runs without training"
    )
    parser.add_argument(
        "--time",
        action="store_true",
        help="then time the first seed of each system in turn, for what tables have of times, as `attn-zoo time` does; "
        "needs an idle machine",
    )
    add_significance_argument(parser)
    if tasks:
        add_task_argument(parser, tasks, OF_A_RUN)
    add_more_tests_argument(add_corpus_arguments(parser))
    add_scoring_arguments(parser)
    add_devices_arguments(parser)
    add_precision_argument(parser, None)
    add_override_argument(parser)
    parser.set_defaults(
        job=lambda options: "few steps" if options.scale == "smoke" else "training",
        own_backend=own_backend,
        usual=default,
        every=list(systems),
        of_tasks=tasks,
        of_smoke=list(smoke) or list(systems),
    )


def system_names(options: argparse.Namespace) -> list[str]:
    """Return the names of `--systems`, each once, or of those trained by default; none if there is no such option."""
    if "systems" not in options:
        return []
    of_task = options.of_tasks.get(task_of(options))
    every = of_task or options.every
    # Of all language pairs, each has those of its tables.
    usual = every if pair_of(options) == EVERY else of_task or options.usual
    if options.scale == "smoke":
        usual = of_task or options.of_smoke
    names = [name for item in options.systems or usual for name in item.split(",")]
    if EVERY in names:
        names = every
    return list(dict.fromkeys(names))


def own_backend(options: argparse.Namespace) -> str | None:
    """Return the backend of the first run there is of any of the systems, that of a language pair if there are any."""
    names = system_names(options)
    every = [path for one in places_of_runs(options) if kind_of(one) == "folder" for path in sorted(one.iterdir())]
    return backend_of_run(one for one in every if any(f"{one.name}-".startswith(f"{n}-") for n in names))


def checked_comparison(recipe: Recipe, options: argparse.Namespace) -> tuple[Recipe, list[Run]]:
    """Return the comparison that the options ask for, and its runs, checked as far as is possible without the text."""
    from keras_attn_zoo.devices import current
    from keras_attn_zoo.studies.earlier_results import scale_of
    from keras_attn_zoo.studies.measures import check_measures
    from keras_attn_zoo.studies.result_files import check_folder

    if options.plan:
        refuse(options, "--plan trains nothing", table_only=False, time=False)
    if options.time and current() is not None:
        raise UserError("--time times one device: leave it out, and time the runs afterwards with `attn-zoo time`.")
    if options.table_only:
        refuse(options, "--table-only scores nothing", tokenize=None, lowercase=False, more_test=[])
    if options.table_only and options.scale is None:
        options.scale = scale_of(folder_of_runs(recipe, options))
    recipe = recipe_of(recipe, options)
    check_measures(measures_of(recipe.tables))
    out = folder_of_runs(recipe, options)
    check_folder(out, recipe)
    check_gold_is_scored(recipe, options, system_names(options))
    take_corpus_of_paper(recipe, options, out)
    tell_of_other_languages(options)
    runs = _runs(recipe, options, out)
    if not options.table_only:
        check_runs(runs, options, out)
    return recipe, runs


def run_comparison(recipe: Recipe, options: argparse.Namespace) -> float:
    """Train what is not yet trained, score what is not yet scored, and write the tables.

    A run that fails stops no other, and neither does a timing pass. With `--plan`, say what would be done, and return
    how many seconds it would take; NaN if the text is yet to be downloaded.

    Raises:
        UserError: what is wrong with any run, before the first one is trained; names and reasons of the runs that
            failed, after all others; why they were not timed.
    """
    from keras_attn_zoo.studies.tuning import candidates

    recipe, runs = checked_comparison(recipe, options)
    out = folder_of_runs(recipe, options)
    scoring = scoring_options(options, recipe.tokenizer_of(pair_of(options)))
    if options.plan:
        plan = _plan(recipe, runs, options, out)
        print(plan.table)
        return plan.seconds
    failed, corpus, count = {}, None, len(runs)
    if options.table_only:
        runs = [run for one in candidates(runs) for run in one.chosen(out)]
    else:
        corpus, texts = _checked_text(recipe, runs, options, out)
        runs, failed, count = _train(recipe, runs, options, out, scoring, corpus, texts)
    whole = [run for run in runs if run.name not in failed]
    untimed = _time(whole, out) if options.time else ""
    tables = _write_tables(recipe, whole, options, out, anyway=not failed)
    draw_pictures(recipe, runs if tables is None else tables[-1], out, options.max_tokens, corpus)
    if tables is not None:
        from keras_attn_zoo.studies.paper_page import write_page

        of_paper, written, _ = tables
        write_page(of_paper, written)
        if written:
            _tell_what_is_missing(of_paper, pair_of(options))
    if failed:
        reasons = "; ".join(f"{name} ({why.rstrip('.')})" for name, why in failed.items())
        raise UserError(f"{len(failed)} of {count} runs failed: {reasons}.")
    if untimed:
        raise UserError(f"the runs were not timed: {untimed}")
    return 0.0


def check_runs(runs: Sequence[Run], options: argparse.Namespace, out: Path) -> None:
    """Raise if any system cannot be trained, whatever the text, or not resume the run in its folder in `out`."""
    from keras_attn_zoo.runs.preparation import check_system
    from keras_attn_zoo.training.resumable_state import check_backend

    for run in runs:
        with _named(run):
            if run.system.training.initial_model is not None:
                raise UserError(
                    "a comparison trains its systems from the start: leave initial_model out, or train one system with "
                    "`attn-zoo train --from`."
                )
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
                    folder.check_settings(as_resumed(run, folder), description)
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


def _plan(recipe, runs, options, out):
    from keras_attn_zoo.studies.plan import plan_comparison, plan_without_text
    from keras_attn_zoo.studies.tuning import candidates

    if (missing := missing_corpus(options)) is not None:
        # What would be refused with the text is refused without it.
        check_corpus_options(options)
        more_tests(options)
        return plan_without_text(runs, missing)
    corpus, texts = _checked_text(recipe, runs, options, out)
    runs = [run for one in candidates(runs) for run in one.planned(out)]
    more = {run.name: _more_texts(recipe, run, options, texts)[1] for run in runs}
    return plan_comparison(runs, corpus, out, more, bleu_percents(recipe.tables))


def _checked_text(recipe, runs, options, out):
    """The text, and those that the tables have beside it; every system can be trained on it."""
    corpus = _corpus(recipe, options)
    texts = texts_of_tables(corpus, options)
    if recipe.joined is not None:
        try:
            texts["joined"] = joined_text(corpus.test, *recipe.joined)
        except UserError as error:
            _LOG.warning("there is no text 'joined': %s", error)
    check_with_text(runs, options, out, corpus)
    return corpus, texts


def _corpus(recipe, options):
    """The text that the options name, with the further test texts, which are read before a corpus is downloaded.

    One that is given takes the place of the corpus' own by that name.
    """
    further = more_tests(options)
    corpus = corpus_from_options(options)
    if options.scale == "paper" and recipe.words and options.corpus == recipe.corpus:
        corpus = corpus.within(*recipe.words)
    return dataclasses.replace(corpus, more_tests={**corpus.more_tests, **further})


def _tell_what_is_missing(runs, pair):
    """Say which systems a paper's tables have, of the language pair of this call, that were not trained."""
    # A ranking has those that were trained.
    wanted = set() if runs.recipe.is_ranking else systems_of(runs.recipe.tables, pair, runs.recipe.first_pair)
    missing = [entry for entry in runs.recipe.entries if entry in wanted and not runs.folders(pair, entry)]
    if missing:
        _LOG.info("empty in the paper's tables, because they were not trained: %s; see --systems", ", ".join(missing))


def _runs(recipe, options, out):
    from keras_attn_zoo.studies.equal_parameters import equal_runs

    entries = {}
    for name in system_names(options):
        if name not in recipe.entries:
            raise UserError(f"unknown system {shown_value(name)}: {choice(name, recipe.entries)}")
        entries[name] = recipe.entries[name]
    grid, tune = parse_grid(options.grid), parse_grid(options.tune or (), "--tune")
    if twice := next((name for name in tune if name in grid), None):
        raise UserError(f"--grid and --tune both have {twice}: leave it out of one of them.")
    if "task" in {**grid, **tune}:
        raise UserError("the systems of a grid are compared on one task: leave out task; --task names it.")
    settings = settings_from_options(options, [*grid, *tune, *(["seed"] if options.seeds else [])])
    if options.tune is None:
        tune = {name: values for name, values in recipe.tune.items() if name not in {**grid, **settings}}
    seeds = [*itertools.chain(*options.seeds)]
    if not seeds and "seed" in settings and "seed" not in grid:
        # The folder of a run says its seed, however it is given.
        seeds = [settings.pop("seed")]
    runs = expand(entries, settings, {**grid, **tune}, seeds, recipe.entries)
    runs = equal_runs([dataclasses.replace(run, tuned=tuple(tune)) for run in runs], recipe, settings)
    if "precision" in {**settings, **grid, **tune}:
        return runs
    return [dataclasses.replace(run, system=resumed(run.system, out / run.name)) for run in runs]


def _train(recipe, runs, options, out, scoring, corpus, texts):
    """Train and score; if a run fails, the others go on.

    Of runs that differ in tuned values, those of the first seed are trained, and of these the best one is scored, and
    trained with the other seeds.

    Return what tables may have, the reasons for failures by name, and how many runs there were.
    """
    from keras_attn_zoo.runs.finished_run import score_and_draw
    from keras_attn_zoo.runs.training import train_system
    from keras_attn_zoo.studies.tuning import candidates

    failed: dict[str, str] = {}
    milestones = {"bleu_after": bleu_percents(recipe.tables), "scoring": scoring}
    groups = candidates(runs)
    count, begun = sum(one.count for one in groups), set()

    def attempt(run, scored):
        folder, room = out / run.name, {"max_tokens": room_of(run.system, options)}
        try:
            if run.name not in begun:
                begun.add(run.name)
                _LOG.info("run %d of %d: %s", len(begun), count, run.name)
                # The same comparison may have been started twice.
                train_system(run.system, corpus, folder, out / "data", resume=True, wait=True, **milestones, **room)
            if not scored:
                return
            names, more = _more_texts(recipe, run, options, texts)
            known = [*names, *recipe.tests_of(pair_of(options))]
            of_tables = {"tests": corpus.more_tests, "more": more, "known": known}
            with RunFolder(folder).lock(wait=True):
                score_and_draw(folder, corpus.test, keep_scores=True, **of_tables, **room, **scoring)
        except Exception as error:
            failed[run.name] = format_failure(run.name, error)

    kept = []
    for group in groups:
        for run in group.first if group.is_choice else ():
            attempt(run, scored=False)
        chosen = group.choose(out, failed)
        if group.is_choice and chosen:
            _LOG.info("lowest validation loss: %s", chosen[0].name)
        for run in chosen:
            attempt(run, scored=True)
        kept += chosen
    return kept, failed, count


def _time(runs, out):
    """Time the first seed of each system and point of the grid that is trained; return why that failed, if it did."""
    from keras_attn_zoo.runs.timing_pass import time_runs

    first: dict[str, Path] = {}
    for run in runs:
        if kind_of(RunFolder(out / run.name).best) is not None:
            point = {key: value for key, value in run.point.items() if key != "seed"}
            first.setdefault(run_name(run.entry, point), out / run.name)
    folders = list(first.values())
    try:
        if folders and not _are_timed(folders):
            time_runs(folders)
    except Exception as error:
        return format_failure("the timing pass", error)
    return ""


def _are_timed(folders):
    """Whether an earlier call timed these runs as they are, in a pass of their own that nothing disturbed."""
    found = []
    for folder in folders:
        with contextlib.suppress(UserError):
            found.append(RunFolder(folder).read_timing())
    names = [folder.name for folder in folders]
    return len(found) == len(names) and all(
        one is not None and not one["beside_other_work"] and one["systems"] == names and timed_together([one, found[0]])
        for one in found
    )


def _more_texts(recipe, run, options, texts):
    """The names of what is scored of a run beside the test texts, and by these names, the texts that were given."""
    # The values of a grid are chosen by the validation text.
    names = [*recipe.splits(run.entry, pair_of(options)), *(["valid"] if run.of_grid else [])]
    # A name may say more of the text: how it is searched.
    return names, {name: texts[text] for name in names if (text := name.partition("-")[0]) in texts}


def _is_scored(folder):
    """Whether the results may have a run; if it is damaged, or another one by its name, say so."""
    from keras_attn_zoo.studies.comparison import check_seed

    try:
        scored = bool(RunFolder(folder).read_scores())
        if scored:
            check_seed(folder, RunFolder(folder).system().seed)
    except UserError as error:
        _LOG.warning("the results leave out %s: %s", shown(folder.name), error)
        return False
    return scored


def _write_tables(recipe, runs, options, out, anyway):
    """Write the results and the paper's tables, and print the former; if no run was scored, raise or do nothing.

    Return the paper's runs and tables, for its page, and all runs of the results; None if no run was scored.
    """
    from keras_attn_zoo.studies.earlier_results import FILE, comparable, merged_runs, names_of
    from keras_attn_zoo.studies.paper_cells import Runs
    from keras_attn_zoo.studies.paper_files import write_tables
    from keras_attn_zoo.studies.result_files import write_results
    from keras_attn_zoo.studies.table import further_names, read_results
    from keras_attn_zoo.studies.tuning import with_chosen_values

    names, test = [run.name for run in runs if _is_scored(out / run.name)], options.significance
    asked = [out / name for name in names]
    others: list[str] = []
    if options.table_only and not (options.seeds or options.grid):
        # A system may have been trained with other seeds alone, or on a grid; one that was stopped has no results yet
        # that name these.
        alone = kind_of(out / FILE) is None
        wanted = [run.entry for run in runs if alone or out / run.name not in asked]
        others = [name for name in names_of(out, wanted) if out / name not in asked]
    if not asked and not others:
        if not anyway:
            return None
        raise UserError(f"none of the runs asked for has been scored in {shown(out)}: train one, or check --out.")
    # Another process may write those of other systems.
    with locked(out, ".results.lock", wait=True):
        runs = merged_runs([run for run in runs if run.name in names], out, recipe, others)
        runs = with_chosen_values(runs, names, out)
        folders = [out / run.name for run in runs]
        # A smoke run shows no more than that it runs.
        compared = [] if recipe.scale == "smoke" else runs
        baselines = {out / run.name: out / run.baseline for run in compared if run.baseline}
        results = read_results(comparable(folders, asked, "test"), baselines=baselines, test=test)
        further = {}
        of_grid = any(run.of_grid and "valid" in RunFolder(out / run.name).read_scores() for run in runs)
        averages = [AVERAGE] if any(AVERAGE in RunFolder(folder).read_scores() for folder in folders) else []
        for name in (*further_names(folders), *averages, *(["valid"] if of_grid else [])):
            try:
                found = read_results(comparable(folders, asked, name), (name,), baselines, test)
                title = "validation text" if name == "valid" and "validation text" not in further else name
                further[title] = found
            except UserError as error:
                _LOG.warning("the results have no table of %r: %s", name, error)
        print(write_results(out, recipe, runs, results, further))
    of_paper = Runs(recipe, options.out, results)
    return of_paper, write_tables(of_paper), runs

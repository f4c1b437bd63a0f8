"""`attn-zoo evaluate`: score runs on a test text, or translations in a file."""

import argparse
import logging
from pathlib import Path

from keras_attn_zoo.cli.device_options import add_devices_arguments
from keras_attn_zoo.cli.options import (
    OTHER_TASKS,
    SIGNIFICANCE_TESTS,
    add_loading_arguments,
    add_name_argument,
    add_scoring_arguments,
    add_search_arguments,
    add_significance_argument,
    add_task_argument,
    add_test_arguments,
    given_text,
    own_text,
    refuse,
    scoring_options,
    task_of,
)
from keras_attn_zoo.cli.parser import Command, Parser
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import shown

_LOG = logging.getLogger(__name__)
# Options with their defaults: of the test, of the search.
_COMPARED = {"significance": SIGNIFICANCE_TESTS[0]}
_SEARCH = {
    "beams": None,
    "length_penalty": None,
    "max_tokens": None,
    "precision": "float32",
    "devices": None,
    "distribution": "data",
}


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run folders")
    add_test_arguments(parser)
    add_name_argument(parser)
    parser.add_argument("--stored", action="store_true", help="print the table of stored scores without translating")
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="RUN",
        help="one of the runs; mark scores that differ significantly from this one",
    )
    add_significance_argument(parser)
    parser.add_argument("--hypotheses", metavar="FILE", help="score these translations, one per line, instead of runs")
    parser.add_argument(
        "--references",
        nargs="+",
        metavar="FILE",
        help="references for --hypotheses, one per line; several files give several references per sentence",
    )
    add_scoring_arguments(parser)
    add_task_argument(parser, OTHER_TASKS, "what --hypotheses are scored with", corpus=False)
    add_search_arguments(parser, several=True)
    add_loading_arguments(parser)
    add_devices_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Score text or runs, and print the table."""
    if options.hypotheses is not None or options.references is not None:
        _score_files(options)
    else:
        _score_runs(options)


def _score_files(options):
    from keras_attn_zoo.corpora.given_files import has_tabs
    from keras_attn_zoo.data.text_files import read_translations
    from keras_attn_zoo.evaluation.text_scores import score_text
    from keras_attn_zoo.runs.tasks import TASKS

    if None in (options.hypotheses, options.references) or options.runs:
        raise UserError("to score a file of translations, give --hypotheses and --references and no run.")
    of_runs = {"test": None, "reverse": False, "name": "test", "stored": False, "baseline": None, "top_k": [None]}
    of_runs |= _COMPARED
    refuse(options, "with --hypotheses, nothing is translated", **_SEARCH, **of_runs)
    [hypotheses] = read_translations(options.hypotheses, "hypothesis")
    every = []
    for file in options.references:
        every += read_translations(file, beside=options.hypotheses)
        if has_tabs(file):
            _LOG.warning("%s has tabs in every line, scored as spaces: give several references as several files", file)
    references, *more = every
    metrics = TASKS[task_of(options)].metrics
    scores = score_text(hypotheses, references, metrics, more_references=more, **scoring_options(options))
    if not any(line.strip() for line in hypotheses):
        _LOG.warning("%s has only empty lines: is it the right file?", options.hypotheses)
    print(scores)


def _refuse_presets(folders):
    from keras_attn_zoo.presets.preset_registry import names_preset

    for folder in folders:
        if not RunFolder(folder).holds_run and (names_preset(str(folder)) or (folder / "task.json").is_file()):
            raise UserError(
                f"{shown(folder)} is a preset, not a run folder: translate the text with `attn-zoo translate`, and "
                "score its output with --hypotheses and --references."
            )


def _score_runs(options):
    from keras_attn_zoo.runs.loading import load_translator
    from keras_attn_zoo.runs.scoring import score_run
    from keras_attn_zoo.studies.table import read_results, results_table

    if not options.runs:
        raise UserError("give a run folder, or --hypotheses and --references.")
    _refuse_presets(options.runs)
    refuse(options, "a run's own task says how it is scored", task=None)
    scoring = scoring_options(options)
    if options.stored:
        refuse(options, "--stored translates nothing", **_SEARCH, test=None, reverse=False)
        refuse(options, "--stored scores nothing", tokenize=None, lowercase=False)
        if len(set(options.top_k)) == 1:
            # Several are names of stored scores; one is a search.
            refuse(options, "--stored translates nothing", top_k=[None])
    elif not options.test:
        refuse(options, "without --test, the text is the run's own", reverse=False)
    if options.baseline is None:
        refuse(options, "without --baseline, no scores are compared", **_COMPARED)
    elif options.baseline not in options.runs:
        raise UserError(f"the baseline {options.baseline} is not among the runs: choose one of them.")
    counts = list(dict.fromkeys(options.top_k))
    names = [f"{options.name}-k{k}" if len(counts) > 1 else options.name for k in counts]
    if counts != [None] and not options.stored:
        for folder in options.runs:
            if not RunFolder(folder).system().is_latent:
                raise UserError(f"{folder} has no latent alignment: leave out the run, or --top-k.")
    given = given_text(options)
    for folder in [] if options.stored else options.runs:
        text = given or own_text(folder)
        translator = load_translator(
            folder, options.beams, options.length_penalty, max_tokens=options.max_tokens, precision=options.precision
        )
        known = None
        for name, k in zip(names, counts, strict=True):
            known = score_run(folder, translator, text, name, known, k, **scoring)
    baselines = {} if options.baseline is None else dict.fromkeys(options.runs, options.baseline)
    results = read_results(options.runs, names, baselines, options.significance)
    for name in names if baselines else ():
        if (options.baseline, name) not in [(one.folder, one.name) for one in results]:
            raise UserError(
                f"the baseline {options.baseline} is not among the runs scored on {name!r}: choose one of them."
            )
    print(results_table(results).markdown())


COMMAND = Command(
    "evaluate",
    "score runs on a test text (BLEU, chrF, TER or those of their task, perplexity, AER), or a file of translations",
    [
        "attn-zoo evaluate runs/bahdanau runs/uniform",
        "attn-zoo evaluate runs/bahdanau --test news.de news.en --name news --beams 12",
        "attn-zoo evaluate runs/to-chinese --test news.en news.a.zh news.b.zh --tokenize zh",
        "attn-zoo evaluate runs/* --stored --baseline runs/bahdanau > table.md",
        "attn-zoo evaluate runs/latent --top-k 1 2 3 6 10 0",
        "attn-zoo evaluate --hypotheses ours.en --references news.en",
        "attn-zoo evaluate --hypotheses ours.zh --references news.a.zh news.b.zh --tokenize zh",
        "attn-zoo evaluate --hypotheses ours.txt --references summaries.txt --task summarization",
    ],
    add_arguments,
    run,
    list_argument="runs",
)

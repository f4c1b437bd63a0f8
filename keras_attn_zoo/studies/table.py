"""Tables of results, made from run folders: one row per system."""

import dataclasses
import logging
import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_attn_zoo.evaluation.text_scores import TESTS, SystemScore, compare_systems, how_scored
from keras_attn_zoo.runs.run_folder import AVERAGE, RunFolder, is_further
from keras_attn_zoo.runs.tasks import METRICS
from keras_attn_zoo.studies.tabular import Table
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike
from keras_attn_zoo.training.progress import clock_time, parameter_count

_LOG = logging.getLogger(__name__)
# Of translations that are worse, no difference means anything.
LEAST_BLEU = 10.0

EMPTY = "–"
# Columns, and the note below a table that has them.
_OF_LOG = {"training", "tokens/s", "translation", "compilation"}
_BESIDE_WHATEVER = (
    "training, tokens/s, translation, compilation: while the runs were trained and scored, beside whatever else ran on "
    "the machine; to compare times, use `attn-zoo time`"
)


def steady_translation_seconds(scores: dict[str, Any]) -> float:
    """Return the wall time of translating a test set, without compilation."""
    return scores["translation_seconds"] - scores["translation_compilation_seconds"]


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table of results.

    Attributes:
        value: function from the scores of a run to a number. A missing score (KeyError, TypeError) becomes a dash.
        show: function from the number to a cell.
    """

    value: Callable[[dict[str, Any]], float]
    show: Callable[[float], str]


def _digits(count, unit=""):
    return lambda value: f"{value:.{count}f}{unit}"


def _metric(metric):
    return Column(lambda s: s["text"]["metrics"][metric]["score"], _digits(1))


# By heading.
COLUMNS = {
    # 0 stands for all.
    "K": Column(lambda s: int(s["search_top_k"]), lambda k: f"{k:.0f}" if k else "all"),
    **{heading: _metric(metric) for heading, metric in METRICS.items()},
    "perplexity": Column(lambda s: s["perplexity"], _digits(2)),
    "perplexity, free-running": Column(lambda s: s["free_running"]["perplexity"], _digits(2)),
    "accuracy": Column(lambda s: 100 * s["accuracy"], _digits(1, " %")),
    "AER": Column(lambda s: 100 * s["alignment"]["aer"], _digits(1)),
    "AER, posterior": Column(lambda s: 100 * s["alignment"]["posterior_aer"], _digits(1)),
    "training": Column(lambda s: s["training"]["seconds"] - s["training"]["compilation_seconds"], clock_time),
    "steps": Column(lambda s: s["training"]["steps"], _digits(0)),
    "tokens/s": Column(lambda s: s["training"]["tokens_per_second"], _digits(0)),
    "translation": Column(steady_translation_seconds, clock_time),
    "compilation": Column(
        lambda s: s["training"]["compilation_seconds"] + s["translation_compilation_seconds"], clock_time
    ),
    "parameters": Column(lambda s: s["parameters"] / 1e6, lambda x: parameter_count(1e6 * x)),
}


def shown(column: str, value: float | None) -> str:
    """Return a cell of one of `COLUMNS`."""
    return EMPTY if value is None else COLUMNS[column].show(value)


def number(column: str, scores: dict[str, Any]) -> float | None:
    """Return what a run's scores have for one of `COLUMNS`, or None."""
    try:
        return COLUMNS[column].value(scores)
    except (KeyError, TypeError, OverflowError):
        return None


@dataclasses.dataclass(frozen=True)
class Result:
    """The scores of a run on a test set.

    Attributes:
        folder: of the run.
        name: name of the test set.
        scores: what `score_run` found.
        baseline: folder of the run that it is compared with, or None.
        against: the paired test against the baseline, by metric; empty if that was not scored.
        test: which test: "bootstrap" or "randomization".
    """

    folder: Path
    name: str
    scores: dict[str, Any]
    baseline: Path | None = None
    against: dict[str, SystemScore] = dataclasses.field(default_factory=dict)
    test: str = "bootstrap"


def read_results(
    folders: Iterable[PathLike],
    names: Sequence[str] = ("test",),
    baselines: Mapping[Path, PathLike] | None = None,
    test: str = "bootstrap",
) -> list[Result]:
    """Read the scores of runs, and compare them with those of their baselines.

    Args:
        folders: run folders; those that were not scored are left out.
        names: names of the test sets.
        baselines: `{folder: its baseline}`.
        test: "bootstrap" or "randomization", see `compare_systems`.

    Raises:
        UserError: no run was scored; runs to compare were scored on different texts.
    """
    paths = [Path(folder) for folder in folders]
    own = {path: Path(baseline) for path, baseline in (baselines or {}).items() if Path(baseline) != path}
    every = {path: RunFolder(path).read_scores() for path in paths}
    tests = {name: _significance([path for path in paths if name in every[path]], name, own, test) for name in names}
    results = [
        Result(path, name, every[path][name], own.get(path), tests[name].get(path, {}), test)
        for path in paths
        for name in names
        if name in every[path]
    ]
    if not results:
        raise UserError(f"no run has been scored on {' or '.join(map(repr, names))} yet: evaluate one first.")
    return results


def further_names(folders: Iterable[PathLike]) -> list[str]:
    """Return the names of the further test texts that runs were scored on."""
    every = (name for folder in folders for name in RunFolder(folder).read_scores())
    return [name for name in dict.fromkeys(every) if is_further(name)]


def results_table(
    results: Sequence[Result],
    paper: Mapping[str, Mapping[str, str]] | None = None,
    rank_by: Callable[[dict[str, Any]], float] | None = None,
) -> Table:
    """Return a table of results: a row for each.

    Scores that differ from the baseline's get one star if p < 0.05, two if p < 0.01; none get any below `LEAST_BLEU`,
    unless the paper's own BLEU is as low. Times are wall time without
    compilation, which has its own column. K is the number of source positions that a latent alignment summed over in
    search, if it differs from the run's own.

    Args:
        results: see `read_results`.
        paper: the paper's figures, `{system: {column: figure}}`, shown beside ours in brackets.
        rank_by: function that takes a run's scores and returns a number: rows are sorted by it, lowest first, runs
            without it last. By default, in the order of the results.
    """
    paper, rows = paper or {}, []
    notes: set[str] = set()
    searches: dict[str, list[str]] = {}
    poor: list[str] = []
    if rank_by is not None:
        results = sorted(results, key=lambda one: _rank(rank_by, one.scores))
    for one in results:
        scores, figures = one.scores, paper.get(one.folder.name, {})
        name = f"{one.folder.name}, average" if one.name == AVERAGE else one.folder.name
        is_poor = _is_poor(scores, figures.get("BLEU"))
        poor += [name] if is_poor and one.against else []
        rows.append([name, *(_cell(column, one, figures.get(column), is_poor) for column in COLUMNS)])
        notes.update(f"{key}: {metric['signature']}" for key, metric in scores["text"]["metrics"].items())
        searches.setdefault(
            f"beams {scores['beams']}, length penalty {scores['length_penalty']}{_precision(scores)}; "
            f"{scores['sentences']} sentences; trained under {scores['training']['environment']}"
            f"{_precision(scores['training'])}",
            [],
        ).append(one.folder.name)
    for search, names in searches.items():
        # With several, each says whose it is.
        notes.add(f"search: {search}" if len(searches) == 1 else f"search of {', '.join(names)}: {search}")
    notes.update(_about_baselines(results))
    if poor:
        notes.add(f"no stars for {', '.join(poor)}: BLEU is below {LEAST_BLEU:g}")
    if any(one.scores["search_top_k"] is not None for one in results):
        notes.add("K applies to the search; perplexity, accuracy and AER are those of the mixture in training")
    return _without_empty_columns(["system", *COLUMNS], rows, sorted(notes))


def spread_table(groups: Mapping[str, Sequence[Result]]) -> Table | None:
    """Return a table of the mean and the standard deviation over the seeds of each system; None without two seeds.

    The standard deviation is that of a sample (n - 1). What does not differ is shown alone.

    Args:
        groups: `{row: results of runs that differ in their seed}`.
    """
    if not any(len(group) > 1 for group in groups.values()):
        return None
    rows = [[row, str(len(group)), *(_spread(column, group) for column in COLUMNS)] for row, group in groups.items()]
    return _without_empty_columns(["system", "seeds", *COLUMNS], rows, ["mean ± standard deviation over seeds"])


def _without_empty_columns(headings, rows, notes):
    used = [i for i in range(len(headings)) if any(row[i] != EMPTY for row in rows)]
    headings, *rows = [[line[i] for i in used] for line in (headings, *rows)]
    return Table(headings, rows, [*notes, _BESIDE_WHATEVER] if _OF_LOG & {*headings} else notes)


def _precision(scores):
    """The precision, unless it is the usual one."""
    return ", in bfloat16" if scores.get("precision") == "bfloat16" else ""


def _about_baselines(results):
    """Lines below the table: the meaning of stars, and systems without a baseline among the runs."""
    compared, there = {}, []
    for one in results:
        if one.baseline is not None:
            compared.setdefault(one.baseline, []).append(one.folder.name)
            if one.against and one.baseline not in there:
                there.append(one.baseline)
    if there:
        which = "; ".join(f"{own.name} for {', '.join(dict.fromkeys(compared[own]))}" for own in there)
        which = there[0].name if len(there) == 1 else f"its baseline ({which})"
        yield f"*, **: differs from {which}, p < 0.05, p < 0.01; {about_test(results[0].test)}"
    for own in compared:
        if own not in there:
            why = "cannot be compared" if any(one.folder == own for one in results) else "is not in the table"
            yield f"no stars for {', '.join(dict.fromkeys(compared[own]))}: the baseline {own.name} {why}"


def about_test(test: str) -> str:
    """Return the name of a significance test, with its number of samples."""
    names = {
        "bootstrap": "one-sided paired bootstrap, {} samples",
        "randomization": "approximate randomization, {} trials",
    }
    return names[test].format(TESTS[test])


def _significance(folders, name, baselines, test):
    """Compare each run with its baseline, if that is there: `{folder: {metric: SystemScore}}`."""
    groups = {}
    for folder in folders:
        own = baselines.get(folder)
        if own in folders:
            groups.setdefault(own, [own]).append(folder)
    compared = {}
    for baseline, group in groups.items():
        texts, references = {}, {}
        for folder in group:
            try:
                texts[str(folder)], references[folder] = RunFolder(folder).read_translations(name)
            except UserError as error:
                _LOG.warning("%s; it is compared without a test", str(error).rstrip("."))
                continue
            if references[folder] != references.get(baseline, references[folder]):
                raise UserError(
                    f"{folder} and {baseline} were scored on different texts: evaluate both on the same one."
                )
        group = [folder for folder in group if folder in references]
        if group[:1] != [baseline] or len(group) == 1:
            continue
        first, *more = references[baseline]
        how, metrics = _how_scored(group, baseline, name), _shared_metrics(group, baseline, name)
        found = compare_systems(str(baseline), texts, first, metrics, test=test, more_references=more, **how)
        compared.update({folder: found[str(folder)] for folder in group[1:]})
    return compared


def _how_scored(group, baseline, name):
    """Tokeniser and case of the scores of runs; raise if they are not all the same."""
    found = {}
    for folder in group:
        found[folder] = how_scored(RunFolder(folder).read_scores()[name]["text"])
        if found[folder] != found[baseline]:
            raise UserError(
                f"{folder} and {baseline} were scored with different tokenisers or case: evaluate both with the same."
            )
    return found[baseline]


def _shared_metrics(group, baseline, name):
    """The metrics that all runs were scored with; raise if there are none."""
    scored = [RunFolder(folder).read_scores()[name]["text"]["metrics"] for folder in group]
    shared = [metric for metric in scored[0] if all(metric in one for one in scored)]
    if not shared:
        raise UserError(f"{baseline} and the runs compared with it share no score: evaluate them on one task.")
    return shared


def _star(against, is_poor):
    if is_poor or against is None or against.p_value is None or against.p_value >= 0.05:
        return ""
    return "**" if against.p_value < 0.01 else "*"


def _is_poor(scores, figure):
    """Whether translations are too bad for a difference to mean anything, unlike those of the paper."""
    bleu, of_paper = number("BLEU", scores), re.match(r"[\d.]+", figure or "")
    return bleu is not None and bleu < LEAST_BLEU <= (float(of_paper[0]) if of_paper else math.inf)


def _rank(rank_by, scores):
    try:
        # An infinite score is stored as null.
        return math.inf if (rank := rank_by(scores)) is None else rank
    except (KeyError, TypeError):
        return math.inf


def _cell(column, one, figure, is_poor):
    value = number(column, one.scores)
    star = "" if value is None else _star(one.against.get(METRICS.get(column)), is_poor)
    cell = shown(column, value) + star
    return cell if figure is None else f"{cell} (paper: {figure})"


def _spread(column, group):
    """The cell of a column over seeds; a score that not all runs have is a dash."""
    numbers = [number(column, one.scores) for one in group]
    if None in numbers:
        return EMPTY
    if len(set(numbers)) == 1:
        return shown(column, numbers[0])
    return f"{shown(column, statistics.fmean(numbers))} ± {shown(column, statistics.stdev(numbers))}"

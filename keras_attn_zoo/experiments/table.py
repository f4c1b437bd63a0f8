"""Tables of results, made from run folders: one row per system."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_attn_zoo.data.text_files import read_lines
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.evaluation.text_scores import compare_systems
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.files import PathLike, check_file
from keras_attn_zoo.training.progress import clock_time

METRICS = {"BLEU": "bleu", "chrF": "chrf", "TER": "ter"}


def _metric(metric):
    return lambda s: f"{s['text']['metrics'][metric]['score']:.1f}"


def steady_translation_seconds(scores: dict[str, Any]) -> float:
    """Return the wall time of translating a test set, without compilation."""
    return scores["translation_seconds"] - scores["translation_compilation_seconds"]


# Each heading, and the function from scores to a cell; a missing score becomes a dash.
COLUMNS = {
    "K": lambda s: f"{s['search_top_k'] or 'all'}" if s["search_top_k"] is not None else "–",
    **{heading: _metric(metric) for heading, metric in METRICS.items()},
    "perplexity": lambda s: f"{s['perplexity']:.2f}",
    "perplexity, free-running": lambda s: f"{s['free_running']['perplexity']:.2f}",
    "accuracy": lambda s: f"{100 * s['accuracy']:.1f} %",
    "AER": lambda s: f"{100 * s['alignment']['aer']:.1f}",
    "AER, posterior": lambda s: f"{100 * s['alignment']['posterior_aer']:.1f}",
    "training": lambda s: clock_time(s["training"]["seconds"] - s["training"]["compilation_seconds"]),
    "steps": lambda s: f"{s['training']['steps']}",
    "tokens/s": lambda s: f"{s['training']['tokens_per_second']:.0f}",
    "translation": lambda s: clock_time(steady_translation_seconds(s)),
    "compilation": lambda s: clock_time(s["training"]["compilation_seconds"] + s["translation_compilation_seconds"]),
    "parameters": lambda s: f"{s['parameters'] / 1e6:.1f} M",
}


def results_table(
    folders: Iterable[PathLike],
    name: str | Sequence[str] = "test",
    paper: Mapping[str, Mapping[str, str]] | None = None,
    baseline: PathLike | Mapping[Path, PathLike] | None = None,
    rank_by: Callable[[dict[str, Any]], float] | None = None,
) -> str:
    """Return a Markdown table of scored runs.

    Times are wall time without compilation, which has its own column. K is the
    number of source positions that a latent alignment summed over in search, if
    it differs from the run's own.

    Args:
        folders: run folders; those not scored on the test set are left out.
        name: name of the test set, or a list of names with a row for each.
        paper: the paper's figures, `{system: {column: figure}}`, shown beside ours in brackets.
        baseline: one of the folders, or `{folder: its baseline}`; scores that differ from the baseline's in a paired
            bootstrap get one star if p < 0.05, two if p < 0.01. In a dict, a folder whose baseline was not scored
            gets no stars, and a line below the table says so.
        rank_by: function that takes a run's scores and returns a number: rows are sorted by it, lowest first, runs
            without it last. By default, in the order of the folders.

    Raises:
        UserError: no run was scored; the only baseline was not scored; runs to compare were scored on different
            texts.

    Example:
        >>> print(results_table(["runs/bahdanau", "runs/uniform"]))  # doctest: +SKIP
    """
    paper = paper or {}
    rows: list[list[str]] = []
    signatures: set[str] = set()
    paths, names = [Path(folder) for folder in folders], [name] if isinstance(name, str) else name
    every = {path: RunFolder(path).read_scores() for path in paths}
    scored = [(path, name) for path in paths for name in names if name in every[path]]
    if rank_by is not None:
        scored.sort(key=lambda one: _rank(rank_by, every[one[0]][one[1]]))
    if not scored:
        raise UserError(f"no run has been scored on {' or '.join(map(repr, names))} yet: evaluate one first.")
    if baseline is None or isinstance(baseline, Mapping):
        baselines = {Path(path): Path(own) for path, own in (baseline or {}).items()}
    else:
        for name in names:
            if (Path(baseline), name) not in scored:
                raise UserError(
                    f"the baseline {baseline} is not among the runs scored on {name!r}: choose one of them."
                )
        baselines = dict.fromkeys(paths, Path(baseline))
    stars = {name: _stars(scored, name, baselines) for name in names}
    for path, name in scored:
        scores = every[path][name]
        figures = paper.get(path.name, {})
        marks = stars.get(name, {}).get(path, {})
        cells = [_cell(get, scores, marks.get(column, ""), figures.get(column)) for column, get in COLUMNS.items()]
        rows.append([path.name, *cells])
        signatures.update(f"{key}: {one['signature']}" for key, one in scores["text"]["metrics"].items())
        signatures.add(
            f"search: beams {scores['beams']}, length penalty {scores['length_penalty']}{_precision(scores)}; "
            f"{scores['sentences']} sentences; trained under {scores['training']['environment']}"
            f"{_precision(scores['training'])}"
        )
    signatures.update(_about_baselines([path for path, _ in scored], baselines))
    if any(every[path][name]["search_top_k"] is not None for path, name in scored):
        signatures.add("K applies to the search; perplexity, accuracy and AER are those of the mixture in training")
    columns = ["system", *COLUMNS]
    used = [i for i in range(len(columns)) if any(row[i] != "–" for row in rows)]
    headings, *body = [[line[i] for i in used] for line in (columns, *rows)]
    return markdown_table(headings, body) + "\n\n" + "\n".join(f"- {line}" for line in sorted(signatures))


def _precision(scores):
    """The precision, unless it is the usual one."""
    return ", in bfloat16" if scores.get("precision") == "bfloat16" else ""


def _about_baselines(folders, baselines):
    """Lines below the table: the meaning of stars, and systems without a baseline among the runs."""
    compared = {}
    for folder in folders:
        own = baselines.get(folder, folder)
        if own != folder:
            compared.setdefault(own, []).append(folder.name)
    there = [own for own in compared if own in folders]
    if there:
        which = "; ".join(f"{own.name} for {', '.join(dict.fromkeys(compared[own]))}" for own in there)
        which = there[0].name if len(there) == 1 else f"its baseline ({which})"
        yield f"*, **: differs from {which}, p < 0.05, p < 0.01; paired bootstrap, 1000 samples"
    for own in compared:
        if own not in there:
            yield f"no stars for {', '.join(dict.fromkeys(compared[own]))}: the baseline {own.name} was not scored"


def _stars(scored, name, baselines):
    """Marks for the scores that differ from the baseline's: `{folder: {column: mark}}`."""
    here = [folder for folder, one in scored if one == name]
    groups = {}
    for folder in here:
        own = baselines.get(folder, folder)
        if own != folder and own in here:
            groups.setdefault(own, [own]).append(folder)
    marks = {}
    for baseline, group in groups.items():
        texts, references = {}, {}
        for folder in group:
            run = RunFolder(folder)
            if not run.references(name).exists():
                raise UserError(f"{folder} has no references for {name!r}: evaluate it again to compare it.")
            for path in (run.hypotheses(name), run.references(name)):
                # Pipes are for users to name, not for a run folder that may be untrusted.
                check_file(path)
            texts[folder] = list(read_lines(run.hypotheses(name)))
            references[folder] = list(read_lines(run.references(name)))
            if references[folder] != references[baseline]:
                raise UserError(
                    f"{folder} and {baseline} were scored on different texts: evaluate both on the same one."
                )
        found = compare_systems(baseline, texts, references[baseline])
        for folder in group[1:]:
            marks[folder] = {column: _star(found[folder][metric]) for column, metric in METRICS.items()}
    return marks


def _star(score):
    if score.p_value is None or score.p_value >= 0.05:
        return ""
    return "**" if score.p_value < 0.01 else "*"


def _rank(rank_by, scores):
    try:
        return rank_by(scores)
    except (KeyError, TypeError):
        return math.inf


def _cell(get, scores, mark, figure):
    try:
        cell = get(scores) + mark
    except (KeyError, TypeError):
        cell = "–"
    return cell if figure is None else f"{cell} (paper: {figure})"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table whose columns also align in plain text.

    Example:
        >>> print(markdown_table(["a", "b"], [["x", "1"]]))
        | a | b |
        |---|--:|
        | x | 1 |
    """
    widths = [max(len(str(line[i])) for line in (headings, *rows)) for i in range(len(headings))]

    def line(cells):
        first = str(cells[0]).ljust(widths[0])
        rest = [str(cell).rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "| " + " | ".join([first, *rest]) + " |"

    rule = "|" + "|".join(["-" * (widths[0] + 2), *["-" * (width + 1) + ":" for width in widths[1:]]]) + "|"
    return "\n".join([line(headings), rule, *map(line, rows)])

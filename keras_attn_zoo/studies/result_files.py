"""The results of a comparison as files: Markdown to read, LaTeX to print, CSV and JSON to go on with."""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.score_data import how_searched
from keras_attn_zoo.runs.tasks import METRICS
from keras_attn_zoo.studies.changed_settings import Changes, changes, changes_line, without_computed
from keras_attn_zoo.studies.comparison import OF_SYSTEMS, Recipe, Run, run_name
from keras_attn_zoo.studies.earlier_results import FILE, LEFT_OUT, RUNS, left_out_of, title_of
from keras_attn_zoo.studies.table import COLUMNS, Result, number, results_table, spread_table
from keras_attn_zoo.studies.tabular import csv_text
from keras_attn_zoo.studies.text_names import part_name, text_name
from keras_attn_zoo.studies.timing_table import timing_table
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.escapes import in_markdown
from keras_attn_zoo.support.files import read_json, shown, write_json, write_text
from keras_attn_zoo.support.setting_types import shown_value


def check_folder(out: Path, recipe: Recipe) -> None:
    """Raise if the files of `write_results` would stand in a folder where they should not.

    Raises:
        UserError: the folder is a run's own, or has the results of another recipe, which would be replaced.
    """
    if RunFolder(out).holds_run:
        raise UserError(f"{shown(out)} is the folder of a run: give the folder that it stands in, or another one.")
    title = title_of(out)
    if title is not None and _whose(title) != _whose(recipe.title):
        raise UserError(
            f"{shown(out)} has the results of another comparison, {shown_value(title)}: choose another folder."
        )


def _whose(title: str) -> str:
    """The title without the systems, where they are part of it: others may join them."""
    return OF_SYSTEMS if title.startswith(OF_SYSTEMS) else title


def write_results(
    out: Path,
    recipe: Recipe,
    runs: Sequence[Run],
    results: Sequence[Result],
    further: Mapping[str, Sequence[Result]] | None = None,
) -> str:
    """Write `results.md`, `results.tex`, `results.csv` and `results.json` to a folder; return the first.

    Args:
        out, recipe: the folder, and the comparison.
        runs: its runs, in the order of the tables.
        results: those that were scored; each folder has the name of its run.
        further: those of further test texts, by the name of the text.
    """
    further = further or {}
    compared = dict.fromkeys(run.entry for run in runs if any(one.folder.name == run.name for one in results))
    # Others may have joined those that the call named.
    headline = f"{OF_SYSTEMS} {', '.join(compared)}" if _whose(recipe.title) == OF_SYSTEMS else recipe.title
    paper = {run.name: recipe.entries[run.entry].paper for run in runs}
    of_run = {run.name: run for run in runs}
    parts, tables = [], []
    for name, of_text in {"": results, **further}.items():
        title = f"{headline}, {name}" if name else headline
        own = [(title, results_table(of_text, {} if name else paper, recipe.rank_by))]
        spread = spread_table(over_seeds(of_run, of_text))
        if spread is not None:
            own.append((f"{title}: mean over seeds", spread))
        parts += [f"{'##' if name else '#'} {in_markdown(title)}", *(table.markdown() for _, table in own)]
        tables += own
    times = timing_table([one.folder for one in results])
    if times is not None:
        parts += ["## Times", times.markdown()]
        tables.append((f"{headline}: times", times))
    changed = changes(
        (one.folder.name, recipe.entries[of_run[one.folder.name].entry].system, RunFolder(one.folder).system())
        for one in results
    )
    changed = without_computed(changed, recipe)
    lines = [changes_line(_unnamed(changed, of_run)), in_markdown(_texts_line(results, further)), recipe.note]
    markdown = "\n\n".join(filter(None, [*parts, *lines])) + "\n"
    write_text(out / "results.md", markdown)
    write_text(out / "results.tex", "\n\n".join(table.latex(title) for title, table in tables) + "\n")
    records = [
        _record(run, recipe.entries[run.entry].baseline, {} if name else paper[run.name], one)
        for name, of_text in {"": results, **further}.items()
        for one in of_text
        for run in [of_run[one.folder.name]]
    ]
    write_text(out / "results.csv", csv_text([_line(record) for record in records]))
    content: dict[str, Any] = {"title": headline, "scale": recipe.scale, "note": recipe.note}
    content |= {"significance": results[0].test, RUNS: records, LEFT_OUT: left_out_of(out, records)}
    write_json(out / FILE, content)
    return markdown


def _texts_line(results: Sequence[Result], further: Mapping[str, Sequence[Result]]) -> str:
    """What the runs were trained and scored on, as far as its name says."""
    names: dict[str, list[str]] = {}
    for one in results:
        names.setdefault(text_name(RunFolder(one.folder).corpus()), []).append(one.folder.name)
    whose = "; ".join(f"{text} ({', '.join(runs)})" for text, runs in names.items())
    trained = f"different texts: {whose}" if len(names) > 1 else "".join(names)
    every = itertools.chain(results, *further.values())
    scored = (part_name(RunFolder(one.folder).corpus(), one.name, one.scores.get("origin")) for one in every)
    return f"Trained on {trained}. Scored on {'; '.join(dict.fromkeys(scored))}."


def _unnamed(changed: Changes, runs: Mapping[str, Run]) -> Changes:
    """The changes without those that stand in the names of their runs: the settings of a grid, and the seed."""
    found: Changes = {}
    for key, values in changed.items():
        for both, names in values.items():
            others = [name for name in names if key not in {one.partition(".")[0] for one in runs[name].point}]
            if others:
                found.setdefault(key, {})[both] = others
    return found


def over_seeds(runs: Mapping[str, Run], results: Sequence[Result]) -> dict[str, list[Result]]:
    """Return the results of runs that differ in their seed alone, by the name that they share, or that of the first.

    Runs that were trained on other text, or scored with another search, differ in more.
    """
    groups: dict[str, list[Result]] = {}
    first: dict[str, str] = {}
    taken = set()
    for one in results:
        run, system = runs[one.folder.name], RunFolder(one.folder).system()
        point = {key: value for key, value in run.point.items() if key != "seed"}
        name = run_name(run.entry, point)
        # Calls may have given them other settings.
        trained_on = RunFolder(one.folder).corpus().get("fingerprint")
        settings = json.dumps([{**system.to_dict(), "seed": None}, trained_on, how_searched(one.scores)])
        if first.setdefault(name, settings) != settings:
            name = next((known for known, its in first.items() if its == settings), run.name)
            first[name] = settings
        # A seed counts once.
        groups.setdefault(run.name if (name, system.seed) in taken else name, []).append(one)
        taken.add((name, system.seed))
    return groups


def _record(run: Run, baseline: str | None, paper: Mapping[str, str], one: Result) -> dict[str, Any]:
    return {
        "run": run.name,
        "text": one.name,
        "system": run.entry,
        "settings": {**run.point, "seed": RunFolder(one.folder).system().seed},
        "baseline": run.baseline,
        "baseline_system": baseline,
        "config": read_json(RunFolder(one.folder).config),
        "numbers": {column: value for column in COLUMNS if (value := number(column, one.scores)) is not None},
        "paper": dict(paper),
        "p_values": {
            column: one.against[metric].p_value for column, metric in METRICS.items() if metric in one.against
        },
        "scores": one.scores,
    }


def _line(record: dict[str, Any]) -> dict[str, Any]:
    """A run's line of `results.csv`."""
    return {
        "run": record["run"],
        "text": record["text"],
        "system": record["system"],
        **record["settings"],
        "baseline": record["baseline"],
        **record["numbers"],
        **{f"{column} (paper)": figure for column, figure in record["paper"].items()},
        **{f"{column} (p)": value for column, value in record["p_values"].items()},
    }

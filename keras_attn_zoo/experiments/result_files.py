"""The results of a comparison as files: Markdown to read, LaTeX to print, CSV and JSON to go on with."""

import contextlib
import dataclasses
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.evaluation.text_scores import how_scored
from keras_attn_zoo.experiments.changed_settings import changes, changes_line
from keras_attn_zoo.experiments.comparison import OF_SYSTEMS, Recipe, Run, run_name
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.experiments.scales import SCALES
from keras_attn_zoo.experiments.setting_types import shown_value
from keras_attn_zoo.experiments.table import COLUMNS, Result, number, results_table, spread_table
from keras_attn_zoo.experiments.tabular import csv_text
from keras_attn_zoo.experiments.tasks import METRICS
from keras_attn_zoo.files import kind_of, read_json, shown, write_text

_LOG = logging.getLogger(__name__)


def check_folder(out: Path, recipe: Recipe) -> None:
    """Raise if the files of `write_results` would stand where they should not.

    Args:
        out: the folder for the results.
        recipe: the comparison.

    Raises:
        UserError: the folder is a run's own, or has the results of another recipe, which would be replaced.
    """
    if RunFolder(out).holds_run:
        raise UserError(f"{shown(out)} is the folder of a run: give the folder that it stands in, or another one.")
    title = _title(out)
    if title is not None and _whose(title) != _whose(recipe.title):
        raise UserError(
            f"{shown(out)} has the results of another comparison, {shown_value(title)}: choose another folder."
        )


def _content(out: Path) -> dict[str, Any]:
    """What `results.json` in a folder has; nothing if there is none, or it is damaged and so is written anew."""
    found = None
    if kind_of(file := out / "results.json") == "file":
        with contextlib.suppress(UserError):
            found = read_json(file)
    return found if isinstance(found, dict) else {}


def _title(out: Path) -> str | None:
    """The title of the results in a folder, or None."""
    title = _content(out).get("title")
    return title if isinstance(title, str) else None


def _whose(title: str) -> str:
    """The title without the systems, where they are part of it: others may join them."""
    return OF_SYSTEMS if title.startswith(OF_SYSTEMS) else title


def scale_of(out: Path) -> str | None:
    """Return the scale of the results in a folder, or None."""
    scale = _content(out).get("scale")
    return scale if scale in SCALES else None


def systems_of(out: Path) -> list[str]:
    """Return the names of the systems that the results in a folder are of, in their order."""
    return list(dict.fromkeys(one["system"] for one in _records(out)))


def _records(out: Path) -> list[dict[str, Any]]:
    """The runs of the results in a folder."""
    records = _content(out).get("runs")
    wanted = {"run": str, "system": str, "settings": dict}
    return [
        one
        for one in (records if isinstance(records, list) else [])
        if isinstance(one, dict) and all(isinstance(one.get(key), kind) for key, kind in wanted.items())
    ]


def in_order(earlier: Iterable[str], asked: Iterable[str]) -> list[str]:
    """Return the names of earlier calls with those of this one behind them; if it has them all, in its own order.

    Example:
        >>> in_order(["a", "b"], ["c", "a"]), in_order(["a", "b"], ["b", "a"])
        (['a', 'b', 'c'], ['b', 'a'])
    """
    earlier, asked = list(earlier), list(asked)
    return list(dict.fromkeys([*asked, *earlier] if set(earlier) <= set(asked) else [*earlier, *asked]))


def gathered(runs: Sequence[Run], out: Path, recipe: Recipe) -> list[Run]:
    """Return runs, and with them those of earlier calls that the results in their folder have.

    Left out is what was scored on another text, or otherwise, than these runs. What is compared with no other run here
    is compared with the one that it was compared with before.

    Args:
        runs: the runs of this call.
        out: the folder.
        recipe: the comparison.
    """
    scored = [run for run in runs if "test" in RunFolder(out / run.name).read_scores()]
    how = _how(out / scored[0].name) if scored else None
    found = {run.name: run for run in runs}
    for one in _records(out):
        name, baseline = one["run"], one.get("baseline")
        if name in found:
            found[name] = dataclasses.replace(found[name], baseline=found[name].baseline or baseline)
        elif one["system"] in recipe.entries and "test" in RunFolder(out / name).read_scores():
            if how not in (None, own := _how(out / name)):
                _LOG.warning("the results leave out %s: it was scored on another text, or otherwise", name)
                continue
            how = own
            found[name] = Run(name, one["system"], RunFolder(out / name).system(), one["settings"], baseline)
    names = in_order((one["run"] for one in _records(out) if one["run"] in found), (run.name for run in runs))
    return [found[name] for name in names]


def _how(folder):
    """On what, and how, a run was scored."""
    run = RunFolder(folder)
    return run.read_translations("test")[1], how_scored(run.read_scores()["test"]["text"])


def write_results(
    out: Path,
    recipe: Recipe,
    runs: Sequence[Run],
    results: Sequence[Result],
    further: Mapping[str, Sequence[Result]] | None = None,
) -> str:
    """Write `results.md`, `results.tex`, `results.csv` and `results.json` to a folder; return the first.

    Args:
        out: the folder.
        recipe: the comparison.
        runs: its runs, in the order of the tables.
        results: those that were scored; each folder has the name of its run.
        further: those of further test texts, by the name of the text.
    """
    further = further or {}
    paper = {run.name: recipe.entries[run.entry].paper for run in runs}
    of_run = {run.name: run for run in runs}
    parts, tables = [], []
    for name, of_text in {"": results, **further}.items():
        title = f"{recipe.title}, {name}" if name else recipe.title
        own = [(title, results_table(of_text, {} if name else paper, recipe.rank_by))]
        spread = spread_table(_over_seeds(of_run, of_text))
        if spread is not None:
            own.append((f"{title}: mean over seeds", spread))
        parts += [f"{'##' if name else '#'} {title}", *(table.markdown() for _, table in own)]
        tables += own
    changed = changes(
        (one.folder.name, recipe.entries[of_run[one.folder.name].entry].system, RunFolder(one.folder).system())
        for one in results
    )
    # Those of a grid stand in the names of the runs.
    varied = {name.partition(".")[0] for run in runs for name in run.point}
    changed = {name: values for name, values in changed.items() if name not in varied}
    markdown = "\n\n".join(filter(None, [*parts, changes_line(changed), recipe.note])) + "\n"
    write_text(out / "results.md", markdown)
    write_text(out / "results.tex", "\n\n".join(table.latex(title) for title, table in tables) + "\n")
    records = [_record(of_run[one.folder.name], paper[one.folder.name], one) for one in results]
    records += [_record(of_run[one.folder.name], {}, one) for of_text in further.values() for one in of_text]
    write_text(out / "results.csv", csv_text([_line(record) for record in records]))
    content: dict[str, Any] = {"title": recipe.title, "scale": recipe.scale, "note": recipe.note}
    content |= {"significance": results[0].test, "runs": records}
    write_text(out / "results.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return markdown


def _over_seeds(runs: Mapping[str, Run], results: Sequence[Result]) -> dict[str, list[Result]]:
    """The results of runs that differ in their seed alone, by the name that they share."""
    groups: dict[str, list[Result]] = {}
    for one in results:
        run = runs[one.folder.name]
        point = {key: value for key, value in run.point.items() if key != "seed"}
        groups.setdefault(run_name(run.entry, point), []).append(one)
    return groups


def _record(run: Run, paper: Mapping[str, str], one: Result) -> dict[str, Any]:
    return {
        "run": run.name,
        "text": one.name,
        "system": run.entry,
        "settings": {**run.point, "seed": run.system.seed},
        "baseline": run.baseline,
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

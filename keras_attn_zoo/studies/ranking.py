"""A table of all systems of a comparison, the best first, and which of them differ from their baselines for certain."""

import dataclasses
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras_attn_zoo.evaluation.training_comparison import TrainingComparison, holm
from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.search_state import state_numbers
from keras_attn_zoo.studies.measures import large, measure, note_of
from keras_attn_zoo.studies.paper_cells import Runs, Value, interval_text
from keras_attn_zoo.studies.paper_tables import Cell, Ranking
from keras_attn_zoo.studies.table import EMPTY
from keras_attn_zoo.studies.tabular import Table
from keras_attn_zoo.studies.tuned_values import tuned_values

# Tokens of the translation whose state is counted.
STATE_LENGTH = 50


@dataclasses.dataclass(frozen=True)
class Ranked:
    """A cell of a `Ranking`.

    Attributes:
        cell, value: what stands in it, and our number; None if it was not measured.
        against: the cell of the baseline; None if it is not compared.
        p_value: that of the comparison, corrected for all of the table; None without one.
    """

    cell: Cell
    value: Value | None
    against: Cell | None
    p_value: float | None = None

    @property
    def comparison(self) -> TrainingComparison | None:
        """The comparison with the baseline."""
        return None if self.value is None else self.value.comparison

    @property
    def mark(self) -> str:
        """Stars for a difference that is there for certain."""
        return "" if self.p_value is None else "**" * (self.p_value < 0.01) or "*" * (self.p_value < 0.05)


def ranked(table: Ranking, runs: Runs) -> list[list[Ranked]]:
    """Return the cells of the systems that were run, the best first."""
    rows = [[_cell(table, cell, runs) for cell in cells] for cells in table.cells()]
    rows = [row for row in rows if row[0].value is not None]
    rows.sort(key=lambda row: measure(row[0].cell.measure).sign * -row[0].value.mean)
    found = {id(one): one.comparison.p_value for row in rows for one in row if one.comparison is not None}
    p_values = dict(zip(found, holm([*found.values()]), strict=True))
    return [[dataclasses.replace(one, p_value=p_values.get(id(one))) for one in row] for row in rows]


def _cell(table, cell, runs):
    name, of_recipe = cell.entry, runs.recipe.entries[cell.entry].baseline
    against = dataclasses.replace(cell, entry=of_recipe) if of_recipe and cell.column in table.compared else None
    return Ranked(cell, runs.value(cell, against), against if name != of_recipe else None)


def ranking_table(table: Ranking, rows: Sequence[Sequence[Ranked]], runs: Runs) -> Table:
    """Return what `ranked` found as a table.

    Beside its columns it has the difference of the first from the baseline, the values that were chosen for each
    system, its seeds, and the size of a search's state. A column in which nothing was measured is left out.
    """
    tuned = {entry: one["values"] for entry, one in tuned_values(runs.out).items()}
    settings = list(dict.fromkeys(name for row in rows for name in tuned.get(row[0].cell.entry, {})))
    lines = [_line(row, {name: tuned.get(row[0].cell.entry, {}).get(name) for name in settings}, runs) for row in rows]
    kept = [heading for heading in lines[0] if any(line[heading] != EMPTY for line in lines)]
    cells = [[line[heading] for heading in kept] for line in lines]
    return Table(kept, cells, list(_notes(table, rows, runs, settings)))


def _line(row: Sequence[Ranked], values: Mapping[str, Any], runs: Runs) -> dict[str, str]:
    """The cells of a system, by their headings."""
    (first, *others), folders = row, runs.folders(runs.recipe.first_pair, row[0].cell.entry)
    return {
        "system": f"`{first.cell.entry}`",
        first.cell.column: _shown(first),
        "difference": _difference(first),
        **{one.cell.column: _shown(one) for one in others},
        **{name.replace("_", " "): EMPTY if value is None else str(value) for name, value in values.items()},
        "seeds": str(len(folders)),
        "state": large(state_numbers(RunFolder(folders[0]).system(), STATE_LENGTH)),
    }


def _shown(one):
    if one.value is None:
        return EMPTY
    wanted, value = measure(one.cell.measure), one.value
    text = f"{value.mean:.{wanted.digits}f}{wanted.unit}"
    if value.spread is not None and wanted.seeded:
        text += f" ± {value.spread:.{wanted.digits}f}"
    return f"{text}{f' ({value.remark})' if value.remark else ''}{one.mark}"


def _difference(one):
    if one.value is None or one.value.difference is None:
        return EMPTY
    digits = measure(one.cell.measure).digits
    interval = "" if one.comparison is None else f" ({interval_text(one.comparison, digits)})"
    return f"{one.value.difference:+z.{digits}f}{interval}"


def _notes(table: Ranking, rows: Sequence[Sequence[Ranked]], runs: Runs, settings: Sequence[str]) -> Iterator[str]:
    """Lines below the table."""
    pair, entries = runs.recipe.first_pair, [row[0].cell.entry for row in rows]
    yield f"trained on {_joined(text for entry in entries for text in runs.texts_of(pair, entry))}"
    scored = (one.cell for row in rows for one in row if one.value is not None and not measure(one.cell.measure).part)
    tested = (text for cell in scored for text in runs.texts_in(cell))
    yield f"scored on {_joined(tested)}"
    folders = (folder for entry in entries for folder in runs.folders(pair, entry))
    yield _joined(_how(RunFolder(folder).read_scores()["test"]) for folder in folders)
    measured = dict.fromkeys(one.cell.measure for row in rows for one in row if one.value is not None)
    yield from filter(None, (note_of(name, pair) for name in measured))
    tests = sum(one.comparison is not None for row in rows for one in row)
    if of_first := [row[0].comparison for row in rows if row[0].comparison is not None]:
        baselines = _joined(one.against.entry for row in rows for one in row if one.against is not None)
        smallest = statistics.median(one.detectable_at(0.05 / tests) for one in of_first)
        yield (
            f"difference: from the baseline of the same body, {baselines}; in parentheses its interval of 95 %, which "
            "counts seeds and sentences, and is not corrected"
        )
        yield (
            "*, **: differs from it, p < 0.05, p < 0.01, by a test that counts seeds and sentences, corrected by "
            f"Holm's method for the {tests} comparisons of the table, which find a difference in "
            f"{rows[0][0].cell.column} of {smallest:.1f}, the median of all systems, in about four of five cases"
        )
    # What the systems lack themselves, so that those that lack the same share a line.
    lacking: dict[str, list[str]] = {}
    for name, lacks in runs.uncompared.items():
        reasons = dict.fromkeys(re.sub(r"^.*: |(?<=BLEU) [\d.]+,", "", part) for part in lacks.split("; "))
        lacking.setdefault("; ".join(reasons), []).append(name)
    for reason, unmarked in lacking.items():
        yield f"without a mark, there is too little to say of {', '.join(unmarked)} ({reason})"
    if settings:
        names = (name.replace("_", " ") for name in settings)
        yield f"{', '.join(names)}: the best of several for each system, by the validation loss of the first seed"
    yield (
        f"state: numbers that a search carries from position to position, for a hypothesis of {STATE_LENGTH} tokens; "
        "keys and values of the source are shared and not counted"
    )


def _how(scores: dict[str, Any]) -> str:
    search = f"{scores['beams']} beams, length penalty {scores['length_penalty']:g}"
    return f"search: {search}; trained under {scores['training']['environment']}"


def _joined(names):
    return "; ".join(dict.fromkeys(names))

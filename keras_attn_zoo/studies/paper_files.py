"""The tables of a paper, written from the runs in a folder: ours, and the paper's figures in brackets."""

import logging
from collections.abc import Mapping
from typing import Any

from keras_attn_zoo.runs.examples import best_translations
from keras_attn_zoo.studies.changed_settings import changes_line, changes_of
from keras_attn_zoo.studies.measures import large, measure, note_of
from keras_attn_zoo.studies.paper_cells import NOT_MEASURED, NOT_RUN, Runs, Value
from keras_attn_zoo.studies.paper_headings import Headings, with_texts
from keras_attn_zoo.studies.paper_tables import DECIMALS, Cell, Examples, PaperTable, Ranking
from keras_attn_zoo.studies.ranking import ranked, ranking_table
from keras_attn_zoo.studies.tabular import Table, csv_text
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.escapes import in_markdown
from keras_attn_zoo.support.files import write_json, write_text

_LOG = logging.getLogger(__name__)
MOST_DIGITS = 2
_BRACKETS = "in brackets: the paper's figures, texts and settings; a cell with these alone was not run"
ABOUT_TEST = "a test that counts seeds and sentences"
_SPREAD = "mean ± standard deviation over seeds"


def write_tables(runs: Runs) -> list[tuple[str, Table]]:
    """Write a paper's tables to `tables.md`, `tables.tex`, `tables.csv` and `tables.json` in the folder of its runs.

    They show all runs of the recipe's systems in the folder, of all language pairs and seeds, without those of a grid.
    Their titles and the tables are returned; none, and nothing is written, if the recipe has none or nothing was run.
    """
    recipe, out = runs.recipe, runs.out
    if not recipe.tables or not runs.pairs:
        return []
    tables: list[tuple[str, Table]] = []
    contents: list[dict[str, Any]] = []
    for one in recipe.tables:
        if isinstance(one, Examples):
            found = _examples(one, runs)
            if found is None:
                continue
            caption, table, records = found
        elif isinstance(one, Ranking):
            caption, table, records = _ranking(one, runs)
        else:
            caption, table, records = _table(one, runs)
        tables.append((in_markdown(f"{one.name}: {caption}"), table))
        contents.append({"table": one.name, "caption": caption, "notes": list(table.notes), "cells": records})
    title = recipe.title if recipe.is_ranking else f"{recipe.title}: the paper's tables"
    parts = [f"# {title}", *(part for name, table in tables for part in (f"## {name}", table.markdown()))]
    in_print = [
        table.latex(_in_print(one["table"], one["caption"])) for (_, table), one in zip(tables, contents, strict=True)
    ]
    parts += filter(None, [recipe.about_scale, changes_line(changes_of(runs))])
    write_text(out / "tables.md", "\n\n".join(parts) + "\n")
    write_text(out / "tables.tex", "\n\n".join(in_print) + "\n")
    lines = [{"table": one["table"], **_line(record)} for one in contents for record in one["cells"]]
    write_text(out / "tables.csv", csv_text(lines))
    content = {"title": title, "scale": recipe.scale, "significance": "seeds and sentences", "tables": contents}
    write_json(out / "tables.json", content)
    _LOG.info("%s: %s", "tables" if recipe.is_ranking else "the paper's tables", out / "tables.md")
    return tables


def _in_print(name, caption):
    """The title of a table where tables have numbers of their own."""
    return f"{caption} ({name} of the paper)" if name.startswith("Table ") else f"{name}: {caption}"


def _table(table: PaperTable, runs: Runs) -> tuple[str, Table, list[dict[str, Any]]]:
    """A table's caption, the table as text, and its cells as plain data."""
    rows, records = [], []
    ours: list[list[Cell | None]] = []
    missing: list[list[str]] = []
    # In order.
    notes: dict[str, None] = {}
    texts: dict[str, None] = {}
    marked: set[str] = set()
    digits = _digits(table)
    runs.uncompared.clear()
    for cells in table.cells():
        shown: list[str] = []
        ours.append([])
        missing.append([])
        for cell in map(runs.counted_on, cells):
            against = runs.against(table, cell)
            value = runs.value(cell, against)
            mark = _mark(table, cell, value)
            shown.append(_shown(table, cell, value, mark, digits))
            records.append(_record(cell, runs, value, against, mark))
            ours[-1].append(None if value is None else cell)
            run = cell.entry and all(runs.folders(pair, cell.entry) for pair in runs.pairs_of(cell))
            missing[-1].append("" if value is not None else NOT_MEASURED if run else NOT_RUN)
            if value is not None:
                for pair in runs.pairs_of(cell):
                    notes[note_of(cell.measure, pair)] = None
                    notes[about_texts(cell, runs, pair)] = None
                    texts.update(dict.fromkeys(runs.texts_of(pair, cell.entry)))
                notes[_SPREAD if value.spread is not None else ""] = None
                if value.comparison is not None and against is not None:
                    marked.add(against.entry)
        rows.append(shown)
    headings = Headings(table, runs, ours)
    trained = [f"our systems were trained on {'; '.join(texts)}"] if texts else []
    of_paper = any(cell.figure or cell.text or cell.setup for row in table.cells() for cell in row)
    brackets = [_BRACKETS] if of_paper else []
    about = [*brackets, *trained, *filter(None, notes), *_about_marks(table, marked, runs.uncompared), *table.notes]
    lines = [[title, *shown] for title, shown in zip(headings.rows, rows, strict=True)]
    return headings.caption, Table([table.corner, *headings.columns], lines, about, missing), records


def _ranking(wanted: Ranking, runs: Runs) -> tuple[str, Table, list[dict[str, Any]]]:
    """The caption of a ranking, the table, and its cells as plain data."""
    runs.uncompared.clear()
    rows = ranked(wanted, runs)
    records = [
        {**_record(one.cell, runs, one.value, one.against, one.mark), "corrected_p_value": one.p_value}
        for row in rows
        for one in row
    ]
    return wanted.caption, ranking_table(wanted, rows, runs), records


def _mark(table, cell, value):
    if value is None:
        return ""
    if table.dagger:
        better = value.difference is not None and measure(cell.measure).sign * value.difference > 0
        return "†" if better and value.differs(0.01) else ""
    return "**" if value.differs(0.01) else "*" if value.differs(0.05) else ""


def _digits(table):
    """Digits behind the point of each measure: as many as the paper's figures have, but no more than anyone needs."""
    found = {}
    for cell in (cell for row in table.cells() for cell in row):
        if printed := DECIMALS.match(cell.figure):
            found[cell.measure] = max(found.get(cell.measure, 0), min(len(printed[1] or ""), MOST_DIGITS))
    return found


def _shown(table: PaperTable, cell: Cell, value: Value | None, mark: str, digits: Mapping[str, int]) -> str:
    """The text of a cell; `digits` are those of measures that the paper has figures of."""
    figure = f"[{cell.figure}]" if cell.figure else ""
    if value is None:
        return figure
    wanted = measure(cell.measure)
    places = digits.get(cell.measure, wanted.digits)
    text = large(value.mean) if wanted.large else f"{value.mean:.{places}f}{wanted.unit}"
    if value.spread is not None and not wanted.large:
        text += f" ± {value.spread:.{places}f}"
    if table.differences and value.difference is not None:
        text += f" ({value.difference:+.{places}f})"
    if value.remark:
        text += f" ({value.remark})"
    return f"{text}{mark} {figure}".rstrip()


def about_texts(cell: Cell, runs: Runs, pair: str | None) -> str:
    """Return a line on a cell of a language pair with several test texts; empty if it has one, or the cell another."""
    first, *more = runs.recipe.tests_of(pair)
    if not more or cell.split != first:
        return ""
    if runs.is_mean(cell, pair):
        return f"{pair}: the mean of {first}, {', '.join(more)}"
    return f"{cell.entry} ({pair}): of {first} alone, since {', '.join(more)} were not all scored"


def _about_marks(table, marked, uncompared):
    """Lines on the marks of a table, and on what could not be compared."""
    if marked:
        which = next(iter(marked)) if len(marked) == 1 else "its baseline"
        means = (
            f"†: better than {which}, p < 0.01" if table.dagger else f"*, **: differs from {which}, p < 0.05, p < 0.01"
        )
        yield f"{means}; {ABOUT_TEST}"
    for lacks in dict.fromkeys(uncompared.values()):
        yield f"no marks for {', '.join(name for name, own in uncompared.items() if own == lacks)} ({lacks})"


def _record(cell, runs, value, against, mark):
    """A cell as plain data."""
    return {
        "row": cell.row,
        "column": cell.column,
        "system": cell.entry or None,
        "pairs": list(cell.pairs or filter(None, [runs.recipe.first_pair])),
        "text": None if value is None else "; ".join(runs.texts_in(cell)),
        "paper_text": cell.text or None,
        "steps": None if value is None else "; ".join(map(str, runs.steps_of(cell))) or None,
        "paper_setup": cell.setup or None,
        "split": cell.split,
        "measure": cell.measure,
        "paper": cell.figure or None,
        "values": [] if value is None else value.numbers,
        "mean": None if value is None else value.mean,
        "sd": None if value is None else value.spread,
        "difference": None if value is None else value.difference,
        "baseline": None if against is None else against.entry,
        "p_value": None if value is None or value.comparison is None else value.comparison.p_value,
        "mark": mark,
        "remark": "" if value is None else value.remark,
    }


def _line(record: dict[str, Any]) -> dict[str, Any]:
    """A cell's line of `tables.csv`."""
    return {key: " ".join(map(str, value)) if isinstance(value, list) else value for key, value in record.items()}


def _examples(wanted: Examples, runs: Runs) -> tuple[str, Table, list[dict[str, Any]]] | None:
    """The best translations of a system, below a caption; None if it was not run, or its test text is gone."""
    run = runs.scored(wanted.entry)
    if run is None:
        return None
    try:
        found = best_translations(run)
    except UserError as error:
        _LOG.warning("%s has no examples: %s", wanted.name, error)
        return None
    rows, records = [], []
    for one in found[: wanted.count]:
        named = {"source": one.source, "reference": one.reference, wanted.entry: one.translation}
        rows += [[sentence, name, ""] for name, sentence in named.items()]
        rows[-1][-1] = f"{one.score:.1f}"
        of = {"source": one.source, "reference": one.reference, "translation": one.translation}
        records.append({"system": wanted.entry, "sentence": one.number, **of, "sentence BLEU": one.score})
    notes = [f"of the {len(found)} sentences of the test text; of equal ones, the longest"]
    caption = with_texts(wanted.caption, runs.tested_on(runs.recipe.first_pair, wanted.entry), "", ", on ")
    return caption, Table(["sentence", "of", "sentence BLEU"], rows, notes), records

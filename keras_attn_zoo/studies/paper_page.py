"""A page on a paper: what it asks and found, what the runs in a folder say to that, its tables and pictures."""

import logging
import statistics
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.runs.tasks import METRICS, first_heading
from keras_attn_zoo.studies.changed_settings import changes_table
from keras_attn_zoo.studies.paper_cells import Runs
from keras_attn_zoo.studies.paper_findings import DIFFERS, IN_DIRECTION, compare, findings_table
from keras_attn_zoo.studies.tabular import Table
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import check_file, kind_of, shown, write_text
from keras_attn_zoo.training.progress import parameter_count
from keras_attn_zoo.training.run_log import read_log

_LOG = logging.getLogger(__name__)
_WIDTH = 120
PAGE = "page.md"
# Written by hand, if at all: what is known about a difference from the paper.
COMMENTS = "comments.md"
_UNEXPLAINED = "What differs from the paper is not explained."


def write_page(runs: Runs, tables: Sequence[tuple[str, Table]]) -> Path | None:
    """Write what a paper found, what its runs in a folder found, its tables and pictures to `page.md` in that folder.

    What was written by hand to `comments.md` there follows the findings. Without the tables of `write_tables`, nothing
    is written, and None returned.
    """
    if not tables:
        return None
    path = runs.out / PAGE
    parts = [f"# {runs.recipe.title}", *map(_filled, (runs.recipe.about, runs.recipe.about_scale)), *_findings(runs)]
    for title, table in tables:
        parts += [f"## {title}", table.markdown()]
    parts += [*_pictures(runs), *_runs(runs), changes_table(runs)]
    write_text(path, "\n\n".join(filter(None, parts)) + "\n")
    _LOG.info("what the paper found, and what was found here: %s", path)
    return path


def _filled(text, indent=""):
    return textwrap.fill(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _findings(runs):
    recipe = runs.recipe
    if not recipe.findings:
        return
    comparisons = compare(runs)
    yield "## Findings"
    claims = [f"{number}. {one.claim} ({one.place})" for number, one in enumerate(recipe.findings, start=1)]
    yield "\n".join(_filled(claim, "   ") for claim in claims)
    if recipe.scale == "smoke":
        yield "Runs at the scale smoke show that the recipe runs, and nothing about these claims."
        return
    yield findings_table(runs, comparisons).markdown()
    comments = runs.out / COMMENTS
    if kind_of(comments) is not None:
        check_file(comments)
        try:
            yield comments.read_text("utf-8").strip()
        except UnicodeDecodeError as error:
            raise UserError(f"{shown(comments)} is not UTF-8 ({error}): convert it.") from None
    elif any(one.verdict in (DIFFERS, IN_DIRECTION) for one in comparisons):
        yield _UNEXPLAINED


def _pictures(runs: Runs) -> Iterator[str]:
    """The pictures that were drawn, of all language pairs."""
    recipe, found = runs.recipe, []
    every: list[str | None] = [*recipe.pairs]
    for pair in every or [None]:
        folder = recipe.folder_of(runs.out, pair)
        drawn = [folder / file for file in recipe.pictures if kind_of(folder / file) is not None]
        of_pair = "" if pair in (None, recipe.first_pair) else f" ({pair})"
        for path in drawn:
            caption = recipe.captions.get(path.name, path.stem.replace("-", " ").capitalize())
            found.append(f"![{caption}{of_pair}]({path.relative_to(runs.out).as_posix()})\n\n{caption}{of_pair}.")
    if found:
        yield "## Pictures"
        yield from found


def _runs(runs):
    """What was run: seeds, steps, search, backend; where the text is from."""
    recipe, rows = runs.recipe, []
    heading = first_heading(next(iter(recipe.entries.values())).system.data.task)
    texts: dict[str, None] = {}
    tests: dict[str, None] = {}
    for pair in runs.pairs:
        for entry in recipe.entries:
            folders = [RunFolder(folder) for folder in runs.folders(pair, entry)]
            if not folders:
                continue
            scores = [run.read_scores()["test"] for run in folders]
            texts.update(dict.fromkeys(runs.texts_of(pair, entry)))
            tests.update(dict.fromkeys(runs.tested_on(pair, entry)))
            first = scores[0]
            row = [f"`{entry}`", *([str(pair)] if recipe.pairs else []), str(len(folders))]
            row += [_several(map(_steps, folders)), parameter_count(first["parameters"])]
            score = statistics.fmean(one["text"]["metrics"][METRICS[heading]]["score"] for one in scores)
            row += [_several(one["sentences"] for one in scores), f"{score:.1f}"]
            row += [_several(f"{one['beams']}, {one['length_penalty']:g}" for one in scores)]
            rows.append([*row, _several(one["training"]["environment"] for one in scores)])
    headings = [
        "system",
        *(["pair"] if recipe.pairs else []),
        "seeds",
        "steps",
        "parameters",
        "test sentences",
        heading,
    ]
    yield "## Runs"
    notes = [f"trained on: {'; '.join(texts)}", f"tested on: {'; '.join(tests)}"]
    yield Table([*headings, "beams, length penalty", "backend"], rows, notes).markdown()


def _several(values):
    return ", ".join(map(str, dict.fromkeys(values)))


def _steps(run):
    try:
        lines = read_log(run.log) if kind_of(run.log) is not None else []
    except UserError:
        # The tables have said so.
        lines = []
    return max((line["step"] for line in lines), default="–")

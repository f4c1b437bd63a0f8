"""A page on a paper: what it asks and found, what the runs in a folder say to that, its tables and pictures."""

import dataclasses
import logging
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from keras_attn_zoo.runs.run_folder import RunFolder
from keras_attn_zoo.studies.changed_settings import changes_line, changes_of
from keras_attn_zoo.studies.paper_cells import Runs
from keras_attn_zoo.studies.paper_findings import (
    DIFFERS,
    IN_DIRECTION,
    by_claim,
    findings_table,
    notes_of,
    numbered,
    without_numbers,
)
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
# Words of a page, tables included, as `wc -w` counts them: what is read in one sitting.
MOST_WORDS = 1500


def write_page(runs: Runs, tables: Sequence[tuple[str, Table]]) -> Path | None:
    """Write what a paper found, what its runs in a folder found, its tables and pictures to `page.md` in that folder.

    What was written by hand to `comments.md` there follows the findings; claims that differ, and that it does not name
    ("claim 2"), are said to be not explained. A warning is logged if it makes the page longer than `MOST_WORDS`.
    Rows and columns of a table without a number of ours are named below it; a note stands below the first table that
    needs it. Without the tables of `write_tables`, nothing is written, and None returned.
    """
    if not tables:
        return None
    path, comments = runs.out / PAGE, _comments(runs.out / COMMENTS)
    parts = [f"# {runs.recipe.title}", *map(_filled, (runs.recipe.about, runs.recipe.about_scale))]
    parts += _findings(runs, comments)
    said: set[str] = set()
    for title, table in tables:
        short = table.shortened()
        notes = [note for note in short.notes if note not in said]
        parts += [f"## {title}", dataclasses.replace(short, notes=notes).markdown()]
        said.update(notes)
    # A ranking has all that a table of runs has.
    ranks = runs.recipe.is_ranking
    parts += [comments if ranks else "", *_pictures(runs), *([] if ranks else _runs(runs))]
    entries = [f"`{one}`" for one in runs.recipe.entries if any(runs.folders(pair, one) for pair in runs.pairs)]
    parts += [_filled(changes_line(changes_of(runs), entries, runs.recipe.scale))]
    text = "\n\n".join(filter(None, parts)) + "\n"
    write_text(path, text)
    _LOG.info("%s: %s", "the page" if ranks else "what the paper found, and what was found here", path)
    if comments and (words := len(text.split())) > MOST_WORDS:
        _LOG.warning("%s has %d words, more than %d: shorten %s", shown(path), words, MOST_WORDS, COMMENTS)
    return path


def _filled(text, indent=""):
    return textwrap.fill(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _findings(runs, comments):
    recipe = runs.recipe
    if not recipe.findings:
        return
    yield "## Findings"
    if recipe.scale == "smoke":
        yield "\n".join(_filled(claim, "   ") for claim in numbered(recipe.findings))
        yield "Runs at the scale smoke show that the recipe runs, and nothing about these claims."
        return
    found = by_claim(runs)
    yield findings_table(recipe.findings, found, [*notes_of(runs, found)]).markdown()
    yield from without_numbers(recipe.findings, found)
    yield comments
    yield _unexplained(found, comments)


def _comments(path):
    """What was written by hand on the findings; empty if nothing was."""
    if kind_of(path) is None:
        return ""
    check_file(path)
    try:
        return path.read_text("utf-8").strip()
    except UnicodeDecodeError as error:
        raise UserError(f"{shown(path)} is not UTF-8 ({error}): convert it.") from None


def _unexplained(found, comments):
    """A sentence on the claims that differ, less those that the comments speak of; empty if there are none."""
    differ = [any(one.verdict in (DIFFERS, IN_DIRECTION) for one in comparisons) for comparisons in found]
    named = claims_in(comments)
    left = [str(number) for number, one in enumerate(differ, start=1) if one and number not in named]
    return f"Not explained: claim{'s' * (len(left) > 1)} {', '.join(left)}." if left else ""


def claims_in(comments: str) -> set[int]:
    """Return the numbers of the claims that comments speak of.

    Example:
        >>> sorted(claims_in("Claim 2: too short. The 9 seeds of claims 4, 6 and 8 to 10 do not help."))
        [2, 4, 6, 8, 9, 10]
    """
    named = re.findall(r"\bclaims? ((?:\d+|and|to|[, ])+)", " ".join(comments.split()), re.IGNORECASE)
    spans = re.findall(r"(\d+)(?: to (\d+))?", "; ".join(named))
    return {number for first, last in spans for number in range(int(first), int(last or first) + 1)}


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
            found.append(f"![{path.stem}]({path.relative_to(runs.out).as_posix()})\n\n{caption}{of_pair}.")
    if found:
        yield "## Pictures"
        yield from found


def _runs(runs):
    """What was run: seeds, steps, search, backend; the test text. What all have in common stands below."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for pair in runs.pairs:
        for entry in runs.recipe.entries:
            folders = [RunFolder(folder) for folder in runs.folders(pair, entry)]
            if not folders:
                continue
            scores = [run.read_scores()["test"] for run in folders]
            row = {
                "pair": pair or "",
                "seeds": f"{len(folders)}",
                "steps": _several(map(_steps, folders)),
                "parameters": parameter_count(scores[0]["parameters"]),
                "test text": _several(runs.tested_on(pair, entry)),
                "test sentences": _several(one["sentences"] for one in scores),
                "beams": _several(one["beams"] for one in scores),
                "length penalty": _several(f"{one['length_penalty']:g}" for one in scores),
                "backend": _several(one["training"]["environment"] for one in scores),
            }
            groups.setdefault(tuple(row.items()), []).append(f"`{entry}`")
    rows = [dict(items) for items in groups]
    shared = [name for name, value in rows[0].items() if all(row[name] == value for row in rows)]
    own = [name for name in rows[0] if name not in shared]
    lines = [[", ".join(names), *(row[name] for name in own)] for row, names in zip(rows, groups.values(), strict=True)]
    alike = ", ".join(f"{name} {rows[0][name]}" for name in shared if rows[0][name])
    yield "## Runs"
    yield Table(["system", *own], lines, [f"all: {alike}"]).markdown()


def _several(values):
    return ", ".join(map(str, dict.fromkeys(values)))


def _steps(run):
    try:
        lines = read_log(run.log) if kind_of(run.log) is not None else []
    except UserError:
        # The tables have said so.
        lines = []
    return max((line["step"] for line in lines), default="–")

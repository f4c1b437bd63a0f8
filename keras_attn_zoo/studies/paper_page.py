"""A page on a paper: what it asks and found, what the runs in a folder say to that, its tables and pictures."""

import logging
import re
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
# Words of a page, see `words_of`: what is read in one sitting.
MOST_WORDS = 1500
_FINDINGS = "Findings"
_CODE_AND_PICTURES = re.compile(r"^```.*?^```$|^!\[[^\n]*$", re.DOTALL | re.MULTILINE)


def write_page(runs: Runs, tables: Sequence[tuple[str, Table]]) -> Path | None:
    """Write what a paper found, what its runs in a folder found, its tables and pictures to `page.md` in that folder.

    What was written by hand to `comments.md` there follows the findings; claims that differ, and that it does not name
    ("claim 2"), are said to be not explained. A warning is logged if it makes the page longer than `MOST_WORDS`.
    Without the tables of `write_tables`, nothing is written, and None returned.
    """
    if not tables:
        return None
    path, comments = runs.out / PAGE, _comments(runs.out / COMMENTS)
    parts = [f"# {runs.recipe.title}", *map(_filled, (runs.recipe.about, runs.recipe.about_scale))]
    parts += _findings(runs, comments)
    for title, table in tables:
        parts += [f"## {title}", table.markdown()]
    # A ranking has all that a table of runs has.
    ranks = runs.recipe.is_ranking
    parts += [comments if ranks else "", *_pictures(runs), *([] if ranks else _runs(runs)), changes_table(runs)]
    text = "\n\n".join(filter(None, parts)) + "\n"
    write_text(path, text)
    _LOG.info("%s: %s", "the page" if ranks else "what the paper found, and what was found here", path)
    if comments and (words := words_of(text)) > MOST_WORDS:
        _LOG.warning("%s has %d words, more than %d: shorten %s", shown(path), words, MOST_WORDS, COMMENTS)
    return path


def words_of(page: str) -> int:
    """Return how many words a page of results has, outside tables, code and pictures; its table of findings counts.

    A word has a letter: figures are none.

    Example:
        >>> words_of("BLEU is 3.0.\\n\\n| a | b |\\n\\n## Findings\\n\\n| 2: BLEU | +1.0 | agrees |\\n")
        5
    """
    words = []
    for section in re.split(r"^## ", _CODE_AND_PICTURES.sub("", page), flags=re.MULTILINE):
        counts = section.startswith(f"{_FINDINGS}\n")
        words += [word for line in section.splitlines() if counts or line[:1] != "|" for word in line.split()]
    return sum(any(map(str.isalpha, word)) for word in words)


def _filled(text, indent=""):
    return textwrap.fill(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _findings(runs, comments):
    recipe = runs.recipe
    if not recipe.findings:
        return
    yield f"## {_FINDINGS}"
    claims = [f"{number}. {one.claim} ({one.place})" for number, one in enumerate(recipe.findings, start=1)]
    yield "\n".join(_filled(claim, "   ") for claim in claims)
    if recipe.scale == "smoke":
        yield "Runs at the scale smoke show that the recipe runs, and nothing about these claims."
        return
    comparisons = compare(runs)
    yield findings_table(runs, comparisons).markdown()
    yield comments
    yield _unexplained(recipe, comparisons, comments)


def _comments(path):
    """What was written by hand on the findings; empty if nothing was."""
    if kind_of(path) is None:
        return ""
    check_file(path)
    try:
        return path.read_text("utf-8").strip()
    except UnicodeDecodeError as error:
        raise UserError(f"{shown(path)} is not UTF-8 ({error}): convert it.") from None


def _unexplained(recipe, comparisons, comments):
    """A sentence on the claims that differ, less those that the comments speak of; empty if there are none."""
    differ = [id(one.finding) for one in comparisons if one.verdict in (DIFFERS, IN_DIRECTION)]
    numbers = [number for number, one in enumerate(recipe.findings, start=1) if id(one) in differ]
    left = [str(number) for number in numbers if number not in claims_in(comments)]
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

"""The tables and the findings of a paper as data: what its rows and columns stand for, its own figures, its claims."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

# A figure of a paper, and the digits behind its point.
DECIMALS = re.compile(r"[-+]?\d+(?:\.(\d+))?")
# A measure of the training log: BLEU of the test text after so much of the training.
BLEU_AFTER = re.compile(r"BLEU after (\d+)% of the steps")


@dataclasses.dataclass(frozen=True)
class Pair:
    """A language pair that a paper has results for.

    Attributes:
        settings: what the paper does differently for this pair: settings of every system that has them.
        published: the same at the scale "paper" alone, on top of what the recipe has for all pairs.
        tests: names of the scores whose mean the paper has for this pair's test text.
        corpus: name of the paper's text in the catalogue; empty if it is not there.
        tokenize: sacrebleu's tokeniser for the target language; empty for the usual one.
    """

    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    published: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tests: tuple[str, ...] = ("test",)
    corpus: str = ""
    tokenize: str = ""


@dataclasses.dataclass(frozen=True)
class Line:
    """A row or a column of a table. A row and a column say together what stands in their cell.

    Attributes:
        label: what the paper calls it.
        group: what it has in common with the lines beside it; stands before the label.
        entry: name of a system; empty in a row that is the paper's alone.
        pair: a language pair, or several, whose mean it is; by default the first of the recipe.
        split: name of the scores: "test", "valid", "gold", of another test set, or with `-kK` behind it.
        measure: name of one of `measures.measure`; a row and a column may each have a part of it, such as "running
            words" and "source".
        figures: of a row: the paper's figure for each column, separated by spaces; a dash if it has none.
        text: what the paper calls the text of its figures here. It stands in brackets behind the name of ours.
        setup: what else is the paper's alone, in brackets too: how long it trains, or with which settings.
    """

    label: str
    group: str = ""
    entry: str = ""
    pair: str | tuple[str, ...] = ()
    split: str = ""
    measure: str = ""
    figures: str = ""
    text: str = ""
    setup: str = ""

    @property
    def title(self) -> str:
        """The group and the label."""
        return ", ".join(part for part in (self.group, self.label) if part)


@dataclasses.dataclass(frozen=True)
class Cell:
    """The contents of a cell: a measure of a system's scores, and the paper's figure for it.

    Attributes:
        row, column: their titles.
        entry, measure: empty if the cell is the paper's alone.
        pairs: language pairs, whose mean it is; empty for the first of the recipe.
        split: name of the scores.
        figure: the paper's; empty if it has none.
        text, setup: see `Line`.
    """

    row: str
    column: str
    entry: str
    measure: str
    pairs: tuple[str, ...]
    split: str
    figure: str
    text: str = ""
    setup: str = ""


@dataclasses.dataclass(frozen=True)
class PaperTable:
    """A table of a paper.

    Attributes:
        name: what the paper calls it.
        caption: what it shows, without the text that it is of.
        columns, rows: its lines; what a row leaves open, its column says.
        corner: heading of the first column.
        baseline: name of the system that all others are compared with; by default each one's own in the recipe.
        dagger: whether a score that is better than the baseline's, p < 0.01, has a dagger, instead of stars for any
            difference.
        differences: whether the difference from the baseline stands behind a score.
        notes: lines below it.
        text: what the paper calls the text of its figures, where rows and columns do not say.
    """

    name: str
    caption: str
    columns: Sequence[Line]
    rows: Sequence[Line]
    corner: str = "system"
    baseline: str | None = None
    dagger: bool = False
    differences: bool = False
    notes: Sequence[str] = ()
    text: str = ""

    def cells(self) -> Iterator[list[Cell]]:
        """Yield the cells of each row."""
        for row in self.rows:
            figures = row.figures.split() or ["–"] * len(self.columns)
            yield [_cell(self, row, column, figure) for column, figure in zip(self.columns, figures, strict=True)]


@dataclasses.dataclass(frozen=True)
class Examples:
    """The translations of a test text with the highest sentence BLEU.

    Attributes:
        name, caption: see `PaperTable`.
        entry: name of the system.
        count: how many there are.
    """

    name: str
    caption: str
    entry: str
    count: int = 3


@dataclasses.dataclass(frozen=True)
class Ranking:
    """A table of all systems, the best by its first column first, which no paper has.

    Attributes:
        name, caption: see `PaperTable`.
        columns: its lines, each with a measure.
        compared: labels of the columns in which each system is compared with its own baseline.
        entries: names of the systems.
    """

    name: str
    caption: str
    columns: Sequence[Line]
    compared: tuple[str, ...]
    entries: tuple[str, ...]

    def cells(self) -> Iterator[list[Cell]]:
        """Yield the cells of each system."""
        for entry in self.entries:
            yield [_cell(self, Line(entry, entry=entry), column, "–") for column in self.columns]


# What may come of a comparison: the system is better or worse than the other, or there is no telling.
BETTER, WORSE, LEVEL = "better", "worse", "level"


@dataclasses.dataclass(frozen=True)
class Contrast:
    """Two numbers that a claim of a paper compares.

    Attributes:
        entry, other: names of the systems; the first is compared with the second.
        measure, split: see `Line`.
        other_measure, other_split: those of the other, if they are not the same.
        figures: the paper's figures for both, separated by a space, if its tables have none.
    """

    entry: str
    other: str
    measure: str = "BLEU"
    split: str = "test"
    other_measure: str = ""
    other_split: str = ""
    figures: str = ""

    def cells(self, pair: str | None = None) -> tuple[Cell, Cell]:
        """Return the cells of both numbers, of a language pair."""
        pairs = () if pair is None else (pair,)
        one = Cell("", "", self.entry, self.measure, pairs, self.split, "")
        measure, split = self.other_measure or self.measure, self.other_split or self.split
        return one, dataclasses.replace(one, entry=self.other, measure=measure, split=split)


@dataclasses.dataclass(frozen=True)
class Finding:
    """A claim of a paper that runs can confirm or contradict.

    Attributes:
        claim: what the paper says, in a sentence.
        place: where it says so.
        expected: what each comparison should come to, according to the claim: of `BETTER`, `WORSE` and `LEVEL`, one
            or several.
        contrasts: the comparisons.
        margin: how large a difference must be to count, if not that of the measure.
        share: the same as a share of the other's number; what is larger counts.
        significant: whether the claim is of significant differences alone, so that one without is none, however large.
    """

    claim: str
    place: str
    expected: tuple[str, ...]
    contrasts: Sequence[Contrast]
    margin: float = 0.0
    share: float = 0.0
    significant: bool = False


def _cell(table, row, column, figure):
    pair = row.pair or column.pair
    return Cell(
        row.title,
        column.title,
        row.entry or column.entry,
        ", ".join(filter(None, (row.measure, column.measure))),
        (pair,) if isinstance(pair, str) else pair,
        row.split or column.split or "test",
        "" if figure == "–" else figure.replace("(", " ("),
        ", ".join(filter(None, (row.text, column.text))) or getattr(table, "text", ""),
        row.setup or column.setup,
    )


# A table of a recipe.
AnyTable: TypeAlias = PaperTable | Ranking | Examples


def splits_of(tables: Sequence[AnyTable], entry: str, pair: str | None, first: str | None) -> list[str]:
    """Return the names of the scores that tables have of a system, "test" left out.

    Args:
        tables: the tables of a recipe.
        entry: name of the system.
        pair: the language pair that it is trained on, or None.
        first: the first pair of the recipe, or None.

    Example:
        >>> table = PaperTable("1", "", [Line("BLEU", split="valid", measure="BLEU")], [Line("A", entry="a")])
        >>> splits_of([table], "a", None, None)
        ['valid']
    """
    cells = [cell for cell in cells_of(tables) if cell.entry == entry and _is_of(cell, pair, first)]
    return list(dict.fromkeys(cell.split for cell in cells if cell.split != "test"))


def systems_of(tables: Sequence[AnyTable], pair: str | None, first: str | None) -> set[str]:
    """Return the names of the systems that tables have numbers of, of a language pair; see `splits_of`."""
    examples = {table.entry for table in tables if isinstance(table, Examples)}
    return examples | {cell.entry for cell in cells_of(tables) if cell.entry and _is_of(cell, pair, first)}


def measures_of(tables: Sequence[AnyTable]) -> set[str]:
    """Return the names of the measures that tables have."""
    return {cell.measure for cell in cells_of(tables)}


def cells_of(tables: Sequence[AnyTable]) -> Iterator[Cell]:
    """Return the cells of tables, row by row."""
    return (cell for table in tables if not isinstance(table, Examples) for row in table.cells() for cell in row)


def _is_of(cell, pair, first):
    """Whether a cell is of a language pair, which may be the first."""
    return pair in (cell.pairs or (first,))


def bleu_percents(tables: Sequence[AnyTable]) -> list[int]:
    """Return the percentages of the training after which tables have a BLEU, in order."""
    return sorted(int(found[1]) for name in measures_of(tables) if (found := BLEU_AFTER.fullmatch(name)))

"""A table of text, as Markdown and as LaTeX."""

import csv
import dataclasses
import io
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence

from keras_attn_zoo.support.escapes import in_csv, in_latex, in_markdown


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of cells below headings, and lines about them.

    Attributes:
        headings: of the columns.
        rows: as many cells each.
        notes: what has to be known to read it.
        missing: why there is no number of ours in each cell but the first; empty where there is one.
        text: headings of the columns that are aligned to the left, as the first one is.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    missing: Sequence[Sequence[str]] = ()
    text: Collection[str] = ()

    def shortened(self) -> "Table":
        """Return the table without rows and columns that have no number of ours: a note names them, and says why.

        Example:
            >>> table = Table(["", "a", "b"], [["x", "1", "[2]"], ["y [z]", "", "[3]"]], (), [["", "no"], ["no", "no"]])
            >>> table.shortened()
            Table(headings=['', 'a'], rows=[['x', '1']], notes=['no: y [z]; b'], missing=(), text=())
        """
        if not self.missing:
            return self
        rows = [i for i, why in enumerate(self.missing) if "" in why]
        columns = [j for j in range(len(self.headings) - 1) if any(not self.missing[i][j] for i in rows)]
        why: dict[str, list[str]] = {}
        for i, row in enumerate(self.rows):
            # One without any figure is none of the paper's.
            if i not in rows and any(row[1:]):
                why.setdefault(max(self.missing[i]), []).append(row[0])
        for j, heading in enumerate(self.headings[1:]):
            if j not in columns:
                why.setdefault(max(self.missing[i][j] for i in rows or range(len(self.rows))), []).append(heading)
        notes = [f"{reason}: {'; '.join(_grouped(titles))}" for reason, titles in why.items()]
        kept = [0, *(j + 1 for j in columns)] if rows else []
        cells = [[self.rows[i][j] for j in kept] for i in rows]
        return Table([self.headings[j] for j in kept], cells, [*self.notes, *notes])

    def markdown(self) -> str:
        """Return the table, and its notes as a list."""
        table = markdown_table(self.headings, self.rows, self.text) if self.rows else ""
        parts = [table, "\n".join(f"- {in_markdown(line)}" for line in self.notes)]
        return "\n\n".join(part for part in parts if part)

    def latex(self, caption: str) -> str:
        """Return a floating table for LaTeX, no wider than the text; the notes are a part of the caption.

        It needs the packages booktabs and graphicx.
        """
        lines = [" & ".join(map(in_latex, row)) + r" \\" for row in (self.headings, *self.rows)]
        about = ". ".join(line.rstrip(".") for line in (caption, *self.notes))
        return "\n".join(
            [
                r"\begin{table}",
                r"  \centering",
                r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{",
                rf"  \begin{{tabular}}{{{''.join('l' if at else 'r' for at in _left(self.headings, self.text))}}}",
                r"    \toprule",
                f"    {lines[0]}",
                r"    \midrule",
                *(f"    {line}" for line in lines[1:]),
                r"    \bottomrule",
                r"  \end{tabular}}",
                rf"  \caption{{{in_latex(about)}.}}",
                r"\end{table}",
            ]
        )


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]], text: Collection[str] = ()) -> str:
    """Return a Markdown table whose columns also align in plain text.

    Args:
        headings, rows: of the columns.
        text: headings of the columns that are aligned to the left, as the first one is.

    Example:
        >>> print(markdown_table(["a", "b"], [["x", "1"]]))
        | a | b |
        |---|--:|
        | x | 1 |
    """
    left = _left(headings, text)
    headings, *rows = ([in_markdown(str(cell), cell=True) for cell in line] for line in (headings, *rows))
    widths = [max(len(line[i]) for line in (headings, *rows)) for i in range(len(headings))]

    def line(cells):
        columns = zip(cells, widths, left, strict=True)
        return f"| {' | '.join(cell.ljust(width) if at else cell.rjust(width) for cell, width, at in columns)} |"

    rule = f"|{'|'.join('-' * (width + 1) + ('-' if at else ':') for width, at in zip(widths, left, strict=True))}|"
    return "\n".join([line(headings), rule, *map(line, rows)])


def _left(headings, text):
    """Whether each column is aligned to the left."""
    return [i == 0 or heading in text for i, heading in enumerate(headings)]


def _grouped(titles: Iterable[str]) -> list[str]:
    """Titles one after another; what several have in brackets, or before them, stands once."""
    found: dict[str, list[str]] = {}
    for (_, text), some in itertools.groupby(titles, lambda title: title.partition(" [")[1:]):
        found.setdefault(", ".join(one.partition(" [")[0] for one in some), []).append(text.removesuffix("]"))
    return [f"{names} [{'; '.join(texts)}]" if any(texts) else names for names, texts in found.items()]


def csv_text(lines: Sequence[Mapping[str, object]]) -> str:
    """Return lines as CSV, with a column for whatever any of them has.

    Example:
        >>> print(csv_text([{"a": 1}, {"a": 2, "b": 3}]), end="")
        a,b
        1,
        2,3
    """
    headings = list(dict.fromkeys(key for line in lines for key in line))
    text = io.StringIO()
    writer = csv.DictWriter(text, list(map(in_csv, headings)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({in_csv(key): in_csv(value) for key, value in line.items()} for line in lines)
    return text.getvalue()

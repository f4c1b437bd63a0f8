"""Titles in the tables of a paper: the text that ours is of, and in brackets what the paper has in its place."""

from collections.abc import Sequence

from keras_attn_zoo.studies.paper_cells import Runs
from keras_attn_zoo.studies.paper_tables import BLEU_AFTER, Cell, Line, PaperTable


class Headings:
    """The titles of a table: its caption, and those of its lines.

    Our texts stand in the rows if the paper's do there, else in the columns, else in the caption.

    Args:
        table: the table.
        runs: its runs.
        cells: the cells of each row; of those without a number of ours, None.
    """

    def __init__(self, table: PaperTable, runs: Runs, cells: Sequence[Sequence[Cell | None]]) -> None:
        self._table, self._runs = table, runs
        columns = list(zip(*cells, strict=True))
        named = next((lines for lines in (table.rows, table.columns) if any(line.text for line in lines)), None)
        rows = zip(table.rows, cells, strict=True)
        self.rows = [self._title(line, own, named is table.rows) for line, own in rows]
        self.columns = [
            self._title(line, own, named is table.columns) for line, own in zip(table.columns, columns, strict=True)
        ]
        self.texts = self._texts(cell for row in cells for cell in row) if named is None else []

    @property
    def caption(self) -> str:
        """What the table shows, and of which text."""
        return with_texts(self._table.caption, self.texts, self._table.text, ", on ")

    def _title(self, line: Line, cells: Sequence[Cell | None], names_texts: bool) -> str:
        """The title of a line, with the texts and the steps of our numbers in it."""
        ours = self._texts(cells) if names_texts and line.text else []
        if BLEU_AFTER.fullmatch(line.measure):
            steps = {step for cell in cells if cell is not None for step in self._runs.steps_of(cell)}
            ours += [f"{step} steps" for step in sorted(steps)]
        return with_texts(line.title, ours, ", ".join(filter(None, (line.text, line.setup))))

    def _texts(self, cells):
        return list(dict.fromkeys(name for cell in cells if cell is not None for name in self._runs.texts_in(cell)))


def with_texts(title: str, ours: Sequence[str], papers: str, separator: str = ", ") -> str:
    """Return a title with our texts, and the paper's in brackets.

    Example:
        >>> with_texts("BLEU", ["multi30k/test de→en"], "Ro→En newstest2016")
        'BLEU, multi30k/test de→en [Ro→En newstest2016]'
    """
    own = separator.join(filter(None, (title, "; ".join(ours))))
    return " ".join(filter(None, (own, f"[{papers}]" if papers else "")))

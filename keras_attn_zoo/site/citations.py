"""The papers of CITATION.cff, by what the sources of mechanisms begin with."""

import re
from pathlib import Path
from typing import NamedTuple


class Paper(NamedTuple):
    """A paper that a mechanism comes from.

    Attributes:
        title: its title.
        year: when it was published.
        several: whether it has several authors.
        url: where it can be read, or None.
    """

    title: str
    year: int
    several: bool
    url: str | None


def cited_papers(citation: Path) -> dict[str, Paper]:
    """Return the papers of a CITATION.cff by the family name of the first author, and by that and the year."""
    found: dict[str, Paper] = {}
    for reference in citation.read_text(encoding="utf-8").partition("\nreferences:\n")[2].split("  - type: ")[1:]:
        fields = dict(re.findall(r'^    (\w+): "?(.+?)"?$', reference, re.MULTILINE))
        authors = re.findall(r"^      - (?:family-names|name): (\S+)", reference, re.MULTILINE)
        paper = Paper(fields["title"], int(fields["year"]), len(authors) > 1, fields.get("url"))
        found |= dict.fromkeys((authors[0], f"{authors[0]} {paper.year}"), paper)
    return found


def named_paper(source: str) -> str:
    """Return what a source begins with: a family name, and the year if it has one.

    Example:
        >>> named_paper("Dang §2.7"), named_paper("Shazeer 2019 §3")
        ('Dang', 'Shazeer 2019')
    """
    return re.sub(r"^(\S+(?: (?:19|20)\d\d\b)?).*", r"\1", source)

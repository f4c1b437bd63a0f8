"""The papers of CITATION.cff, by the family names that the sources of mechanisms begin with."""

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
    """Return the papers of a CITATION.cff by the family name of the first author."""
    found = {}
    for reference in citation.read_text(encoding="utf-8").partition("\nreferences:\n")[2].split("  - type: ")[1:]:
        fields = dict(re.findall(r'^    (\w+): "?(.+?)"?$', reference, re.MULTILINE))
        authors = re.findall(r"^      - (?:family-names|name): (\S+)", reference, re.MULTILINE)
        found[authors[0]] = Paper(fields["title"], int(fields["year"]), len(authors) > 1, fields.get("url"))
    return found

"""The catalogue of corpora: `corpora.toml`, as records."""

import dataclasses
import difflib
import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import shown

CATALOGUE = Path(__file__).with_name("corpora.toml")
# The parts of a corpus, in the order in which tables show them.
PARTS = ("train", "valid", "test")


@dataclasses.dataclass(frozen=True)
class NamedCorpus:
    """A corpus of the catalogue; `corpora.toml` says what each attribute is.

    Attributes:
        name: its name, and that of its folder.
        title: what the text is.
        sides: the source and the target of the name: languages, or for example article and summary.
        home: the page of its publisher.
        terms: the terms of use, in short.
        task: what is learned from it, one of `runs.tasks.TASKS`.
        papers: names of the recipes whose papers use it.
        pairs: sentence pairs of the parts; 0 where unknown.
        more_tests: names of further test texts, which a folder filled by hand may lack.
        mtdata, hub: where each part, and each further test text, comes from; one of them is empty.
        sha256: checksums of the parts, one per side, where known.
    """

    name: str
    title: str
    sides: tuple[str, str]
    home: str
    terms: str
    task: str = "translation"
    papers: tuple[str, ...] = ()
    pairs: tuple[int, ...] = (0, 0, 0)
    more_tests: tuple[str, ...] = ()
    mtdata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    hub: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sha256: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)

    @property
    def library(self) -> str:
        """The library that it is downloaded with."""
        return "mtdata" if self.mtdata else "huggingface_hub"

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that its source has, in order; `all` if it is not split."""
        return tuple(part for part in ("all", *PARTS) if part in (self.mtdata or self.hub))

    @property
    def reversed_name(self) -> str | None:
        """The name for the other direction, if its sides are languages."""
        source, target = self.sides
        stem = self.name.removesuffix(f"-{source}-{target}")
        return None if stem == self.name else f"{stem}-{target}-{source}"


@functools.cache
def catalogue() -> Mapping[str, NamedCorpus]:
    """Return the corpora by name.

    Example:
        >>> catalogue()["multi30k-de-en"].sides
        ('de', 'en')
    """
    records = tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))
    return {name: NamedCorpus(name, **_with_tuples(record)) for name, record in records.items()}


def _with_tuples(record):
    return {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}


def find_corpus(name: str) -> tuple[NamedCorpus, bool]:
    """Return a corpus of the catalogue, and whether the name is that of its other direction.

    Raises:
        UserError: no corpus has this name.

    Example:
        >>> corpus, reverse = find_corpus("multi30k-en-de")
        >>> corpus.name, reverse
        ('multi30k-de-en', True)
    """
    corpora = catalogue()
    if name in corpora:
        return corpora[name], False
    other = {corpus.reversed_name: corpus for corpus in corpora.values() if corpus.reversed_name}
    if name in other:
        return other[name], True
    near = difflib.get_close_matches(name.lower(), [*corpora, *other], n=1, cutoff=0.4)
    advice = f"did you mean {near[0]}?" if near else "`attn-zoo corpora` lists them."
    raise UserError(f"there is no corpus {shown(name)}: {advice}")

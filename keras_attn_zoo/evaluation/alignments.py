"""Word alignments, and the files that hold them.

A link is a pair (j, i): source position j, target position i, both counted from
0. Files may count from 1 and may put the target first; only the functions that
read and write them need to know (`index_base`, `reverse`).
"""

import collections
import logging
import re
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from keras_attn_zoo.data.text_files import read_columns
from keras_attn_zoo.support.errors import UserError, choice
from keras_attn_zoo.support.files import PathLike, shown, write_text

_LOG = logging.getLogger(__name__)
# Source and target position.
Link: TypeAlias = tuple[int, int]
# Source words and target words.
WordPair: TypeAlias = tuple[Sequence[str], Sequence[str]]
# Formats of files, with the number of the first word; None where files of both kinds are about.
FORMATS: dict[str, int | None] = {"pharaoh": None, "talp": 1, "naacl": 1, "giza": 1, "tsv": None}
# Formats that number sentence pairs, and may leave some out.
_NUMBERED = ("naacl", "giza")
_LINK = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")
_NAACL = re.compile(r"([0-9]{1,7}) ([0-9]{1,9}) ([0-9]{1,9})(?: ([SP]))?(?: [0-9.eE+-]+)?")
_GIZA = re.compile(r"# Sentence pair \(([0-9]{1,7})\) .*")
_GIZA_WORD = re.compile(r"\S+ \(\{((?: [0-9]{1,9})*)")


@dataclass(frozen=True)
class Alignment:
    """The links of one sentence pair.

    Attributes:
        sure: frozenset of links (j, i), source position first, counted from 0.
        possible: frozenset of the links that are acceptable. Sure links are possible as well, and are added if missing.

    Example:
        >>> alignment = Alignment(sure={(0, 0)}, possible={(1, 0)})
        >>> sorted(alignment.possible)
        [(0, 0), (1, 0)]
    """

    sure: Set[Link] = field(default_factory=frozenset)
    possible: Set[Link] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        """Convert to frozensets, and add the sure links to the possible ones."""
        object.__setattr__(self, "sure", frozenset(self.sure))
        object.__setattr__(self, "possible", frozenset(self.possible) | self.sure)

    def without(self, ignore_source: Iterable[int] = (), ignore_target: Iterable[int] = ()) -> "Alignment":
        """Return a copy without the links of some words, such as the final full stop.

        Args:
            ignore_source: source positions j to leave out.
            ignore_target: target positions i to leave out.
        """
        ignore_source, ignore_target = set(ignore_source), set(ignore_target)

        def keep(links):
            return {(j, i) for j, i in links if j not in ignore_source and i not in ignore_target}

        return Alignment(keep(self.sure), keep(self.possible))

    def reverse(self) -> "Alignment":
        """Return the alignment of the other direction, links (i, j)."""
        return Alignment({(i, j) for j, i in self.sure}, {(i, j) for j, i in self.possible})


def base_of(format: str, index_base: int | None = None) -> int:
    """Return the number of the first word in a file of alignments.

    Args:
        format: one of `FORMATS`.
        index_base: 0 or 1 where the format leaves it open; None for 0 there, else for that of the format.

    Raises:
        UserError: an unknown format; another base than that of the format.

    Example:
        >>> base_of("pharaoh"), base_of("naacl")
        (0, 1)
    """
    if format not in FORMATS:
        raise UserError(f"there is no format {format!r} of alignments: {choice(str(format), FORMATS)}")
    fixed = FORMATS[format]
    if index_base not in (None, 0, 1):
        raise UserError(f"index_base must be 0 or 1; received {index_base!r}.")
    if fixed is not None and index_base not in (None, fixed):
        raise UserError(
            f"files of the format {format} count from {fixed}, not {index_base}: leave out the base, or choose pharaoh "
            "or tsv."
        )
    return index_base or fixed or 0


def _parse_link(token, index_base, reverse, place):
    match = _LINK.fullmatch(token)
    if match is None:
        raise UserError(
            f"{place}{token!r} is not a link: write sure links as 0-1, possible ones as 0p1, or choose the format: one "
            f"of {', '.join(FORMATS)}."
        )
    return _link(match[1], match[3], index_base, reverse, f"{place}{token!r}"), match[2] == "-"


def _link(left, right, index_base, reverse, place):
    left, right = int(left) - index_base, int(right) - index_base
    if left < 0 or right < 0:
        raise UserError(f"{place} has position 0, but positions were said to count from 1: check the index base.")
    return (right, left) if reverse else (left, right)


def parse_alignment(line: str, index_base: int = 0, reverse: bool = False, place: str = "") -> Alignment:
    """Read the links of one sentence pair: "0-0 1-2" sure, "2p3" possible.

    Args:
        line: links separated by white space; an empty line has none.
        index_base: 0 if positions count from 0, as in Pharaoh files; 1 if they
            count from 1, as in TALP files. The links themselves do not tell.
        reverse: whether the target position comes first ("target-source").
        place: prefix of error messages, such as "gold.txt, line 3: ".

    Returns:
        `Alignment`.

    Raises:
        UserError: a token is not a link, or 0 occurs although positions count from 1.

    Example:
        >>> sorted(parse_alignment("1-1 2p3", index_base=1).possible)
        [(0, 0), (1, 2)]
    """
    base_of("pharaoh", index_base)
    links = [_parse_link(token, index_base, reverse, place) for token in line.split()]
    return Alignment({link for link, is_sure in links if is_sure}, {link for link, _ in links})


def format_alignment(alignment: Alignment | Collection[Link], index_base: int = 0, reverse: bool = False) -> str:
    """Write the links of one sentence pair as text, sorted by source position.

    The counterpart of `parse_alignment`, with the same `index_base` and `reverse`.

    Args:
        alignment: `Alignment`, or a set of links (j, i), written as sure links.
        index_base: number of the first word, 0 or 1.
        reverse: whether the target position is written first.

    Returns:
        One line, without a line break.

    Example:
        >>> format_alignment(Alignment(sure={(0, 1)}, possible={(2, 2)}), index_base=1)
        '1-2 3p3'
    """
    base_of("pharaoh", index_base)
    return " ".join(
        f"{left}{'-' if sure else 'p'}{right}" for left, right, sure in _positions(alignment, index_base, reverse)
    )


def _positions(alignment, index_base, reverse):
    """Yield the positions of links as a file has them, and whether the links are sure."""
    links = as_alignment(alignment)
    for j, i in sorted(links.possible):
        left, right = (i, j) if reverse else (j, i)
        yield left + index_base, right + index_base, (j, i) in links.sure


def as_alignment(links: Alignment | Collection[Link]) -> Alignment:
    """Return an `Alignment`; links in a plain set are sure."""
    return links if isinstance(links, Alignment) else Alignment(sure=frozenset(links))


def read_alignments(
    path: PathLike,
    index_base: int | None = None,
    reverse: bool = False,
    lengths: Sequence[tuple[int, int]] | None = None,
    format: str = "pharaoh",
) -> list[Alignment]:
    """Read a file of alignments.

    A file that counts from 1 but is read as one that counts from 0 looks like any
    other; with `lengths`, links that point past the last word are detected.

    The formats, and what a sentence pair has there:

        pharaoh   a line of links, `0-1` sure and `0p1` possible, counted from 0 unless `index_base` is 1
        talp      the same, counted from 1
        tsv       an id of any kind, a tab, and the links as in pharaoh
        naacl     a line `ID SOURCE TARGET` for each link, with S (the default) or P and a confidence after it, counted
                  from 1; the position 0 is no word
        giza      the three lines of GIZA++'s `A3.final`; the last one has the words of our source

    The last two number sentence pairs, from 1. Those that are left out have no links.

    Args:
        path: the file, plain or compressed; see `data.text_files.read_lines`.
        index_base: number of the first word; None for that of the format.
        reverse: whether the target position comes first.
        lengths: numbers of words `[(source, target), ...]`, one pair per sentence pair, to check
            the positions against; None for no check.
        format: one of `FORMATS`.

    Returns:
        List of `Alignment`, one per sentence pair.

    Raises:
        UserError: the file cannot be read, or is not in this format; a link points outside
            the sentence; the file does not have as many sentence pairs as `lengths`.

    Example:
        >>> write_alignments("gold.talp", [Alignment(sure={(0, 1)})], format="talp")
        >>> read_alignments("gold.talp", format="talp")[0].sure
        frozenset({(0, 1)})
    """
    base = base_of(format, index_base)
    rows = enumerate(read_columns(path), 1)
    unit = "sentence pair" if format in _NUMBERED else "line"
    if format in _NUMBERED:
        read = _read_naacl if format == "naacl" else _read_giza
        alignments = _in_order(read(rows, reverse, path), path, None if lengths is None else len(lengths))
    else:
        alignments = [_read_line(row, format, base, reverse, f"{path}, line {number}: ") for number, row in rows]
        if lengths is not None and len(alignments) != len(lengths):
            raise UserError(
                f"{path} has {len(alignments)} lines, but there are {len(lengths)} sentence pairs: give one line per "
                "pair."
            )
    for number, (alignment, of_pair) in enumerate(zip(alignments, lengths or (), strict=False), 1):
        check_inside(alignment, of_pair, f"{path}, {unit} {number}: ", base, reverse)
    return alignments


def check_inside(
    alignment: Alignment, lengths: tuple[int, int], place: str = "", index_base: int = 0, reverse: bool = False
) -> None:
    """Raise if a link points past the last word of a sentence pair.

    Args:
        alignment: its links.
        lengths: how many words source and target have.
        place, index_base, reverse: what the message says of the file, see `parse_alignment`.

    Raises:
        UserError: names the link.

    Example:
        >>> check_inside(Alignment({(0, 1)}), (1, 2))
    """
    source, target = lengths
    outside = {(j, i) for j, i in alignment.possible if j >= source or i >= target}
    if outside:
        token = format_alignment(outside, index_base, reverse).split()[0]
        raise UserError(
            f"{place}link {token} points past the last word of {source} source and {target} target words (counted "
            f"from {index_base}, {'target' if reverse else 'source'} first): check the format, the index base and the "
            "direction."
        )


def lowest_position(alignments: Iterable[Alignment]) -> int:
    """Return the lowest position that is linked in a file; 0 if none is.

    Example:
        >>> lowest_position([Alignment({(2, 1)}), Alignment()])
        1
    """
    return min((min(link) for one in alignments for link in one.possible), default=0)


def tell_base(path: PathLike, lowest: int, option: str) -> None:
    """Say that positions were taken to count from 0 where no link tells, as none is the lowest: `option` says it."""
    if lowest > 0:
        text = "%s: read as counted from 0, although no position is 0: if words are counted from 1, give %s 1"
        _LOG.info(text, shown(path), option)


def _read_line(row, format, index_base, reverse, place):
    if format == "tsv":
        if len(row) < 2:
            raise UserError(f"{place}there is no tab: write an id, a tab and the links, or choose another format.")
        row = row[1:]
    return parse_alignment(" ".join(row), index_base, reverse, place)


def _read_naacl(rows, reverse, path):
    """Yield number, place and links of each line."""
    for line, row in rows:
        text, place = " ".join(row), f"{path}, line {line}: "
        if not text:
            continue
        match = _NAACL.fullmatch(text)
        if match is None:
            raise UserError(f"{place}{text[:40]!r} is not a link of this format: write ID SOURCE TARGET S, or P.")
        link = {_link(match[2], match[3], 1, reverse, place)} if int(match[2]) and int(match[3]) else set()
        yield int(match[1]), place, Alignment(set() if match[4] == "P" else link, link)


def _read_giza(rows, reverse, path):
    """Yield number, place and links of each sentence pair."""
    for line, row in rows:
        place = f"{path}, line {line}: "
        match = _GIZA.fullmatch(" ".join(row))
        if match is None:
            raise UserError(f"{place}expected '# Sentence pair (1) ...' of GIZA++, then its words and links.")
        # The words of GIZA's target need not be known.
        next(rows, None)
        line, row = next(rows, (line + 2, []))
        *words, rest = f"{' '.join(row)} ".split(" }) ")
        links = [_GIZA_WORD.fullmatch(word) for word in words]
        if rest or not words or not words[0].startswith("NULL ({") or None in links:
            raise UserError(f"{path}, line {line}: expected 'NULL ({{ }}) word ({{ 1 }}) ...', the links of GIZA++.")
        yield (
            int(match[1]),
            place,
            Alignment(
                {
                    _link(j, i, 1, reverse, f"{path}, line {line}: a word")
                    for j, found in enumerate(links)
                    if found and j > 0
                    for i in found[1].split()
                }
            ),
        )


def _in_order(found, path, count):
    """Return the links of numbered sentence pairs, as many as there are, or up to the last that has any."""
    sure: dict[int, set[Link]] = collections.defaultdict(set)
    possible: dict[int, set[Link]] = collections.defaultdict(set)
    last = count or 0
    for number, place, links in found:
        if number == 0 or (count is not None and number > count):
            raise UserError(
                f"{place}there is no sentence pair {number}: count from 1{f' to {count}' if count is not None else ''}."
            )
        last = max(last, number)
        sure[number] |= links.sure
        possible[number] |= links.possible
    # One for all without links, of which a number that is wrong makes many.
    alignments = [Alignment()] * last
    for number, links in possible.items():
        alignments[number - 1] = Alignment(sure[number], links)
    return alignments


def format_alignments(
    alignments: Sequence[Alignment | Collection[Link]],
    index_base: int | None = None,
    reverse: bool = False,
    format: str = "pharaoh",
    pairs: Sequence[WordPair] | None = None,
) -> str:
    """Write alignments as the text of a file, as `write_alignments` does.

    Args:
        alignments: list of `Alignment` or of sets of links (j, i).
        index_base, reverse, format: see `read_alignments`.
        pairs: `(source words, target words)` of each sentence pair; the format giza has them too.

    Raises:
        UserError: the format is unknown, or cannot hold these links: giza without words, or with links that are merely
            possible.

    Example:
        >>> format_alignments([{(0, 0)}, {(1, 0), (0, 1)}], format="naacl")
        '1 1 1 S\\n2 1 2 S\\n2 2 1 S\\n'
    """
    base = base_of(format, index_base)
    words: Sequence[WordPair | None] = [None] * len(alignments) if pairs is None else pairs
    if format == "giza" and pairs is None:
        raise UserError("the format giza holds the words too: give the text.")
    if len(words) != len(alignments):
        raise UserError(f"there are {len(alignments)} alignments but {len(words)} sentence pairs: give one of each.")
    return "".join(
        f"{line}\n"
        for number, (alignment, pair) in enumerate(zip(alignments, words, strict=True), 1)
        for line in _lines(number, alignment, pair, base, reverse, format)
    )


def _lines(number, alignment, pair, index_base, reverse, format):
    """Yield the lines of one sentence pair."""
    if format == "giza":
        yield from _giza_lines(number, alignment, pair, reverse)
    elif format == "naacl":
        for left, right, sure in _positions(alignment, index_base, reverse):
            yield f"{number} {left} {right} {'S' if sure else 'P'}"
    else:
        yield f"{number}\t" * (format == "tsv") + format_alignment(alignment, index_base, reverse)


def _giza_lines(number, alignment, pair, reverse):
    first, second = reversed(pair) if reverse else pair
    places: list[list[str]] = [[] for _ in range(len(first) + 1)]
    for left, right, sure in _positions(alignment, 1, reverse):
        if not sure:
            raise UserError(f"sentence pair {number}: the format giza has no links that are merely possible.")
        if left > len(first) or right > len(second):
            raise UserError(f"sentence pair {number}: the link {left}-{right} points past the last word.")
        places[left].append(f"{right} ")
    yield f"# Sentence pair ({number}) source length {len(first)} target length {len(second)} alignment score : 1"
    yield " ".join(second)
    yield " ".join(f"{word} ({{ {''.join(at)}}})" for word, at in zip(["NULL", *first], places, strict=True))


def write_alignments(
    path: PathLike,
    alignments: Sequence[Alignment | Collection[Link]],
    index_base: int | None = None,
    reverse: bool = False,
    format: str = "pharaoh",
    pairs: Sequence[WordPair] | None = None,
) -> None:
    """Write alignments to a file.

    Args:
        path: the file; written completely or not at all.
        alignments, index_base, reverse, format, pairs: see `format_alignments`.

    Raises:
        UserError: the file cannot be written; see `format_alignments`.

    Example:
        >>> write_alignments("hypotheses.align", [{(0, 0), (1, 1)}, set()])
    """
    write_text(path, format_alignments(alignments, index_base, reverse, format, pairs))

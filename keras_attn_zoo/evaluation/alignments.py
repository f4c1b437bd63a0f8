"""Word alignments: reading, writing and scoring them.

A link is a pair (j, i): source position j, target position i, both counted from
0. Files may count from 1 and may put the target first; only the functions that
read and write them need to know (`index_base`, `reverse`).
"""

import re
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from keras_attn_zoo.data.text_files import read_lines
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, write_text

# Source and target position.
Link: TypeAlias = tuple[int, int]
_LINK = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")


@dataclass(frozen=True)
class Alignment:
    """The links of one sentence pair.

    Attributes:
        sure: frozenset of links (j, i), source position first, counted from 0.
        possible: frozenset of the links that are acceptable. Sure links are
            possible as well, and are added if missing.

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


@dataclass(frozen=True)
class AlignmentScores:
    """Alignment quality over a corpus, from 0 to 1.

    Attributes:
        aer: alignment error rate; lower is better.
        precision: share of predicted links that are possible.
        recall: share of sure links that were predicted.
        links: number of predicted links, |A|.
        sure: number of sure gold links, |S|.
        possible: number of possible gold links, the sure ones included, |P|.
        sentences: number of sentence pairs.
    """

    aer: float
    precision: float
    recall: float
    links: int
    sure: int
    possible: int
    sentences: int

    def __str__(self) -> str:
        """All figures in one line, with what was compared."""
        return (
            f"AER {100 * self.aer:.1f} %, precision {100 * self.precision:.1f} %, "
            f"recall {100 * self.recall:.1f} %: {self.links} links against {self.sure} sure and "
            f"{self.possible} possible ones (sure included) in {self.sentences} sentence pairs; "
            "links compared as (source, target), whatever the index base of the files"
        )


def _check_index_base(index_base):
    if index_base not in (0, 1):
        raise UserError(f"index_base must be 0 or 1; received {index_base!r}.")


def _parse_link(token, index_base, reverse, place):
    match = _LINK.fullmatch(token)
    if match is None:
        raise UserError(f"{place}{token!r} is not a link: write sure links as 0-1, possible ones as 0p1.")
    left, right = int(match[1]) - index_base, int(match[3]) - index_base
    if left < 0 or right < 0:
        text = f"{place}{token!r} has position 0, but positions were said to count from 1:"
        raise UserError(f"{text} set index_base=0.", f"{text} leave --index-base 1 out.")
    return ((right, left) if reverse else (left, right)), match[2] == "-"


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
    _check_index_base(index_base)
    links = [_parse_link(token, index_base, reverse, place) for token in line.split()]
    return Alignment({link for link, is_sure in links if is_sure}, {link for link, _ in links})


def format_alignment(alignment: Alignment | Collection[Link], index_base: int = 0, reverse: bool = False) -> str:
    """Write the links of one sentence pair as text, sorted by source position.

    The counterpart of `parse_alignment`, with the same `index_base` and
    `reverse`.

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
    _check_index_base(index_base)
    links = _as_alignment(alignment)
    tokens = []
    for j, i in sorted(links.possible):
        left, right = (i, j) if reverse else (j, i)
        mark = "-" if (j, i) in links.sure else "p"
        tokens.append(f"{left + index_base}{mark}{right + index_base}")
    return " ".join(tokens)


def _as_alignment(links):
    return links if isinstance(links, Alignment) else Alignment(sure=frozenset(links))


def read_alignments(
    path: PathLike,
    index_base: int = 0,
    reverse: bool = False,
    lengths: Sequence[tuple[int, int]] | None = None,
) -> list[Alignment]:
    """Read a file of alignments, one sentence pair per line.

    A file that counts from 1 but is read with `index_base=0` looks like any
    other; with `lengths`, links that point past the last word are detected.

    Args:
        path: the file, plain or compressed; see `data.text_files.read_lines`.
        index_base, reverse: as for `parse_alignment`.
        lengths: numbers of words `[(source, target), ...]`, one pair per line, to check the
            positions against; None for no check.

    Returns:
        List of `Alignment`, one per line; an empty line has no links.

    Raises:
        UserError: the file cannot be read; a token is not a link, or points outside
            the sentence; the file does not have as many lines as `lengths`.

    Example:
        >>> write_alignments("gold.talp", [Alignment(sure={(0, 1)})], index_base=1)
        >>> read_alignments("gold.talp", index_base=1)[0].sure
        frozenset({(0, 1)})
    """
    alignments = [
        parse_alignment(line, index_base, reverse, place=f"{path}, line {number}: ")
        for number, line in enumerate(read_lines(path), 1)
    ]
    if lengths is not None:
        _check_lengths(alignments, lengths, path, index_base, reverse)
    return alignments


def _check_lengths(alignments, lengths, path, index_base, reverse):
    if len(alignments) != len(lengths):
        raise UserError(
            f"{path} has {len(alignments)} lines, but there are {len(lengths)} sentence pairs: give one line per pair."
        )
    for number, (alignment, (source, target)) in enumerate(zip(alignments, lengths, strict=True), 1):
        outside = {(j, i) for j, i in alignment.possible if j >= source or i >= target}
        if outside:
            token = format_alignment(outside, index_base, reverse).split()[0]
            place = f"{path}, line {number}: link {token} points past the last word of {source} source and {target} "
            raise UserError(
                f"{place}target words (index_base={index_base}, reverse={reverse}): check both.",
                f"{place}target words (counted from {index_base}, {'target' if reverse else 'source'} first): check "
                "--index-base and --gold-reverse.",
            )


def write_alignments(
    path: PathLike,
    alignments: Iterable[Alignment | Collection[Link]],
    index_base: int = 0,
    reverse: bool = False,
) -> None:
    """Write alignments to a file, one sentence pair per line.

    Args:
        path: the file; written completely or not at all.
        alignments: list of `Alignment` or of sets of links (j, i).
        index_base, reverse: as for `format_alignment`.

    Raises:
        UserError: the file cannot be written.

    Example:
        >>> write_alignments("hypotheses.align", [{(0, 0), (1, 1)}, set()])
    """
    write_text(path, "".join(format_alignment(a, index_base, reverse) + "\n" for a in alignments))


def alignment_scores(
    predicted: Sequence[Alignment | Collection[Link]], gold: Sequence[Alignment | Collection[Link]]
) -> AlignmentScores:
    """Score predicted alignments against gold ones, over the whole corpus.

    With A the predicted links, S the sure and P the possible gold links (S ⊆ P),
    each counted over all sentence pairs:

        precision = |A ∩ P| / |A|
        recall    = |A ∩ S| / |S|
        AER       = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

    Without predicted links precision is 1, and AER is 1 if there are sure links.
    Without sure links recall is 1, and AER is 1 - precision. If there are
    neither, AER is 0.

    Args:
        predicted: list of sets of links (j, i), or of `Alignment`, whose possible
            links all count.
        gold: list of `Alignment`, of the same length; in a plain set, all links are sure.

    Returns:
        `AlignmentScores`.

    Raises:
        UserError: no sentence pairs, or unequal numbers of them.

    Example:
        >>> gold = [Alignment(sure={(0, 0)}, possible={(1, 1)})]
        >>> alignment_scores([{(0, 0), (1, 1), (2, 1)}], gold).aer
        0.25
    """
    counts = _counts(predicted, gold)
    if not counts:
        raise UserError("there are no alignments to score: give at least one sentence pair.")
    links, sure, possible, links_sure, links_possible = (sum(column) for column in zip(*counts, strict=True))
    return AlignmentScores(
        aer=1.0 - (links_sure + links_possible) / (links + sure) if links + sure else 0.0,
        precision=links_possible / links if links else 1.0,
        recall=links_sure / sure if sure else 1.0,
        links=links,
        sure=sure,
        possible=possible,
        sentences=len(gold),
    )


def aer_sums(
    predicted: Sequence[Alignment | Collection[Link]], gold: Sequence[Alignment | Collection[Link]]
) -> list[list[float]]:
    """Return what the alignment error rate is a ratio of, sentence by sentence, for `resampled_scores`.

    Args:
        predicted, gold: see `alignment_scores`.

    Returns:
        the numerators |A| + |S| - |A ∩ S| - |A ∩ P| of all sentences, and their denominators |A| + |S|.

    Raises:
        UserError: unequal numbers of sentence pairs.

    Example:
        >>> aer_sums([{(0, 0), (2, 1)}], [Alignment(sure={(0, 0)}, possible={(1, 1)})])
        [[1.0], [3.0]]
    """
    counts = _counts(predicted, gold)
    wrong = [float(links + sure - both_sure - both) for links, sure, _, both_sure, both in counts]
    return [wrong, [float(links + sure) for links, sure, *_ in counts]]


def _counts(predicted, gold):
    """|A|, |S|, |P|, |A ∩ S| and |A ∩ P| of every sentence pair."""
    if len(predicted) != len(gold):
        raise UserError(
            f"there are {len(predicted)} predicted but {len(gold)} gold alignments: give one of each per sentence pair."
        )
    found = []
    for prediction, reference in zip(predicted, gold, strict=True):
        links, wanted = _as_alignment(prediction).possible, _as_alignment(reference)
        both = len(links & wanted.sure), len(links & wanted.possible)
        found.append((len(links), len(wanted.sure), len(wanted.possible), *both))
    return found

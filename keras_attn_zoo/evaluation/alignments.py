"""Word alignments: reading, writing, scoring, and reading them off attention weights.

A link is a pair (j, i): source position j, target position i, both counted from
0. Files may count from 1 and may put the target first; that is said at reading
and writing (`index_base`, `reverse`) and nowhere else.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.files import check_file, shown, write_text

_LINK = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")


@dataclass(frozen=True)
class Alignment:
    """The links of one sentence pair.

    Attributes:
        sure: frozenset of links (j, i), source position first, counted from 0.
        possible: frozenset of the links that are not wrong. Sure links are
            possible ones too: they are added where they were left out.

    Example:
        >>> alignment = Alignment(sure={(0, 0)}, possible={(1, 0)})
        >>> sorted(alignment.possible)
        [(0, 0), (1, 0)]
    """

    sure: frozenset = field(default_factory=frozenset)
    possible: frozenset = field(default_factory=frozenset)

    def __post_init__(self):
        """Take any collections, and make sure links possible ones."""
        object.__setattr__(self, "sure", frozenset(self.sure))
        object.__setattr__(self, "possible", frozenset(self.possible) | self.sure)

    def without(self, ignore_source=(), ignore_target=()):
        """A copy without the links of some words, such as the final full stop.

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

    def __str__(self):
        """All figures in one line, with what was compared."""
        return (
            f"AER {100 * self.aer:.1f} %, precision {100 * self.precision:.1f} %, "
            f"recall {100 * self.recall:.1f} %: {self.links} links against {self.sure} sure and "
            f"{self.possible} possible ones (sure included) in {self.sentences} sentence pairs; "
            "links compared as (source, target), whatever the index base of the files"
        )


def _check_index_base(index_base):
    if index_base not in (0, 1):
        raise UserError(f"index_base is {index_base!r}: positions count from 0 or from 1.")


def _parse_link(token, index_base, reverse, place):
    match = _LINK.fullmatch(token)
    if match is None:
        raise UserError(f"{place}{token!r} is no link: write sure links as 0-1, possible ones as 0p1.")
    left, right = int(match[1]) - index_base, int(match[3]) - index_base
    if left < 0 or right < 0:
        raise UserError(f"{place}{token!r} has position 0 where positions count from 1: use index_base=0.")
    return ((right, left) if reverse else (left, right)), match[2] == "-"


def parse_alignment(line, index_base=0, reverse=False, place=""):
    """Read the links of one sentence pair: "0-0 1-2" sure, "2p3" possible.

    Args:
        line: links separated by white space; an empty line has none.
        index_base: 0 where positions count from 0, as in Pharaoh files; 1 where they
            count from 1, as in TALP files. It cannot be told from the links.
        reverse: set it where the target position stands first ("target-source").
        place: what an error message starts with, such as "gold.txt, line 3: ".

    Returns:
        `Alignment`.

    Raises:
        UserError: a token is no link, or 0 occurs where positions count from 1.

    Example:
        >>> sorted(parse_alignment("1-1 2p3", index_base=1).possible)
        [(0, 0), (1, 2)]
    """
    _check_index_base(index_base)
    links = [_parse_link(token, index_base, reverse, place) for token in line.split()]
    return Alignment({link for link, is_sure in links if is_sure}, {link for link, _ in links})


def format_alignment(alignment, index_base=0, reverse=False):
    """Write the links of one sentence pair as text, sorted by the source position.

    The counterpart of `parse_alignment`, with the same `index_base` and
    `reverse`.

    Args:
        alignment: `Alignment`, or a set of links (j, i), which are written as sure ones.
        index_base: what the first word is counted as, 0 or 1.
        reverse: whether the target position is written first.

    Returns:
        One line without its end.

    Example:
        >>> format_alignment(Alignment(sure={(0, 1)}, possible={(2, 2)}), index_base=1)
        '1-2 3p3'
    """
    _check_index_base(index_base)
    alignment = _as_alignment(alignment)
    tokens = []
    for j, i in sorted(alignment.possible):
        left, right = (i, j) if reverse else (j, i)
        mark = "-" if (j, i) in alignment.sure else "p"
        tokens.append(f"{left + index_base}{mark}{right + index_base}")
    return " ".join(tokens)


def _as_alignment(links):
    return links if isinstance(links, Alignment) else Alignment(sure=frozenset(links))


def _read_lines(path):
    check_file(path, streams=True)
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            return list(file)
    except OSError as error:
        raise UserError(f"cannot read {shown(path)}: {error.strerror}. Check the path.") from None
    except UnicodeDecodeError:
        raise UserError(f"{shown(path)} is not UTF-8 text: give a file of alignments such as '0-0 1-2'.") from None


def read_alignments(path, index_base=0, reverse=False, lengths=None):
    """Read a file of alignments, one sentence pair a line.

    A file that counts from 1 but is read with `index_base=0` looks like any
    other; give `lengths`, and links that point behind the last word are found.

    Args:
        path: the file.
        index_base, reverse: as for `parse_alignment`.
        lengths: numbers of words `[(source, target), ...]`, one pair a line, to check the
            positions against; None checks nothing.

    Returns:
        List of `Alignment`, one a line; an empty line gives one without links.

    Raises:
        UserError: the file cannot be read; a token is no link or points outside
            the sentence (with file, line and token); `lengths` has another length.

    Example:
        >>> write_alignments("gold.talp", [Alignment(sure={(0, 1)})], index_base=1)
        >>> read_alignments("gold.talp", index_base=1)[0].sure
        frozenset({(0, 1)})
    """
    lines = _read_lines(path)
    alignments = [
        parse_alignment(line, index_base, reverse, place=f"{path}, line {number}: ")
        for number, line in enumerate(lines, 1)
    ]
    if lengths is not None:
        _check_lengths(alignments, lengths, path, index_base, reverse)
    return alignments


def _check_lengths(alignments, lengths, path, index_base, reverse):
    if len(alignments) != len(lengths):
        raise UserError(
            f"{path} has {len(alignments)} lines, but there are {len(lengths)} sentence pairs: "
            "give one line for each pair."
        )
    for number, (alignment, (source, target)) in enumerate(zip(alignments, lengths, strict=True), 1):
        outside = {(j, i) for j, i in alignment.possible if j >= source or i >= target}
        if outside:
            token = format_alignment(outside, index_base, reverse).split()[0]
            raise UserError(
                f"{path}, line {number}: link {token} points behind the last word of {source} source and "
                f"{target} target words (index_base={index_base}, reverse={reverse}): check both."
            )


def write_alignments(path, alignments, index_base=0, reverse=False):
    """Write alignments to a file, one sentence pair a line.

    Args:
        path: the file; it is whole or absent.
        alignments: list of `Alignment` or of sets of links (j, i).
        index_base, reverse: as for `format_alignment`.

    Raises:
        UserError: the file cannot be written.

    Example:
        >>> write_alignments("hypotheses.align", [{(0, 0), (1, 1)}, set()])
    """
    write_text(path, "".join(format_alignment(a, index_base, reverse) + "\n" for a in alignments))


def alignment_scores(predicted, gold):
    """Score predicted alignments against gold ones, over the whole corpus.

    With A the predicted links, S the sure and P the possible gold links (S ⊆ P),
    each counted over all sentence pairs:

        precision = |A ∩ P| / |A|
        recall    = |A ∩ S| / |S|
        AER       = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

    Nothing predicted makes no wrong link: precision is 1, and AER is 1 if there
    are sure links to be found. Where there are no sure links none is missed:
    recall is 1, and AER is 1 - precision. Where both are empty AER is 0.

    Args:
        predicted: list of sets of links (j, i), or of `Alignment`, of which all
            possible links count.
        gold: list of `Alignment`, as long; of a plain set all links are sure.

    Returns:
        `AlignmentScores`.

    Raises:
        UserError: no sentence pair, or unequal numbers of them.

    Example:
        >>> gold = [Alignment(sure={(0, 0)}, possible={(1, 1)})]
        >>> alignment_scores([{(0, 0), (1, 1), (2, 1)}], gold).aer
        0.25
    """
    if len(predicted) != len(gold):
        raise UserError(
            f"there are {len(predicted)} predicted but {len(gold)} gold alignments: "
            "give one of each for every sentence pair."
        )
    if not gold:
        raise UserError("there are no alignments to score: give at least one sentence pair.")
    links = sure = possible = links_sure = links_possible = 0
    for prediction, reference in zip(predicted, gold, strict=True):
        found, reference = _as_alignment(prediction).possible, _as_alignment(reference)
        links += len(found)
        sure += len(reference.sure)
        possible += len(reference.possible)
        links_sure += len(found & reference.sure)
        links_possible += len(found & reference.possible)
    return AlignmentScores(
        aer=1.0 - (links_sure + links_possible) / (links + sure) if links + sure else 0.0,
        precision=links_possible / links if links else 1.0,
        recall=links_sure / sure if sure else 1.0,
        links=links,
        sure=sure,
        possible=possible,
        sentences=len(gold),
    )


def _checked_matrix(weights):
    weights = np.asarray(weights, "float64")
    if weights.ndim != 2:
        raise UserError(
            f"attention weights of shape {weights.shape}: give those of one sentence pair, (target, source)."
        )
    if not np.isfinite(weights).all():
        raise UserError(f"attention weights of shape {weights.shape} hold NaN or infinite values: check the model.")
    return weights


def _membership(groups, pieces, side):
    """0/1 matrix `(pieces, words)` of which piece belongs to which word."""
    groups = np.asarray(groups)
    if groups.shape != (pieces,) or (pieces and not np.issubdtype(groups.dtype, np.integer)):
        raise UserError(
            f"{side} groups of shape {groups.shape} and type {groups.dtype} for {pieces} {side} pieces: "
            "give the word index of each piece as an integer."
        )
    if (groups < -1).any():
        raise UserError(f"{side} groups hold {groups.min()}: give word indices from 0, or -1 to drop a piece.")
    words = groups.max(initial=-1) + 1
    return (groups[:, None] == np.arange(words)).astype("float64")


def merge_subwords(attention, source_groups, target_groups, source_reduction="mean"):
    """Merge attention between pieces of words into attention between words.

    By default each word pair gets the average over all its pairs of pieces, as
    Bahar averages over all tokens of a word (section 7.3). A word in n pieces
    then counts as one n-th of what it received together, and rows no longer
    sum to one. `source_reduction="sum"` adds up the source pieces instead and
    averages over target pieces only: rows keep their sum, as a picture wants.

        mean: β_wv = 1/(|w| |v|) Σ_{i in w} Σ_{j in v} α_ij
        sum:  β_wv = 1/|w|       Σ_{i in w} Σ_{j in v} α_ij

    with w a target word, v a source word and their pieces.

    Args:
        attention: `(target pieces, source pieces)`.
        source_groups: for each source piece the index of its word, from 0; -1 drops the
            piece (end of sentence, padding).
        target_groups: the same for the target pieces.
        source_reduction: "mean" or "sum" over the pieces of a source word.

    Returns:
        float64 array `(target words, source words)`; as many words as the largest index
        says. A word without pieces has zeros.

    Raises:
        UserError: shapes do not agree, a group is below -1, a weight is not finite.

    Example:
        >>> merge_subwords([[0.6, 0.2, 0.2], [0.2, 0.4, 0.4]], [0, 0, 1], [0, 0]).round(2).tolist()
        [[0.35, 0.3]]
    """
    attention = _checked_matrix(attention)
    if source_reduction not in ("mean", "sum"):
        raise UserError(f"source_reduction is {source_reduction!r}: choose 'mean' or 'sum'.")
    source = _membership(source_groups, attention.shape[1], "source")
    target = _membership(target_groups, attention.shape[0], "target")
    # A word without pieces divides 0 by 1.
    target_sizes = np.maximum(target.sum(0), 1)
    source_sizes = np.maximum(source.sum(0), 1) if source_reduction == "mean" else 1
    return target.T @ attention @ source / target_sizes[:, None] / source_sizes


def _kept(length, ignored, side):
    kept = np.ones(length, bool)
    for position in ignored:
        if not 0 <= position < length:
            raise UserError(f"ignored {side} position {position} is outside the {length} {side} words: count from 0.")
        kept[position] = False
    return kept


def extract_alignment(weights, method="argmax", threshold=None, ignore_source=(), ignore_target=()):
    """Read an alignment off word-level attention weights.

    "argmax" links every target word to the source word with the largest weight
    (the first of equals); "threshold" makes a link of every weight that is at
    least `threshold`, so that a target word may have several links or none.

    Positions that are ignored get no link. Under "argmax" a target word that
    attends most to an ignored source word takes the best one of the others, so
    that weight parked on the end of sentence or the full stop does not hide
    the alignment. Leave the same positions out of the gold links with
    `Alignment.without`.

    Args:
        weights: `(target, source)`, as from `merge_subwords`.
        method: "argmax" or "threshold".
        threshold: smallest weight of a link, for "threshold" only.
        ignore_source: source positions j to leave out.
        ignore_target: target positions i to leave out.

    Returns:
        Set of links (j, i), source position first. A target word without positive weight has none.

    Raises:
        UserError: the weights are not a finite matrix, an ignored position is outside the
            sentence, the method is unknown or its threshold missing.

    Example:
        >>> sorted(extract_alignment([[0.1, 0.9], [0.8, 0.2]]))
        [(0, 1), (1, 0)]
    """
    weights = _checked_matrix(weights)
    if method not in ("argmax", "threshold"):
        raise UserError(f"method is {method!r}: choose 'argmax' or 'threshold'.")
    if (method == "threshold") != (threshold is not None):
        raise UserError(f"method={method!r} with threshold={threshold}: 'threshold' needs one, 'argmax' takes none.")
    targets, sources = weights.shape
    kept = np.outer(_kept(targets, ignore_target, "target"), _kept(sources, ignore_source, "source"))
    weights = np.where(kept, weights, 0.0)
    chosen = weights > 0
    if method == "threshold":
        chosen &= weights >= threshold
    elif sources:
        chosen &= np.arange(sources) == weights.argmax(axis=1)[:, None]
    return {(int(j), int(i)) for i, j in np.argwhere(chosen)}

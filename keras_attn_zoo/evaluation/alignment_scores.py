"""Scores of word alignments against gold ones: alignment error rate, precision, recall."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from keras_attn_zoo.evaluation.alignments import Alignment, Link, as_alignment
from keras_attn_zoo.support.errors import UserError, counted


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
            f"{self.possible} possible ones (sure included) in {counted(self.sentences, 'sentence pair')}; "
            "links compared as (source, target), whatever the index base of the files"
        )


def alignment_scores(
    predicted: Sequence[Alignment | Collection[Link]], gold: Sequence[Alignment | Collection[Link]]
) -> AlignmentScores:
    """Score predicted alignments against gold ones, over the whole corpus.

    With A the predicted links, S the sure and P the possible gold links (S ⊆ P), each counted over all sentence pairs:

        precision = |A ∩ P| / |A|
        recall    = |A ∩ S| / |S|
        AER       = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

    Without predicted links precision is 1, and AER is 1 if there are sure links. Without sure links recall is 1, and
    AER is 1 - precision. If there are neither, AER is 0.

    Args:
        predicted: list of sets of links (j, i), or of `Alignment`, whose possible links all count.
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
        links, wanted = as_alignment(prediction).possible, as_alignment(reference)
        both = len(links & wanted.sure), len(links & wanted.possible)
        found.append((len(links), len(wanted.sure), len(wanted.possible), *both))
    return found

"""Symmetrisation: one alignment from those of both directions."""

from collections.abc import Collection

from keras_attn_zoo.evaluation.alignments import Link
from keras_attn_zoo.support.errors import UserError, choice

SYMMETRIZATIONS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")
# In the order in which Moses tries them: first those beside a link, then those across.
_NEIGHBORS = ((0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1))


def symmetrize(forward: Collection[Link], reverse: Collection[Link], method: str = "grow-diag-final-and") -> set[Link]:
    """Return one alignment of a sentence pair, from those of both directions.

    Use it where a model links each target word to at most one source word: turned around, it finds the other kind of
    links, and what both agree on is more often right.

        intersection          F ∩ R: the highest precision
        union                 F ∪ R: the highest recall
        grow-diag             F ∩ R, then, while there are any, links of F ∪ R beside or across a link, of which one
                              word has no link yet
        grow-diag-final       then links of F, and then of R, of which one word has no link yet
        grow-diag-final-and   as grow-diag-final, but neither word may have a link

    As links that are added change which others can be, their order counts. It is that of Moses' symal: links are
    visited by target position, then by source position, again and again until none was added; one that was added is
    visited in the same round if its turn is still to come. fast_align's atools asks each candidate, in the order of
    source positions, whether it is next to a link, which gives other links where candidates compete.

    Args:
        forward: F, the links (j, i) of the direction in which a target word has at most one.
        reverse: R, those of the other direction, with the source position first too.
        method: one of `SYMMETRIZATIONS`.

    Returns:
        A set of links (j, i).

    Raises:
        UserError: the method is unknown.

    Example:
        >>> sorted(symmetrize({(0, 0), (1, 1), (5, 2)}, {(0, 0), (1, 1), (2, 1)}, "grow-diag"))
        [(0, 0), (1, 1), (2, 1)]

    Source: Koehn, Och and Marcu, "Statistical Phrase-Based Translation" (2003), Section 3; Och and Ney, "A Systematic
    Comparison of Various Statistical Alignment Models" (2003), Section 5.
    """
    if method not in SYMMETRIZATIONS:
        raise UserError(f"there is no symmetrisation {method!r}: {choice(str(method), SYMMETRIZATIONS)}")
    forward, reverse = set(forward), set(reverse)
    if method == "union":
        return forward | reverse
    links = forward & reverse
    if method == "intersection":
        return links
    sources, targets = {j for j, _ in links}, {i for _, i in links}

    def add(link):
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    union, size = _ordered(forward | reverse), -1
    candidates = set(union)
    while size < len(links):
        size = len(links)
        for link in union:
            if link not in links:
                continue
            for dj, di in _NEIGHBORS:
                j, i = near = link[0] + dj, link[1] + di
                if near in candidates and not (j in sources and i in targets):
                    add(near)
    if method != "grow-diag":
        both = method == "grow-diag-final-and"
        for link in [*_ordered(forward), *_ordered(reverse)]:
            covered = [link[0] in sources, link[1] in targets]
            if not (any(covered) if both else all(covered)):
                add(link)
    return links


def _ordered(links):
    """The links by target position, then by source position."""
    return sorted(links, key=lambda link: link[::-1])

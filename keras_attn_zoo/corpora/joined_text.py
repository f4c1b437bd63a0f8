"""A text of long sentences: those of another one, joined."""

import itertools

from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.data.words import word_count
from keras_attn_zoo.support.errors import UserError

# How many lengths are aimed at in turn.
_GOALS = 4


def joined_text(text: ParallelText, least: int, most: int) -> ParallelText:
    """Return a text whose sentences are consecutive ones of another, joined.

    Use it to see how systems translate sentences that are longer than those that they were trained on.

    Sentences are joined until the longer side has as many words as one of four lengths from `least` on, which are aimed
    at in turn, an equal part of the way to `most` apart. What is longer than `most` then is left out, and so is what
    is left at the end.

    Args:
        text: the text, whose gold alignments are left out.
        least, most: words of the longer side of a joined sentence.

    Raises:
        UserError: the text is too short for any.

    Example:
        >>> text = ParallelText([("ein Haus", "a house"), ("am See", "by the lake"), ("im Wald", "in the woods")])
        >>> joined_text(text, 4, 5).pairs
        [('ein Haus am See', 'a house by the lake')]
    """
    sides = [text.sources, *text.references]
    goals = itertools.cycle(least + (most - least) * i // _GOALS for i in range(_GOALS))
    rows: list[list[str]] = []
    parts: list[tuple[str, ...]] = []
    goal = next(goals)
    for row in zip(*sides, strict=True):
        parts.append(row)
        words = max(sum(map(word_count, side)) for side in list(zip(*parts, strict=True))[:2])
        if words >= goal:
            if words <= most:
                # A list of references that lacks one has none of the whole.
                rows.append([" ".join(side) if all(side) else "" for side in zip(*parts, strict=True)])
            parts, goal = [], next(goals)
    if not rows:
        raise UserError(f"the test text is too short to be joined to sentences of {least} to {most} words.")
    sources, first, *more = map(list, zip(*rows, strict=True))
    return ParallelText(zip(sources, first, strict=True), more_references=more)

"""Validation and test text from training text, without a sentence that is in both."""

import hashlib
from collections.abc import Sequence

from keras_attn_zoo.data.splits import Pair
from keras_attn_zoo.support.errors import UserError

# What the manifest of a corpus says of it.
METHOD = (
    "pairs that share a sentence, on either side, are in the same part; groups of up to 10 pairs are held out in the "
    "order of the SHA-256 of their first pair"
)
# Sentences that many others share are for training: `Yes.` is no test.
_LARGEST_GROUP = 10


def hold_out(pairs: Sequence[Pair], sizes: dict[str, int]) -> dict[str, list[Pair]]:
    """Hold out parts of a text: no sentence of theirs, source or target, is in what is left, nor in another part.

    The result depends on the pairs alone. Each part keeps the order of the text;
    a part that is held out has no pair twice.

    Args:
        pairs: list of (source, target).
        sizes: pairs of each part to hold out, at most.

    Returns:
        the parts by name, and what is left as "train".

    Raises:
        UserError: a part would be empty.

    Example:
        >>> parts = hold_out([(f"a{i}", f"b{i}") for i in range(10)], {"valid": 1, "test": 2})
        >>> {name: len(part) for name, part in parts.items()}
        {'train': 7, 'valid': 1, 'test': 2}
    """
    groups = _groups(pairs)
    order = sorted(groups, key=lambda first: hashlib.sha256("\t".join(pairs[first]).encode()).digest())
    place, room = ["train"] * len(pairs), dict(sizes)
    for first in order:
        group = groups[first]
        if len(group) > _LARGEST_GROUP:
            continue
        part = next((part for part, left in room.items() if len(group) <= left), None)
        if part is not None:
            room[part] -= len(group)
            for number in group:
                place[number] = part
        elif not any(room.values()):
            break
    parts: dict[str, list[Pair]] = {"train": [], **{part: [] for part in sizes}}
    for pair, part in zip(pairs, place, strict=True):
        parts[part].append(pair)
    parts = {part: text if part == "train" else list(dict.fromkeys(text)) for part, text in parts.items()}
    if not all(parts.values()):
        empty = next(part for part, text in parts.items() if not text)
        raise UserError(f"{len(pairs)} sentence pairs are too few to split: none is left for {empty}. Give more text.")
    return parts


def _groups(pairs):
    """Numbers of pairs that share a sentence with another of the group, by the first of them."""
    parent = list(range(len(pairs)))

    def root(number):
        while parent[number] != number:
            # Half of the way is cut on every walk.
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    for side in (0, 1):
        seen = {}
        for number, pair in enumerate(pairs):
            one, other = sorted((root(seen.setdefault(pair[side], number)), root(number)))
            parent[other] = one
    groups = {}
    for number in range(len(pairs)):
        groups.setdefault(root(number), []).append(number)
    return groups

"""Filters of sentence pairs, and counts of those dropped."""

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from keras_attn_zoo.data.words import has_illegal_characters, word_count
from keras_attn_zoo.support.errors import UserError

# Pairs that tell what kind of text it is.
_FIRST = 1000


@dataclass
class FilterReport:
    """How many sentence pairs were kept, and how many were dropped for each reason.

    Attributes:
        kept: pairs that passed.
        empty: pairs with an empty side.
        short: pairs with a side of fewer than `min_words`.
        long: pairs with a side of more than `max_words`.
        ratio: pairs whose sides differ in length by more than `max_length_ratio`.
        illegal: pairs with illegal characters.
        duplicate: pairs that occurred before.
        over_limit: pairs with more tokens than a token limit allows.
    """

    kept: int = 0
    empty: int = 0
    short: int = 0
    long: int = 0
    ratio: int = 0
    illegal: int = 0
    duplicate: int = 0
    over_limit: int = 0

    def count(self, reason: str) -> None:
        """Count one pair under `reason`, the name of an attribute."""
        setattr(self, reason, getattr(self, reason) + 1)

    def check_kept(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Raise a UserError with the counts if none of `pairs` was kept."""
        if self.kept:
            return
        place = " and ".join(str(path) for path in getattr(pairs, "paths", ()))
        reasons = ", ".join(f"{reason} {count}" for reason, count in asdict(self).items() if count)
        raise UserError(
            f"no sentence pair{place and ' of '}{place} is left after filtering: {reasons}. Relax the filter, or give "
            "different text."
        )


@dataclass(frozen=True)
class Filter:
    """Which sentence pairs to keep, by the number of words, see `word_count`, and by their characters.

    A pair is dropped if either side is outside the bounds. Pairs with an empty side are always dropped.

    Args:
        min_words: minimum words per side.
        max_words: maximum words per side; `None` for no limit.
        max_length_ratio: maximum ratio of the longer side to the shorter, in words; `None` for no limit.
        drop_duplicates: whether to keep only the first of several equal pairs.
        drop_illegal_characters: whether to drop pairs with a side for which `has_illegal_characters`.

    Raises:
        UserError: no pair could satisfy the bounds.

    Example:
        >>> report = FilterReport()
        >>> list(filter_pairs([("a b", "c d"), ("a", "")], Filter(min_words=2), report))
        [('a b', 'c d')]
        >>> report.empty
        1
    """

    min_words: int = 1
    max_words: int | None = None
    max_length_ratio: float | None = None
    drop_duplicates: bool = False
    drop_illegal_characters: bool = False

    def __post_init__(self) -> None:
        """Check the bounds."""
        if self.min_words < 1:
            raise UserError(f"min_words={self.min_words} is below 1: give at least 1.")
        if self.max_words is not None and self.max_words < self.min_words:
            raise UserError(f"max_words={self.max_words} is less than min_words={self.min_words}: swap them.")
        if self.max_length_ratio is not None and self.max_length_ratio < 1:
            raise UserError(f"max_length_ratio={self.max_length_ratio} is below 1: give at least 1.")

    def described(self, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """Return the filter as plain data for the fingerprint of a text that it filters.

        It is that of earlier versions where they did the same, so that what they prepared is found. They counted the
        sentences of Chinese and Japanese text, which its first pairs are known by, as one word each.
        """
        added = {"drop_illegal_characters"}
        found = {name: value for name, value in asdict(self).items() if value or name not in added}
        counts = self.min_words > 1 or self.max_words is not None or self.max_length_ratio is not None
        first = itertools.chain.from_iterable(itertools.islice(pairs, _FIRST if counts else 0))
        otherwise = any(word_count(text) != len(text.split()) for text in first)
        return {**found, "words_of_one_character": True} if otherwise else found

    def reason_to_drop(self, source: str, target: str) -> str | None:
        """Return the FilterReport attribute that counts a dropped pair; None to keep it."""
        shorter, longer = sorted((word_count(source), word_count(target)))
        if shorter == 0:
            return "empty"
        if shorter < self.min_words:
            return "short"
        if self.max_words is not None and longer > self.max_words:
            return "long"
        if self.max_length_ratio is not None and longer > shorter * self.max_length_ratio:
            return "ratio"
        if self.drop_illegal_characters and (has_illegal_characters(source) or has_illegal_characters(target)):
            return "illegal"
        return None


def _digest(source, target):
    # Digests are kept instead of texts: 16 bytes per pair, however long it is.
    return hashlib.blake2b(f"{len(source)}:{source}{target}".encode(), digest_size=16).digest()


def filter_numbered_pairs(
    pairs: Iterable[tuple[str, str]], pair_filter: Filter, report: FilterReport
) -> Iterator[tuple[int, str, str]]:
    """Yield (number, source, target) of the pairs kept, numbered from 0 before filtering.

    For callers that need line numbers; others use `filter_pairs`.
    """
    seen = set()
    for number, (source, target) in enumerate(pairs):
        reason = pair_filter.reason_to_drop(source, target)
        if reason is None and pair_filter.drop_duplicates:
            digest = _digest(source, target)
            reason = "duplicate" if digest in seen else None
            seen.add(digest)
        report.count(reason or "kept")
        if reason is None:
            yield number, source, target
    report.check_kept(pairs)


def filter_pairs(
    pairs: Iterable[tuple[str, str]], pair_filter: Filter, report: FilterReport | None = None
) -> Iterator[tuple[str, str]]:
    """Keep the sentence pairs that pass a filter, as a stream.

    Args:
        pairs: iterable of (source, target).
        pair_filter: a `Filter`.
        report: a `FilterReport`, updated as the stream is read.

    Returns:
        An iterator of the (source, target) pairs kept, in order.

    Raises:
        UserError: at the end of the stream, if nothing was kept.
    """
    report = FilterReport() if report is None else report
    return ((source, target) for _, source, target in filter_numbered_pairs(pairs, pair_filter, report))

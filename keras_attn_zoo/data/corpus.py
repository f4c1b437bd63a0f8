"""Parallel text, read as a stream: files, filters, splits."""

import contextlib
import gzip
import hashlib
import io
import itertools
import select
import sys
import unicodedata
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.files import check_file, kind_of, shown

_GZIP_MAGIC = b"\x1f\x8b"
_STANDARD_INPUT = "-"
# Longer lines are no sentences; a file without line ends is not to be read into memory.
_LONGEST_LINE = 2**24
# Characters of a window of lines, beside their number.
_WINDOW = 4 << 20
# Seconds in which a producer that has not paused writes on.
_PAUSE = 0.05


def normalise(text):
    """Give a sentence its one spelling: NFC, words parted by single spaces.

    Every reader and every subword model applies it, so that one word has one
    spelling and the whitespace words of a text are its subword words.

    Args:
        text: a sentence.

    Returns:
        The sentence, normalised.

    Example:
        >>> normalise("  ein\\tHaus ")
        'ein Haus'
    """
    return unicodedata.normalize("NFC", " ".join(text.split()))


def word_count(text):
    """Count the whitespace-separated words of a sentence."""
    return len(text.split())


@contextlib.contextmanager
def _open_bytes(path):
    """Open a plain or gzip file, or standard input, told apart by the first two bytes."""
    with contextlib.ExitStack() as stack:
        stream = sys.stdin.buffer if path == _STANDARD_INPUT else stack.enter_context(open(path, "rb"))
        if stream.peek(2)[:2] == _GZIP_MAGIC:
            stream = stack.enter_context(io.BufferedReader(gzip.GzipFile(fileobj=stream)))
        yield stream


def _check_source(path):
    if path != _STANDARD_INPUT:
        check_file(path, streams=True)
    elif sys.stdin is None or sys.stdin.closed:
        raise UserError("standard input is closed: give a file, or sentences.")


def _cannot_read(path, error):
    return UserError(f"cannot read {shown(path)}: {error.strerror}. Check the path and its permissions.")


def _lines(stream):
    """Yield the lines of a stream, none longer than one byte more than is allowed."""
    return iter(lambda: stream.readline(_LONGEST_LINE + 1), b"")


def _lines_and_pauses(stream):
    """Yield the lines of a pipe or a terminal as they come, and None where the next one is not there yet."""
    begun = b""
    # What the stream has read ahead is asked for first; nothing is left in its buffer after that.
    while (chunk := stream.read1(1 << 16)) != b"":
        if chunk is None:
            # The pipe was opened so that reading does not wait; who reads it here does.
            yield None
            select.select([stream], [], [])
            continue
        *lines, begun = (begun + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
        if len(begun) > _LONGEST_LINE:
            break
        if not select.select([stream], [], [], _PAUSE)[0]:
            yield None
    if begun:
        yield begun


def _may_pause(stream):
    """Whether a stream is one whose readiness can be asked: what is packed says nothing about its lines."""
    if isinstance(getattr(stream, "raw", None), gzip.GzipFile):
        return False
    try:
        select.select([stream], [], [], 0)
    except (OSError, ValueError):
        return False
    return True


def _decoded_lines(path, pauses=False):
    """Yield the lines of a file as they stand, without their line ends; with `pauses`, None where one has to wait."""
    name = "standard input" if path == _STANDARD_INPUT else shown(path)
    number = 0
    try:
        with _open_bytes(path) as stream:
            for line in _lines_and_pauses(stream) if pauses and _may_pause(stream) else _lines(stream):
                if line is None:
                    yield None
                    continue
                number += 1
                if len(line) > _LONGEST_LINE:
                    raise UserError(
                        f"{name} line {number} has more than {_LONGEST_LINE:,} bytes: give one sentence a line."
                    )
                if b"\0" in line:
                    raise UserError(f"{name} line {number} contains a NUL character: convert the file to UTF-8.")
                yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{name} line {number} is not UTF-8 ({error.reason}): convert the file to UTF-8.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{name} is a damaged or truncated gzip file ({error}): fetch it or pack it again.") from None
    except OSError as error:
        raise _cannot_read(name, error) from error
    if number == 0:
        raise UserError(f"{name} is empty: give a file with one sentence a line.")


def read_lines(path):
    """Read a monolingual text, one sentence a line.

    Use it for text to translate and for references.

    Args:
        path: a plain or gzip file, or `"-"` for standard input.

    Returns:
        An iterator of normalised sentences; an empty line is an empty string.

    Raises:
        UserError: there is no such file; it is empty, not UTF-8 or a damaged gzip file; a line is endless.

    Example:
        >>> from keras_attn_zoo.files import write_text
        >>> write_text("/tmp/text.de", "ein Haus\\nein  Hund\\n")
        >>> list(read_lines("/tmp/text.de"))
        ['ein Haus', 'ein Hund']
    """
    _check_source(path)
    return map(normalise, _decoded_lines(path))


def read_windows(path, size):
    """Read a monolingual text as it comes, a list of lines at a time.

    Use it to translate a stream: a file gives windows of `size` lines, and a
    pipe or a terminal what it has written when it pauses. Memory is bounded.

    Args:
        path: see `read_lines`.
        size: most lines of a window.

    Returns:
        An iterator of lists of normalised sentences, none of them empty.

    Raises:
        UserError: see `read_lines`; the lines before the one that is wrong come first.

    Example:
        >>> from keras_attn_zoo.files import write_text
        >>> write_text("/tmp/text.de", "eins\\nzwei\\ndrei\\n")
        >>> list(read_windows("/tmp/text.de", 2))
        [['eins', 'zwei'], ['drei']]
    """
    _check_source(path)
    return _windows(path, size)


def _windows(path, size):
    window, characters = [], 0
    try:
        for line in _decoded_lines(path, pauses=True):
            if line is not None:
                window.append(normalise(line))
                characters += len(line)
            if window and (line is None or len(window) == size or characters > _WINDOW):
                yield window
                window, characters = [], 0
    except UserError:
        if window:
            yield window
        raise
    if window:
        yield window


class _Files:
    """Text in files that is read from the start whenever it is iterated."""

    def __init__(self, *paths):
        self.paths = tuple(Path(path) for path in paths)
        for path in self.paths:
            check_file(path, streams=True)
        self._was_read = False

    def _begin(self):
        """Raise where the text is read a second time, and cannot be."""
        for path in self.paths if self._was_read else ():
            if kind_of(path) == "stream":
                raise UserError(f"{shown(path)} is a pipe or a device, which can be read only once: give a file.")
        self._was_read = True


class ParallelFiles(_Files):
    """Parallel text in two files, one sentence a line; iterate as often as you like.

    Args:
        source: file of the source sentences, plain or gzip.
        target: file of their translations, of as many lines.

    Raises:
        UserError: on construction, a file is missing or a folder; on
            iteration, a file is empty, damaged or not UTF-8, or the two
            have different numbers of lines.

    Example:
        >>> from keras_attn_zoo.files import write_text
        >>> write_text("/tmp/text.de", "ein Haus\\n")
        >>> write_text("/tmp/text.en", "a house\\n")
        >>> list(ParallelFiles("/tmp/text.de", "/tmp/text.en"))
        [('ein Haus', 'a house')]
    """

    def __init__(self, source, target):
        super().__init__(source, target)

    def __iter__(self):
        """Yield (source, target) sentences."""
        self._begin()
        sides = [read_lines(path) for path in self.paths]
        for before, pair in enumerate(itertools.zip_longest(*sides)):
            if None in pair:
                self._raise_unequal(before, pair, sides)
            yield pair

    def _raise_unequal(self, before, pair, sides):
        lines = [
            before + (0 if sentence is None else 1 + sum(1 for _ in rest))
            for sentence, rest in zip(pair, sides, strict=True)
        ]
        raise UserError(
            f"{self.paths[0]} has {lines[0]} lines, {self.paths[1]} has {lines[1]}: give files of equal length."
        )


class TSVFile(_Files):
    """Parallel text in the columns of one tab-separated file; iterate as often as you like.

    A blank line is an empty pair, as in two parallel files; nothing is quoted
    and there is no header.

    Args:
        path: the file, plain or gzip.
        source_column: column of the source sentences, counted from 0.
        target_column: column of the translations.

    Raises:
        UserError: on construction, the file is missing or a folder; on
            iteration, it is empty, damaged or not UTF-8, or a line has too
            few columns.

    Example:
        >>> from keras_attn_zoo.files import write_text
        >>> write_text("/tmp/text.tsv", "7\\tein Haus\\ta house\\n")
        >>> list(TSVFile("/tmp/text.tsv", source_column=1, target_column=2))
        [('ein Haus', 'a house')]
    """

    def __init__(self, path, source_column=0, target_column=1):
        super().__init__(path)
        self.columns = (source_column, target_column)
        if min(self.columns) < 0:
            raise UserError(f"columns {self.columns} are counted from 0: give none below.")

    def __iter__(self):
        """Yield (source, target) sentences."""
        self._begin()
        (path,) = self.paths
        for number, line in enumerate(_decoded_lines(path), start=1):
            if not line.strip():
                yield "", ""
                continue
            fields = line.split("\t")
            if len(fields) <= max(self.columns):
                raise UserError(
                    f"{path} line {number} has {len(fields)} tab-separated columns, "
                    f"{max(self.columns) + 1} are needed: mend the line or name other columns."
                )
            source, target = (normalise(fields[column]) for column in self.columns)
            yield source, target


@dataclass
class FilterReport:
    """How many sentence pairs were kept, and how many dropped for which reason.

    Attributes:
        kept: pairs that passed.
        empty: pairs with an empty side.
        short: pairs with a side of fewer than `min_words`.
        long: pairs with a side of more than `max_words`.
        ratio: pairs whose sides differ in length by more than `max_length_ratio`.
        duplicate: pairs that had come before.
        over_limit: pairs with more tokens than a token limit allows.
    """

    kept: int = 0
    empty: int = 0
    short: int = 0
    long: int = 0
    ratio: int = 0
    duplicate: int = 0
    over_limit: int = 0

    def count(self, reason):
        """Count one pair under `reason`, the name of an attribute."""
        setattr(self, reason, getattr(self, reason) + 1)

    def check_kept(self, pairs):
        """Raise a UserError with the counts if no pair was kept of `pairs`, which may be read from files."""
        if self.kept:
            return
        place = " and ".join(str(path) for path in getattr(pairs, "paths", ()))
        reasons = ", ".join(f"{reason} {count}" for reason, count in asdict(self).items() if count)
        raise UserError(
            f"no sentence pair{place and ' of '}{place} is left after filtering: {reasons}. Loosen the filter or give "
            "other text."
        )


@dataclass(frozen=True)
class Filter:
    """Which sentence pairs to keep, by the whitespace words of both sides.

    A pair is dropped if either side is outside the bounds. Pairs with an
    empty side are always dropped.

    Args:
        min_words: fewest words of a side.
        max_words: most words of a side; `None` sets no bound.
        max_length_ratio: most words of the longer side for each word of the
            shorter; `None` sets no bound.
        drop_duplicates: keep only the first of equal pairs.

    Raises:
        UserError: the bounds let nothing pass.

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

    def __post_init__(self):
        """Check the bounds."""
        if self.min_words < 1:
            raise UserError(f"min_words={self.min_words} is below 1: give at least 1.")
        if self.max_words is not None and self.max_words < self.min_words:
            raise UserError(f"max_words={self.max_words} is below min_words={self.min_words}: swap them.")
        if self.max_length_ratio is not None and self.max_length_ratio < 1:
            raise UserError(f"max_length_ratio={self.max_length_ratio} is below 1: give at least 1.")

    def reason_to_drop(self, source, target):
        """Name the FilterReport attribute for which a pair is dropped, or None."""
        shorter, longer = sorted((word_count(source), word_count(target)))
        if shorter == 0:
            return "empty"
        if shorter < self.min_words:
            return "short"
        if self.max_words is not None and longer > self.max_words:
            return "long"
        if self.max_length_ratio is not None and longer > shorter * self.max_length_ratio:
            return "ratio"
        return None


def _digest(source, target):
    # Digests, not texts, are remembered: 16 bytes a pair whatever its length.
    return hashlib.blake2b(f"{len(source)}:{source}{target}".encode(), digest_size=16).digest()


def filter_numbered_pairs(pairs, pair_filter, report):
    """Yield (number, source, target) of the pairs kept, numbered from 0 before filtering.

    For callers that must say which line a kept pair stood on; the others use
    `filter_pairs`.
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


def filter_pairs(pairs, pair_filter, report=None):
    """Keep the sentence pairs that pass a filter, as a stream.

    Args:
        pairs: iterable of (source, target).
        pair_filter: a `Filter`.
        report: a `FilterReport` that is counted up as the stream is read.

    Returns:
        An iterator of the (source, target) kept, in order.

    Raises:
        UserError: at the end of the stream, if nothing was kept.
    """
    report = FilterReport() if report is None else report
    return ((source, target) for _, source, target in filter_numbered_pairs(pairs, pair_filter, report))


class Splits(NamedTuple):
    """The three parts of a corpus, each an iterable of (source, target).

    Build it from files of their own, or by `random_split`.

    Example:
        >>> splits = Splits(train=[("a", "b")], valid=[("c", "d")], test=[("e", "f")])
        >>> train, valid, test = splits
    """

    train: object
    valid: object
    test: object


def random_split(pairs, ratios=(8, 1, 1), seed=0):
    """Divide sentence pairs at random into training, validation and test parts.

    Use it where a corpus comes without parts of its own. Every pair goes to
    exactly one part and the parts keep the order of the corpus.

    Args:
        pairs: iterable of (source, target).
        ratios: relative sizes of the three parts.
        seed: the division is a function of the seed and the number of pairs.

    Returns:
        `Splits` of three lists.

    Raises:
        UserError: a ratio is not positive, or a part would be empty.

    Example:
        >>> train, valid, test = random_split([(str(i), str(i)) for i in range(10)])
        >>> len(train), len(valid), len(test)
        (8, 1, 1)
    """
    if len(ratios) != 3 or min(ratios) <= 0:
        raise UserError(f"ratios={ratios} are not three positive numbers: give them for training, validation, test.")
    pairs = list(pairs)
    ends = [round(len(pairs) * part / sum(ratios)) for part in itertools.accumulate(ratios)]
    sizes = np.diff([0, *ends])
    if min(sizes) < 1:
        raise UserError(
            f"{len(pairs)} sentence pairs divide {ratios[0]}:{ratios[1]}:{ratios[2]} into "
            f"{sizes[0]}, {sizes[1]} and {sizes[2]}: give more text, or a file for each part."
        )
    order = np.random.default_rng(seed).permutation(len(pairs))
    return Splits(*([pairs[i] for i in np.sort(part)] for part in np.split(order, ends[:2])))

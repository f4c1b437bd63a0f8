"""Text in files and streams, read line by line."""

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from keras_attn_zoo.data.compressed_files import (
    STANDARD_INPUT,
    byte_lines,
    check_line,
    check_source,
    lines_and_pauses,
    may_pause,
    name_of,
    open_bytes,
)
from keras_attn_zoo.data.marked_up_text import Role, Segments, segments_in
from keras_attn_zoo.data.words import normalise
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, check_file, kind_of, shown

_LOG = logging.getLogger(__name__)
# Maximum characters of a window of lines, besides the maximum number of lines.
_WINDOW = 4 << 20


def _lines(stream, path, pauses=False, keep_mark=False):
    """Yield the lines of a stream unchanged, without line breaks; with `pauses`, None while there is no next one."""
    number = 0
    try:
        for line in lines_and_pauses(stream) if pauses and may_pause(stream) else byte_lines(stream):
            if line is None:
                yield None
                continue
            number += 1
            check_line(path, number, line)
            yield line.decode("utf-8-sig" if number == 1 and not keep_mark else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name_of(path)} line {number} is not UTF-8 ({error.reason}): convert the file to UTF-8."
        ) from None
    if number == 0:
        raise UserError(f"{name_of(path)} is empty: give a file with one sentence per line.")


def _sentences(path, role, pauses=False, keep_mark=False):
    """Yield the lines of a file, or its segments of a role."""
    with open_bytes(path) as stream:
        segments = segments_in(stream, path)
        yield from _lines(stream, path, pauses, keep_mark) if segments is None else segments.lists_of(role)[0]


def read_lines(path: PathLike, role: Role = "source", as_written: bool = False) -> Iterator[str]:
    """Read monolingual text, one sentence per line, or the segments of a file in one of WMT's formats.

    Use it for text to translate. What is scored is read with `read_translations`.

    Args:
        path: a file, plain or compressed with gzip, xz or bzip2, or `"-"` for standard input.
        role: what is read of a file that has sources, references and hypotheses.
        as_written: see `read_translations`.

    Returns:
        An iterator of normalised sentences; an empty line is an empty string.

    Raises:
        UserError: there is no such file; it is empty, not UTF-8, damaged, or compressed in another way; a line is too
            long.

    Example:
        >>> from keras_attn_zoo.support.files import write_text
        >>> write_text("/tmp/text.de", "ein Haus\\nein  Hund\\n")
        >>> list(read_lines("/tmp/text.de"))
        ['ein Haus', 'ein Hund']
    """
    check_source(path)
    return map(str.rstrip if as_written else normalise, _sentences(path, role, keep_mark=as_written))


def read_columns(path: PathLike, as_written: bool = False) -> Iterator[list[str]]:
    """Read a tab-separated file, however many columns each line has.

    Use it for sentences with any number of references; `TSVFile` has the two columns of a parallel text.

    Args:
        path: see `read_lines`; a file in WMT's XML has the columns source and references.
        as_written: whether the sentences are left as they stand, for scoring.

    Returns:
        An iterator of lists of normalised sentences.

    Raises:
        UserError: see `read_lines`.

    Example:
        >>> from keras_attn_zoo.support.files import write_text
        >>> write_text("/tmp/text.tsv", "a house\\tone  house\\n")
        >>> list(read_columns("/tmp/text.tsv"))
        [['a house', 'one house']]
    """
    check_source(path)
    change = str.rstrip if as_written else normalise
    return ([change(field) for field in row] for row in _rows(path, keep_mark=as_written))


def _rows(path, keep_mark=False):
    with open_bytes(path) as stream:
        segments = segments_in(stream, path)
        if segments is not None:
            yield from segments.rows()
            return
        for line in _lines(stream, path, keep_mark=keep_mark):
            yield line.split("\t")


def read_translations(path: PathLike, role: Role = "reference", beside: PathLike | None = None) -> list[list[str]]:
    """Read translations to be scored, as they stand in a file: what is scored is what sacrebleu's command line reads.

    White space at the end of a line is left out, nothing else is changed. A byte order mark is part of the first word.

    Args:
        path: see `read_lines`.
        role: "reference" or "hypothesis".
        beside: the file of the source or of other translations. If both are in one of WMT's formats, segments are
            returned in the order of that file.

    Returns:
        A list of sentences for each translation of the text: one of plain text, or several.

    Raises:
        UserError: see `read_lines`; the segments are not those of the other file.

    Example:
        >>> from keras_attn_zoo.support.files import write_text
        >>> write_text("/tmp/text.en", "a  house \\n")
        >>> read_translations("/tmp/text.en")
        [['a  house']]
    """
    check_source(path)
    other = None if beside is None else read_segments(beside)
    with open_bytes(path) as stream:
        segments = segments_in(stream, path)
        if segments is not None:
            return (segments if other is None else segments.in_order_of(other)).lists_of(role)
        lines = [line.rstrip() for line in _lines(stream, path, keep_mark=True)]
    warn_of_mark(path, lines[0])
    return [lines]


def warn_of_mark(path: PathLike, first: str) -> None:
    """Warn of a byte order mark before the first translation of a file."""
    if first.startswith("\ufeff"):
        _LOG.warning(
            "%s begins with a byte order mark, which is scored as part of its first word, as by sacrebleu: remove it",
            name_of(path),
        )


def read_segments(path: PathLike) -> Segments | None:
    """Read a file in one of WMT's formats; return None for any other one, and for a pipe, which cannot be read twice.

    Raises:
        UserError: see `read_lines`.
    """
    if path == STANDARD_INPUT or kind_of(path) != "file":
        return None
    with open_bytes(path) as stream:
        return segments_in(stream, path)


def read_windows(path: PathLike, size: int) -> Iterator[list[str]]:
    """Read monolingual text as it arrives, a list of lines at a time.

    Use it to translate a stream: a file yields windows of `size` lines; a pipe or
    a terminal yields whatever has arrived when it pauses. Memory is bounded.

    Args:
        path: see `read_lines`.
        size: maximum lines per window.

    Returns:
        An iterator of non-empty lists of normalised sentences.

    Raises:
        UserError: see `read_lines`; the lines before the bad one are yielded first.

    Example:
        >>> from keras_attn_zoo.support.files import write_text
        >>> write_text("/tmp/text.de", "eins\\nzwei\\ndrei\\n")
        >>> list(read_windows("/tmp/text.de", 2))
        [['eins', 'zwei'], ['drei']]
    """
    check_source(path)
    return _windows(path, size)


def _windows(path, size):
    window, characters = [], 0
    try:
        for line in _sentences(path, "source", pauses=True):
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
    """Text in files that is read from the start on each iteration."""

    def __init__(self, *paths: PathLike) -> None:
        self.paths = tuple(Path(path) for path in paths)
        for path in self.paths:
            check_file(path, streams=True)
        self._was_read = False

    def _begin(self):
        """Raise if the text is to be read a second time but cannot be."""
        for path in self.paths if self._was_read else ():
            if kind_of(path) == "stream":
                raise UserError(f"{shown(path)} is a pipe or a device, which can be read only once: give a file.")
        self._was_read = True


class ParallelFiles(_Files):
    """Parallel text in two files, one sentence per line; can be iterated repeatedly.

    Args:
        source: file of the source sentences: see `read_lines`.
        target: file of their translations, with as many lines. Of two files in one of WMT's formats, segments of the
            same document and number are paired.
        as_written: whether the translations are left as they stand, for scoring; see `read_translations`.

    Raises:
        UserError: on construction, a file is missing or a folder; on iteration, a file is empty, damaged or not UTF-8,
            or the two have different numbers of lines.

    Example:
        >>> from keras_attn_zoo.support.files import write_text
        >>> write_text("/tmp/text.de", "ein Haus\\n")
        >>> write_text("/tmp/text.en", "a house\\n")
        >>> list(ParallelFiles("/tmp/text.de", "/tmp/text.en"))
        [('ein Haus', 'a house')]
    """

    def __init__(self, source: PathLike, target: PathLike, as_written: bool = False) -> None:
        super().__init__(source, target)
        self.as_written = as_written

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield (source, target) sentences."""
        self._begin()
        source_file, target_file = self.paths
        first, second = map(read_segments, self.paths)
        if first is None or second is None:
            targets = read_lines(target_file, "reference", self.as_written)
        else:
            found = second.in_order_of(first).lists_of("reference")[0]
            targets = map(str.rstrip if self.as_written else normalise, found)
        sides = [read_lines(source_file), targets]
        for before, pair in enumerate(itertools.zip_longest(*sides)):
            source, target = pair
            if source is None or target is None:
                self._raise_unequal(before, pair, sides)
            yield source, target

    def _raise_unequal(self, before, pair, sides):
        lines = [
            before + (0 if sentence is None else 1 + sum(1 for _ in rest))
            for sentence, rest in zip(pair, sides, strict=True)
        ]
        raise UserError(
            f"{self.paths[0]} has {lines[0]} lines but {self.paths[1]} has {lines[1]}: give files of equal length."
        )


class TSVFile(_Files):
    """Parallel text in the columns of one tab-separated file; can be iterated repeatedly.

    A blank line is an empty pair, as in two parallel files; there are no quotes
    and no header. A file in WMT's XML has the columns source and references.

    Args:
        path: the file: see `read_lines`.
        source_column: column of the source sentences, counted from 0.
        target_column: column of the translations.
        as_written: see `ParallelFiles`.

    Raises:
        UserError: on construction, the file is missing or a folder; on iteration, it is empty, damaged or not UTF-8, or
            a line has too few columns.

    Example:
        >>> from keras_attn_zoo.support.files import write_text
        >>> write_text("/tmp/text.tsv", "7\\tein Haus\\ta house\\n")
        >>> list(TSVFile("/tmp/text.tsv", source_column=1, target_column=2))
        [('ein Haus', 'a house')]
    """

    def __init__(
        self, path: PathLike, source_column: int = 0, target_column: int = 1, as_written: bool = False
    ) -> None:
        super().__init__(path)
        self.columns, self.as_written = (source_column, target_column), as_written
        if min(self.columns) < 0:
            raise UserError(f"columns {self.columns} are invalid: count them from 0.")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield (source, target) sentences."""
        self._begin()
        (path,) = self.paths
        change: Callable[[str], str] = str.rstrip if self.as_written else normalise
        for number, fields in enumerate(_rows(path, keep_mark=self.as_written), start=1):
            if not any(map(str.strip, fields)):
                yield "", ""
                continue
            if len(fields) <= max(self.columns):
                raise UserError(
                    f"{path} line {number} has {len(fields)}, not {max(self.columns) + 1} columns separated by tabs: "
                    "fix the line, or give two files, source and target."
                )
            source, target = (fields[column] for column in self.columns)
            yield normalise(source), change(target)


class NormalisedPairs:
    """Pairs whose translations are left as they stand, as models read them; can be iterated as often as the pairs.

    Args:
        pairs: (source, target) sentences.

    Example:
        >>> list(NormalisedPairs([("ein Haus", "a  house ")]))
        [('ein Haus', 'a house')]
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.pairs = list(pairs) if iter(pairs) is pairs else pairs

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield (source, target) sentences."""
        return ((normalise(source), normalise(target)) for source, target in self.pairs)


def read_bitext(
    bitext: PathLike | None = None,
    source: PathLike | None = None,
    target: PathLike | None = None,
    reverse: bool = False,
) -> list[tuple[list[str], list[str]]]:
    """Read tokenised sentence pairs: words separated by spaces.

    Args:
        bitext: file of `SOURCE ||| TARGET` lines.
        source, target: two files instead.
        reverse: whether the second side is the source.

    Returns:
        a list of `(source words, target words)`.

    Raises:
        UserError: no file or too many; a line without `|||`, or with an empty side.
    """
    lines: Iterable[Sequence[str]]
    if bitext is not None and source is None and target is None:
        lines = [line.split("|||") for line in read_lines(bitext)]
    elif bitext is None and source is not None and target is not None:
        lines = list(ParallelFiles(source, target))
    else:
        raise UserError("give --bitext, or --source and --target.")
    found = []
    for number, sides in enumerate(lines, start=1):
        words = [side.split() for side in sides]
        if bitext is not None and (len(words) != 2 or not all(words)):
            raise UserError(f"{bitext} line {number} is not a sentence pair: write SOURCE ||| TARGET, neither empty.")
        for file, one in zip((source, target), words, strict=True):
            if not one:
                raise UserError(f"{file} line {number} is empty: write a sentence, or remove the line from both files.")
        found.append((words[1], words[0]) if reverse else (words[0], words[1]))
    return found

"""Text in files and streams, read line by line."""

import contextlib
import gzip
import io
import itertools
import select
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from keras_attn_zoo.data.words import normalise
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.files import PathLike, check_file, kind_of, shown

_GZIP_MAGIC = b"\x1f\x8b"
_STANDARD_INPUT = "-"
# Longer lines are not sentences; a file without line breaks must not be read into memory.
_LONGEST_LINE = 2**24
# Maximum characters of a window of lines, besides the maximum number of lines.
_WINDOW = 4 << 20
# A producer that writes nothing for this many seconds has paused.
_PAUSE = 0.05


@contextlib.contextmanager
def _open_bytes(path):
    """Open a file or standard input, plain or gzip, which the first two bytes tell apart."""
    with contextlib.ExitStack() as stack:
        stream = sys.stdin.buffer if path == _STANDARD_INPUT else stack.enter_context(open(path, "rb"))
        if stream.peek(2)[:2] == _GZIP_MAGIC:
            stream = stack.enter_context(io.BufferedReader(gzip.GzipFile(fileobj=stream)))
        yield stream


def _check_source(path):
    if path != _STANDARD_INPUT:
        check_file(path, streams=True)
    elif sys.stdin is None or sys.stdin.closed:
        raise UserError("standard input is closed: give a file or sentences.")


def _cannot_read(path, error):
    return UserError(f"cannot read {shown(path)}: {error.strerror}. Check the path and its permissions.")


def _lines(stream):
    """Yield the lines of a stream, cut one byte above the maximum length."""
    return iter(lambda: stream.readline(_LONGEST_LINE + 1), b"")


def _lines_and_pauses(stream):
    """Yield the lines of a pipe or a terminal as they arrive, and None while the next one is not available."""
    begun = b""
    # This first empties the stream's own buffer.
    while (chunk := stream.read1(1 << 16)) != b"":
        if chunk is None:
            # The pipe is non-blocking, so wait here.
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
    """Whether a stream can be polled for readiness; a compressed one cannot."""
    if isinstance(getattr(stream, "raw", None), gzip.GzipFile):
        return False
    try:
        select.select([stream], [], [], 0)
    except (OSError, ValueError):
        return False
    return True


def _decoded_lines(path, pauses=False):
    """Yield the lines of a file unchanged, without line breaks; with `pauses`, None while there is no next one."""
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
                        f"{name} line {number} has more than {_LONGEST_LINE:,} bytes: give one sentence per line."
                    )
                if b"\0" in line:
                    raise UserError(f"{name} line {number} contains a NUL character: convert the file to UTF-8.")
                yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{name} line {number} is not UTF-8 ({error.reason}): convert the file to UTF-8.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"{name} is a damaged or truncated gzip file ({error}): download or compress it again."
        ) from None
    except OSError as error:
        raise _cannot_read(name, error) from error
    if number == 0:
        raise UserError(f"{name} is empty: give a file with one sentence per line.")


def read_lines(path: PathLike) -> Iterator[str]:
    """Read monolingual text, one sentence per line.

    Use it for text to translate and for references.

    Args:
        path: a plain or gzip file, or `"-"` for standard input.

    Returns:
        An iterator of normalised sentences; an empty line is an empty string.

    Raises:
        UserError: there is no such file; it is empty, not UTF-8 or a damaged gzip file; a line is too long.

    Example:
        >>> from keras_attn_zoo.files import write_text
        >>> write_text("/tmp/text.de", "ein Haus\\nein  Hund\\n")
        >>> list(read_lines("/tmp/text.de"))
        ['ein Haus', 'ein Hund']
    """
    _check_source(path)
    return map(normalise, _decoded_lines(path))


def read_columns(path: PathLike) -> Iterator[list[str]]:
    """Read a tab-separated file, however many columns each line has.

    Use it for sentences with any number of references; `TSVFile` has the two columns of a parallel text.

    Args:
        path: a plain or gzip file, or `"-"` for standard input.

    Returns:
        An iterator of lists of normalised sentences.

    Raises:
        UserError: see `read_lines`.

    Example:
        >>> from keras_attn_zoo.files import write_text
        >>> write_text("/tmp/text.tsv", "a house\\tone  house\\n")
        >>> list(read_columns("/tmp/text.tsv"))
        [['a house', 'one house']]
    """
    _check_source(path)
    return ([normalise(field) for field in line.split("\t")] for line in _decoded_lines(path))


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
        source: file of the source sentences, plain or gzip.
        target: file of their translations, with as many lines.

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

    def __init__(self, source: PathLike, target: PathLike) -> None:
        super().__init__(source, target)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield (source, target) sentences."""
        self._begin()
        sides = [read_lines(path) for path in self.paths]
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
    and no header.

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

    def __init__(self, path: PathLike, source_column: int = 0, target_column: int = 1) -> None:
        super().__init__(path)
        self.columns = (source_column, target_column)
        if min(self.columns) < 0:
            raise UserError(f"columns {self.columns} are invalid: count them from 0.")

    def __iter__(self) -> Iterator[tuple[str, str]]:
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
                    f"{path} line {number} has {len(fields)}, not {max(self.columns) + 1} columns separated by tabs: "
                    "fix the line, or give two files, source and target."
                )
            source, target = (normalise(fields[column]) for column in self.columns)
            yield source, target


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

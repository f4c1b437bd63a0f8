"""Sentence pairs and references in the files that a user names."""

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from keras_attn_zoo.data.compressed_files import SUFFIXES
from keras_attn_zoo.data.splits import Pair
from keras_attn_zoo.data.text_files import (
    ParallelFiles,
    TSVFile,
    read_columns,
    read_segments,
    read_translations,
    warn_of_mark,
)
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, kind_of, shown

_LOG = logging.getLogger(__name__)

# Source and target, or one TSV file; of a test text, further references after them.
TextFiles: TypeAlias = PathLike | tuple[PathLike, ...]


def as_list(files: TextFiles) -> list[PathLike]:
    """Return the files of a text.

    Example:
        >>> as_list("text.tsv"), as_list(("text.de", "text.en"))
        (['text.tsv'], ['text.de', 'text.en'])
    """
    return [files] if isinstance(files, (str, os.PathLike)) else list(files)


def open_pairs(files: TextFiles, reverse: bool = False, as_written: bool = False) -> Iterable[Pair]:
    """Return the sentence pairs of two files or of one TSV file, as an iterable that can be reread.

    Args:
        files: `(source, target)`, or the path of a TSV file.
        reverse: whether the second file or column is the source.
        as_written: whether translations are left as they stand, for scoring.

    Raises:
        UserError: one of two files is a TSV file by its name.
    """
    given = as_list(files)
    if len(given) == 1:
        return TSVFile(given[0], int(reverse), int(not reverse), as_written)
    for file in given:
        if is_tsv(file):
            raise UserError(
                f"{shown(file)} is a TSV file, which holds source and target: give it alone, or rename it if it has "
                "one column."
            )
        _warn_of_tabs(file)
    source, target = reversed(given) if reverse else given
    return ParallelFiles(source, target, as_written)


def is_tsv(file: PathLike) -> bool:
    """Return whether a file among several is a TSV file; only the name tells.

    Example:
        >>> is_tsv("text.TSV.gz"), is_tsv("text.gz")
        (True, False)
    """
    return Path(file).name.lower().endswith((".tsv", *(f".tsv{packed}" for packed in SUFFIXES)))


def _has_both_sides(file):
    """Whether a file among several has the source and its translations."""
    if is_tsv(file):
        return True
    segments = read_segments(file)
    return segments is not None and {"source", "reference"} <= segments.lists.keys()


def has_tabs(file: PathLike) -> bool:
    """Return whether a file for one side looks like a TSV file: of a pipe, which cannot be read twice, it is not known.

    Example:
        >>> has_tabs("/dev/null")
        False
    """
    return kind_of(file) == "file" and not read_segments(file) and all(len(row) > 1 for row in read_columns(file))


def _warn_of_tabs(file):
    if has_tabs(file):
        _LOG.warning("%s has tabs in every line, read as spaces: a file of source and target is named .tsv", file)


def read_pairs(files: TextFiles, reverse: bool = False, as_written: bool = False) -> list[Pair]:
    """Read the sentence pairs of `open_pairs` into a list.

    Raises:
        UserError: no pair has both sides.

    Example:
        >>> read_pairs(("test.de", "test.en"))  # doctest: +SKIP
        [('ein Haus', 'a house')]
    """
    pairs = list(open_pairs(files, reverse, as_written))
    check_sides(files, pairs)
    return pairs


def check_sides(files: TextFiles, pairs: Iterable[Pair]) -> None:
    """Raise if no pair of the files has both sides.

    Raises:
        UserError: names the files.
    """
    if not any(source and target.strip() for source, target in pairs):
        names = " and ".join(map(shown, as_list(files)))
        raise UserError(f"there are no sentence pairs in {names}: give a text and its translation.")


def read_test(files: TextFiles, reverse: bool = False) -> tuple[list[Pair], list[list[str]]]:
    """Read a test text: its pairs, and the lists of further references, as they stand in the files.

    Args:
        files: see `open_pairs`; after source and target, or after a file that has both, see `corpus_from_files`, any
            number of files with further references.
        reverse: see `open_pairs`.

    Raises:
        UserError: see `read_pairs`; a file with another number of lines; a sentence without a first reference;
            further references in a TSV file, or in reverse.

    Example:
        >>> read_test(("test.de", "test.a.en", "test.b.en"))  # doctest: +SKIP
        ([('ein Haus', 'a house')], [['one house']])
    """
    given = as_list(files)
    count = 1 if _has_both_sides(given[0]) else 2
    sides, further = tuple(given[:count]), given[count:]
    pairs = read_pairs(sides, reverse, as_written=True)
    warn_of_mark(sides[0 if reverse else -1], pairs[0][1])
    # Of one in WMT's formats, which may have several references itself.
    beside = None if reverse else read_segments(sides[-1])
    more = [] if beside is None else read_translations(sides[-1], beside=sides[0])[1:]
    if not (further or more):
        _warn_of_empty(sides, pairs)
        return pairs, []
    if reverse:
        raise UserError("a text in reverse has one reference: give its two sides alone, or the source first.")
    for file in further:
        if is_tsv(file):
            raise UserError(f"{shown(file)} is a TSV file: give further references one per line, one file each.")
        _warn_of_tabs(file)
    # sacrebleu needs it: found here, and not after hours of training.
    empty = next((number for number, (_, target) in enumerate(pairs, start=1) if not target.strip()), None)
    if empty:
        raise UserError(
            f"{shown(sides[-1])} line {empty} {'is empty' if count == 2 else 'has no target'}: with several "
            "references, each sentence needs the first one."
        )
    return pairs, [*more, *(lines for file in further for lines in _references(file, sides[0], len(pairs)))]


def _warn_of_empty(sides, pairs):
    """Some published texts have lines without a translation; more often a line has been lost."""
    empty = [number for number, pair in enumerate(pairs, start=1) if not all(map(str.strip, pair))]
    if empty:
        _LOG.warning(
            "%s: %d of %d pairs have an empty side, the first in line %d; they are translated and scored as they are",
            " and ".join(map(shown, sides)),
            len(empty),
            len(pairs),
            empty[0],
        )


def _references(file, source, count):
    """Read further references, as many as there are sentences."""
    found = read_translations(file, beside=source)
    for lines in found:
        if len(lines) != count:
            raise UserError(
                f"{shown(source)} has {count} lines but {shown(file)} has {len(lines)}: give files of equal length."
            )
    return found

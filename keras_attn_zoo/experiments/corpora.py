"""The text of an experiment: three splits, gold alignments if available, and their origin."""

import dataclasses
import functools
import logging
import os
from collections.abc import Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, TypeAlias, cast

from keras_attn_zoo.data.filters import Filter, filter_pairs
from keras_attn_zoo.data.splits import MAX_HELD_OUT, Pair, Splits, random_split, split_sizes
from keras_attn_zoo.data.text_files import ParallelFiles, TSVFile, read_columns, read_lines
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.evaluation.alignments import Alignment
from keras_attn_zoo.experiments.parallel_text import Gold, ParallelText
from keras_attn_zoo.files import PathLike, check_file, kind_of, shown

_LOG = logging.getLogger(__name__)

# Source and target, or one TSV file; of a test text, further references after them.
TextFiles: TypeAlias = PathLike | tuple[PathLike, ...]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Training, validation and test text.

    Attributes:
        splits: iterables of sentence pairs.
        description: their origin, as plain data; kept in the run folder.
        gold: for each test pair `(source words, target words, Alignment)`, or None.
        more_references: of the test text, see `ParallelText`.
        more_tests: further test texts by name.
    """

    splits: Splits
    description: dict[str, Any]
    gold: Gold | None = None
    more_references: Sequence[Sequence[str]] = ()
    more_tests: Mapping[str, ParallelText] = dataclasses.field(default_factory=dict)

    def within(self, least: int, most: int) -> "Corpus":
        """Return a corpus without gold alignments, less validation and test pairs of which a side is out of bounds."""
        kept = Filter(min_words=least, max_words=most)
        valid, test = (list(filter_pairs(part, kept)) for part in (self.splits.valid, self.splits.test))
        splits = self.splits._replace(valid=valid, test=test)
        return dataclasses.replace(self, splits=splits, description={**self.description, "words": [least, most]})

    @functools.cached_property
    def test(self) -> ParallelText:
        """The test text, to be scored."""
        return ParallelText(self.splits.test, self.gold, self.more_references)


def corpus_from_files(
    train: TextFiles,
    valid: TextFiles | None = None,
    test: TextFiles | None = None,
    seed: int = 0,
    reverse: bool = False,
    max_held_out: int | None = MAX_HELD_OUT,
) -> Corpus:
    """Read a corpus from files.

    Args:
        train, valid, test: each a `(source, target)` pair of files with one sentence per line, or one TSV
            file, plain or gzip. `test` may have further files with one reference each for every sentence, after the
            pair or after a file whose name ends in .tsv or .tsv.gz. Without `valid` and `test`, the text is split
            8:1:1 at random.
        seed: seed of the random split.
        reverse: whether the second file or column is the source.
        max_held_out: maximum validation pairs, and test pairs, of the random split; None for no maximum.

    Raises:
        UserError: only one of `valid` and `test`; a missing file; a TSV file beside another one that is not a
            reference; several references in reverse.

    Example:
        >>> corpus = corpus_from_files(("train.de", "train.en"))  # doctest: +SKIP
    """
    if (valid is None) != (test is None):
        raise UserError("give validation and test files, or neither for a random split.")
    # No pipes: a run reads its text more than once, and again when it resumes.
    for file in (file for part in (train, valid, test) if part is not None for file in _as_list(part)):
        check_file(file)
    description: dict[str, Any] = {"train": _names(train), "reverse": reverse}
    if valid is None or test is None:
        description["split_seed"] = seed
        pairs = open_pairs(train, reverse)
        _check_sides(train, pairs)
        splits = random_split(pairs, seed=seed, max_held_out=max_held_out)
        # Where it changes nothing, the text is that of earlier versions, which had no maximum.
        sizes = [len(cast("Sized", part)) for part in splits]
        if sizes != split_sizes(sum(sizes)):
            description["max_held_out"] = max_held_out
        return Corpus(splits, description)
    description.update(valid=_names(valid), test=_names(test))
    pairs, more = read_test(test, reverse)
    return Corpus(
        Splits(open_pairs(train, reverse), read_pairs(valid, reverse), pairs), description, more_references=more
    )


def corpus_from_name(name: str, fetch: bool = True) -> Corpus:
    """Read a corpus by its name in the catalogue, such as "multi30k-de-en"; download it if it is not on this machine.

    Args:
        name: its name; that of two languages may be reversed.
        fetch: whether it may be downloaded.

    Raises:
        UserError: no such corpus; it was changed; it cannot be downloaded: the message says how to put it in place.

    Example:
        >>> corpus = corpus_from_name("multi30k-de-en")  # doctest: +SKIP
    """
    from keras_attn_zoo.devices import agreed, leads
    from keras_attn_zoo.experiments.catalogue.folder import MANIFEST, corpus_folder, provide, text_of
    from keras_attn_zoo.experiments.catalogue.listing import PARTS, find_corpus

    named, reverse = find_corpus(name)
    failure = None
    try:
        # Of several processes, one downloads.
        manifest = provide(named, fetch) if leads() else {}
    except UserError as error:
        failure = error
    if not agreed(failure is None):
        raise failure or UserError(f"the leading process cannot read the corpus {name}: see its message.")
    manifest = manifest or provide(named, fetch=False)
    files = text_of(named, manifest)
    splits = Splits(
        open_pairs(files["train"], reverse), *(read_pairs(files[part], reverse) for part in ("valid", "test"))
    )
    # Of the parts alone: with or without further test texts, it is the same corpus.
    sums = {file: manifest["sha256"][file] for part in PARTS for file in manifest["files"][part]}
    # Whoever reads the corpus of a run has heard it before.
    for further in (one for one in named.more_tests if fetch and one not in files):
        _LOG.info(
            "%s is read without the further test text %s: to score it, put both its sides there, and remove %s",
            shown(corpus_folder(named)),
            further,
            MANIFEST,
        )
    more = {one: ParallelText(read_pairs(files[one], reverse)) for one in named.more_tests if one in files}
    return Corpus(splits, {"name": name, "sha256": sums}, more_tests=more)


def embedded_corpus(
    train: int = 12000,
    valid: int = 400,
    test: int = 500,
    seed: int = 0,
    max_words: int = 25,
    words_per_kind: int | None = None,
    task: str = "translation",
) -> Corpus:
    """Return the built-in synthetic corpus, with gold word alignments; see `generate_splits`.

    For another task than translation, it has no alignments; see `generate_task`.

    Example:
        >>> embedded_corpus(100, 10, 10).description["generated"]["train"]
        100
    """
    from keras_attn_zoo.synthetic import generate_splits, generate_task

    sizes = {"train": train, "valid": valid, "test": test, "seed": seed, "max_words": max_words}
    if words_per_kind is not None:
        sizes["words_per_kind"] = words_per_kind
    if task != "translation":
        return Corpus(Splits(**generate_task(task, **sizes)), {"generated": sizes, "task": task})
    parts = generate_splits(train, valid, test, seed=seed, max_words=max_words, words_per_kind=words_per_kind)
    pairs = {name: [(pair.source, pair.target) for pair in part] for name, part in parts.items()}
    gold: Gold = [
        (pair.source_words, pair.target_words, Alignment(sure=pair.alignment, possible=pair.possible))
        for pair in parts["test"]
    ]
    return Corpus(Splits(pairs["train"], pairs["valid"], pairs["test"]), {"generated": sizes}, gold)


def open_pairs(files: TextFiles, reverse: bool = False) -> Iterable[Pair]:
    """Return the sentence pairs of two files or of one TSV file, as an iterable that can be reread.

    Args:
        files: `(source, target)`, or the path of a TSV file.
        reverse: whether the second file or column is the source.

    Raises:
        UserError: one of two files is a TSV file by its name.
    """
    given = _as_list(files)
    if len(given) == 1:
        return TSVFile(given[0], 1, 0) if reverse else TSVFile(given[0])
    for file in given:
        if _is_tsv(file):
            raise UserError(
                f"{shown(file)} is a TSV file, which holds source and target: give it alone, or rename it if it has "
                "one column."
            )
        _warn_of_tabs(file)
    source, target = reversed(given) if reverse else given
    return ParallelFiles(source, target)


def _is_tsv(file):
    """Whether a file among several is a TSV file; only the name tells."""
    return Path(file).name.lower().endswith((".tsv", ".tsv.gz"))


def _warn_of_tabs(file):
    """Warn of a file for one side that looks like a TSV file; a pipe cannot be read twice."""
    if kind_of(file) == "file" and all(len(row) > 1 for row in read_columns(file)):
        _LOG.warning("%s has tabs in every line, read as spaces: a file of source and target is named .tsv", file)


def read_pairs(files: TextFiles, reverse: bool = False) -> list[Pair]:
    """Read the sentence pairs of `open_pairs` into a list.

    Raises:
        UserError: no pair has both sides.

    Example:
        >>> read_pairs(("test.de", "test.en"))  # doctest: +SKIP
        [('ein Haus', 'a house')]
    """
    pairs = list(open_pairs(files, reverse))
    _check_sides(files, pairs)
    return pairs


def _check_sides(files, pairs):
    """Raise if no pair has both sides."""
    if not any(source and target for source, target in pairs):
        names = " and ".join(map(shown, _as_list(files)))
        raise UserError(f"there are no sentence pairs in {names}: give a text and its translation.")


def read_test(files: TextFiles, reverse: bool = False) -> tuple[list[Pair], list[list[str]]]:
    """Read a test text: its pairs, and the lists of further references.

    Args:
        files: see `open_pairs`; after source and target, or after a file whose name ends in .tsv or .tsv.gz, any
            number of files with further references.
        reverse: see `open_pairs`.

    Raises:
        UserError: see `read_pairs`; a file with another number of lines; a sentence without a first reference;
            further references in a TSV file, or in reverse.

    Example:
        >>> read_test(("test.de", "test.a.en", "test.b.en"))  # doctest: +SKIP
        ([('ein Haus', 'a house')], [['one house']])
    """
    given = _as_list(files)
    count = 1 if _is_tsv(given[0]) else 2
    sides, further = tuple(given[:count]), given[count:]
    if not further:
        pairs = read_pairs(sides, reverse)
        _warn_of_empty(sides, pairs)
        return pairs, []
    if reverse:
        raise UserError("a text in reverse has one reference: give its two sides alone, or the source first.")
    for file in further:
        if _is_tsv(file):
            raise UserError(f"{shown(file)} is a TSV file: give further references one per line, one file each.")
        _warn_of_tabs(file)
    pairs = read_pairs(sides)
    # sacrebleu needs it: found here, and not after hours of training.
    empty = next((number for number, (_, target) in enumerate(pairs, start=1) if not target), None)
    if empty:
        raise UserError(
            f"{shown(sides[-1])} line {empty} {'is empty' if count == 2 else 'has no target'}: with several "
            "references, each sentence needs the first one."
        )
    return pairs, [_references(file, sides[0], len(pairs)) for file in further]


def _warn_of_empty(sides, pairs):
    """Some published texts have lines without a translation; more often a line has been lost."""
    empty = [number for number, pair in enumerate(pairs, start=1) if not all(pair)]
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
    lines = list(read_lines(file))
    if len(lines) != count:
        raise UserError(
            f"{shown(source)} has {count} lines but {shown(file)} has {len(lines)}: give files of equal length."
        )
    return lines


def _as_list(files):
    return [files] if isinstance(files, (str, os.PathLike)) else list(files)


def _names(files):
    return [str(Path(file).resolve()) for file in _as_list(files)]

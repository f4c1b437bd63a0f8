"""The text of an experiment: three splits, gold alignments if available, and their origin."""

import dataclasses
import functools
import logging
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, cast

from keras_attn_zoo.corpora.given_files import TextFiles, as_list, check_sides, open_pairs, read_pairs, read_test
from keras_attn_zoo.corpora.parallel_text import Gold, ParallelText
from keras_attn_zoo.data.filters import Filter, filter_pairs
from keras_attn_zoo.data.splits import MAX_HELD_OUT, Splits, random_split, split_sizes
from keras_attn_zoo.data.text_files import NormalisedPairs
from keras_attn_zoo.evaluation.alignments import Alignment
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import check_file, shown

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Training, validation and test text.

    Attributes:
        splits: iterables of sentence pairs; in validation and test text, the translations may be as they stand.
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
            file, see `read_lines`. `test` may have further files with one reference each for every sentence, after
            the pair, after a file in WMT's XML, or after one whose name ends in .tsv, .tsv.gz, .tsv.xz or .tsv.bz2.
            Without `valid` and `test`, the text is split 8:1:1 at random.
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
    for file in (file for part in (train, valid, test) if part is not None for file in as_list(part)):
        check_file(file)
    description: dict[str, Any] = {"train": _names(train), "reverse": reverse}
    if valid is None or test is None:
        description["split_seed"] = seed
        pairs = open_pairs(train, reverse, as_written=True)
        check_sides(train, pairs)
        splits = random_split(pairs, seed=seed, max_held_out=max_held_out)
        # Where it changes nothing, the text is that of earlier versions, which had no maximum.
        sizes = [len(cast("Sized", part)) for part in splits]
        if sizes != split_sizes(sum(sizes)):
            description["max_held_out"] = max_held_out
        return Corpus(splits._replace(train=NormalisedPairs(splits.train)), description)
    description.update(valid=_names(valid), test=_names(test))
    pairs, more = read_test(test, reverse)
    return Corpus(
        Splits(open_pairs(train, reverse), read_pairs(valid, reverse, as_written=True), pairs),
        description,
        more_references=more,
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
    from keras_attn_zoo.corpora.corpus_folder import MANIFEST, corpus_folder, provide, text_of
    from keras_attn_zoo.corpora.named_corpora import PARTS, find_corpus
    from keras_attn_zoo.devices import agreed, leads

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
        open_pairs(files["train"], reverse),
        *(read_pairs(files[part], reverse, as_written=True) for part in ("valid", "test")),
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
    more = {
        one: ParallelText(read_pairs(files[one], reverse, as_written=True)) for one in named.more_tests if one in files
    }
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
    from keras_attn_zoo.corpora.synthetic import generate_splits, generate_task

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


def _names(files):
    return [str(Path(file).resolve()) for file in as_list(files)]

"""The text of an experiment: three splits, gold alignments where there are any, and where it all came from."""

import dataclasses
from pathlib import Path

from keras_attn_zoo.data.corpus import ParallelFiles, Splits, TSVFile, random_split
from keras_attn_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Training, validation and test text.

    Attributes:
        splits: iterables of sentence pairs.
        description: where they come from, plain data; stands in the run folder.
        gold: for each test pair `(source words, target words, Alignment)`, or None.
    """

    splits: Splits
    description: dict
    gold: list | None = None


def corpus_from_files(train, valid=None, test=None, seed=0):
    """Read a corpus from files.

    Args:
        train, valid, test: each a `(source, target)` pair of files with one sentence a line, or one TSV
            file, plain or gzip. Without `valid` and `test`, the text is split 8:1:1 at random.
        seed: of the random split.

    Raises:
        UserError: one of `valid` and `test` without the other; a file that is missing.

    Example:
        >>> corpus = corpus_from_files(("train.de", "train.en"))  # doctest: +SKIP
    """
    if (valid is None) != (test is None):
        raise UserError("give validation and test files, or neither for a random split.")
    description = {"train": _names(train)}
    if valid is None:
        description["split"] = {"ratios": [8, 1, 1], "seed": seed}
        return Corpus(random_split(_open(train), seed=seed), description)
    description.update(valid=_names(valid), test=_names(test))
    return Corpus(Splits(_open(train), list(_open(valid)), list(_open(test))), description)


def embedded_corpus(train=12000, valid=400, test=500, seed=0):
    """Return the corpus that the package makes itself, with gold word alignments.

    Example:
        >>> embedded_corpus(100, 10, 10).description["generated"]["train"]
        100
    """
    from keras_attn_zoo.data.synthetic import generate_splits
    from keras_attn_zoo.evaluation.alignments import Alignment

    parts = generate_splits(train, valid, test, seed=seed)
    pairs = {name: [(pair.source, pair.target) for pair in part] for name, part in parts.items()}
    gold = [
        (pair.source_words, pair.target_words, Alignment(sure=pair.alignment, possible=pair.possible))
        for pair in parts["test"]
    ]
    description = {"generated": {"train": train, "valid": valid, "test": test, "seed": seed}}
    return Corpus(Splits(pairs["train"], pairs["valid"], pairs["test"]), description, gold)


def _open(files):
    return TSVFile(files) if isinstance(files, (str, Path)) else ParallelFiles(*files)


def _names(files):
    return [str(file) for file in ([files] if isinstance(files, (str, Path)) else files)]

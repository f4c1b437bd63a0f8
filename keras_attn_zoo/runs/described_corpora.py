"""The text that a run folder describes: what is read of it, and whether its files may be."""

import itertools
import shlex
from collections.abc import Callable
from typing import Any

from keras_attn_zoo.corpora.corpus import Corpus, corpus_from_files, corpus_from_name, embedded_corpus
from keras_attn_zoo.corpora.parallel_text import ParallelText
from keras_attn_zoo.data.text_files import TSVFile, read_columns
from keras_attn_zoo.runs.run_folder import LARGEST_TEXT, RunFolder
from keras_attn_zoo.runs.tasks import check_generated
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import check_size, kind_of, shown

# For a corpus that a run folder asks for; ours has 12,900 pairs, and a thousand take about a second.
_MOST_GENERATED = 100_000


def corpus_from_description(description: dict[str, Any], test_only: bool = False) -> Corpus:
    """Read the corpus that a run folder describes.

    Args:
        description: what it says.
        test_only: whether a corpus to be generated needs no training and validation text, which is drawn last.

    Raises:
        UserError: it is not a description of a corpus; a corpus to be generated is too large; a file is missing; a
            corpus by name is not on this machine, or is another text.
    """
    if not is_description(description):
        raise UserError(f"{str(description)[:100]!r} does not describe a corpus: is config.json damaged?")
    if "generated" in description:
        sizes, task = description["generated"], check_generated(description.get("task", "translation"))
        if sum(sizes.get(name, 0) for name in ("train", "valid", "test")) > _MOST_GENERATED:
            raise UserError(
                f"the corpus to generate has more than {_MOST_GENERATED:,} sentence pairs: give --test instead."
            )
        sizes = {**sizes, "train": 0, "valid": 0} if test_only else sizes
        return embedded_corpus(**sizes, task=task)
    if "name" in description:
        corpus = corpus_from_name(description["name"], fetch=False)
        if corpus.description["sha256"] != description["sha256"]:
            raise UserError(
                f"the corpus {description['name']} on this machine is another text than the run's: give --test."
            )
        return corpus.within(*description["words"]) if "words" in description else corpus
    given = {name: description[name] for name in ("train", "valid", "test") if name in description}
    parts: dict[str, Any] = {name: tuple(files) if len(files) > 1 else files[0] for name, files in given.items()}
    split = {"seed": description.get("split_seed", 0), "max_held_out": description.get("max_held_out")}
    return corpus_from_files(**parts, **split, reverse=description["reverse"])


def own_test_text(run: RunFolder, ask: Callable[[str], bool] | None = None) -> ParallelText:
    """Return the test text of a run.

    A run folder keeps its test text. Older ones name files elsewhere, and so may
    one from an untrusted source: such files are read only if `ask` allows it.

    Args:
        run: a `RunFolder`.
        ask: function that takes a one-line question and returns whether the answer is yes; None means no.

    Raises:
        UserError: the folder has no test text, and the files that it names may not be read.
    """
    description = run.corpus()
    if "generated" in description:
        return corpus_from_description(description, test_only=True).test
    if kind_of(run.test) is not None:
        check_size(run.test, LARGEST_TEXT)
        further = (row[2:] for row in read_columns(run.test, as_written=True))
        pairs = TSVFile(run.test, as_written=True)
        return ParallelText(pairs, more_references=list(itertools.zip_longest(*further, fillvalue="")))
    if is_description(description) and "name" in description:
        return corpus_from_description(description).test
    if not is_description(description):
        raise UserError(f"{shown(run.config)} does not describe a corpus: give the test text with --test.")
    if ask is None or not ask(_question(run, description)):
        given = " ".join(shlex.quote(shown(file)) for file in description.get("test", ("SOURCE", "TARGET")))
        raise UserError(f"{shown(run.path)} has no test text and names files outside it: give --test {given}.")
    return corpus_from_description(description).test


def own_corpus(run: RunFolder, ask: Callable[[str], bool]) -> Corpus:
    """Return all text of a run, which is read from files only if `ask` allows it; see `own_test_text`."""
    description = run.corpus()
    if is_description(description) and "train" in description and not ask(_question(run, description)):
        raise UserError(f"{shown(run.path)} names files outside it, which were not read: give the files themselves.")
    return corpus_from_description(description)


def _question(run, description):
    files = [file for name in ("train", "valid", "test") for file in description.get(name, ())]
    return f"{shown(run.path)} names files outside it ({', '.join(map(shown, files))}): read them?"


def is_description(description: Any) -> bool:
    """Return whether plain data is a description written by one of the functions of this module."""
    if not isinstance(description, dict):
        return False
    if "generated" in description:
        sizes = description["generated"]
        names = {"train", "valid", "test", "seed", "max_words", "words_per_kind"}
        return isinstance(sizes, dict) and sizes.keys() <= names and all(type(x) is int for x in sizes.values())
    if "name" in description:
        words = description.get("words", [1, 1])
        fits = isinstance(words, list) and len(words) == 2 and all(type(one) is int for one in words)
        return fits and isinstance(description["name"], str) and isinstance(description.get("sha256"), dict)
    parts = [description[name] for name in ("train", "valid", "test") if name in description]
    lists = all(isinstance(one, list) and one and all(isinstance(file, str) for file in one) for one in parts)
    fits = lists and all(len(description[name]) <= 2 for name in ("train", "valid") if name in description)
    numbers = (description.get(name, 1) for name in ("split_seed", "max_held_out"))
    fits = fits and all(type(number) is int and number >= 0 for number in numbers)
    return fits and "train" in description and isinstance(description.get("reverse"), bool)

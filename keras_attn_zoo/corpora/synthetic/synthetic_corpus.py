"""The corpus: an endless stream of sentence pairs, splits, and files."""

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

from keras_attn_zoo.corpora.synthetic.grammar import SyntheticPair
from keras_attn_zoo.corpora.synthetic.sentences import SentenceSampler
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, atomic_path

# Consecutive sentences of the wrong length before a request is considered impossible.
_NO_SENTENCE = 2000


def check_count(name: str, value: int, least: int) -> None:
    """Raise if a number is no integer, or too small."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UserError(f"{name} is {value!r}: give an integer of at least {least}.")


def _stream(seed, min_words, max_words, words_per_kind):
    """Yield sentence pairs endlessly, no German sentence twice."""
    sampler = SentenceSampler(seed, words_per_kind)
    seen, failures = set(), 0
    while True:
        pair = sampler.sentence()
        fits = all(min_words <= len(words) <= max_words for words in (pair.source_words, pair.target_words))
        if fits and pair.source not in seen:
            seen.add(pair.source)
            failures = 0
            yield pair
            continue
        failures += 1
        if failures == _NO_SENTENCE:
            few = "" if words_per_kind is None else f" with words_per_kind={words_per_kind}"
            raise UserError(f"found no more sentences of {min_words} to {max_words} words{few}: widen the limits.")


def generate_corpus(
    size: int, seed: int = 0, min_words: int = 4, max_words: int = 25, words_per_kind: int | None = None
) -> list[SyntheticPair]:
    """Generate German-English sentence pairs with gold alignments.

    Use it if no corpus is available: for examples, tests, and comparisons of
    mechanisms that should run anywhere and be scored by alignment.

    Args:
        size: number of pairs.
        seed: integer; the same seed gives the same pairs, and a larger corpus begins with the smaller one.
        min_words: minimum words per sentence, on either side, punctuation included.
        max_words: maximum words per sentence, counted likewise.
        words_per_kind: number of words of each kind (nouns for persons, verbs with one object, names, ...) to use;
            None for the whole lexicon. With a small lexicon, a small system learns to translate within a minute.

    Returns:
        List of `SyntheticPair`, no German sentence twice.

    Raises:
        UserError: an invalid number, or too few sentences of this length.

    Example:
        >>> pair = generate_corpus(1, seed=3)[0]
        >>> from keras_attn_zoo.data import split_words
        >>> split_words(pair.source) == list(pair.source_words)
        True
    """
    check_count("size", size, 0)
    check_count("seed", seed, 0)
    check_count("min_words", min_words, 1)
    check_count("max_words", max_words, min_words)
    if words_per_kind is not None:
        check_count("words_per_kind", words_per_kind, 1)
    return list(islice(_stream(seed, min_words, max_words, words_per_kind), size))


def generate_splits(
    train: int,
    valid: int,
    test: int,
    seed: int = 0,
    min_words: int = 4,
    max_words: int = 25,
    words_per_kind: int | None = None,
) -> dict[str, list[SyntheticPair]]:
    """Generate a corpus in three splits that share words but no German sentence.

    The test set is drawn first and the training set last, so that systems
    trained on more or fewer pairs are compared on the same test set.

    Args:
        train, valid, test: number of training, validation and test pairs.
        seed, min_words, max_words, words_per_kind: as in `generate_corpus`.

    Returns:
        Dictionary of lists of `SyntheticPair` under "train", "valid" and "test".

    Raises:
        UserError: an invalid number.

    Example:
        >>> {name: len(pairs) for name, pairs in generate_splits(20, 5, 5).items()}
        {'train': 20, 'valid': 5, 'test': 5}
    """
    for name, size in (("train", train), ("valid", valid), ("test", test)):
        check_count(name, size, 0)
    pairs = generate_corpus(train + valid + test, seed, min_words, max_words, words_per_kind)
    return {"train": pairs[test + valid :], "valid": pairs[test : test + valid], "test": pairs[:test]}


def _pharaoh(pair):
    links = [(link, "-") for link in pair.alignment] + [(link, "p") for link in pair.possible]
    return " ".join(f"{j}{mark}{i}" for (j, i), mark in sorted(links))


def write_corpus(folder: PathLike, splits: Mapping[str, Iterable[SyntheticPair]]) -> None:
    """Write a corpus as text files with its alignments.

    Every split becomes three files of equal length: `train.de` and `train.en` with raw text, and `train.align` with
    links "source-target" between the words of `split_words`, counted from 0, possible ones as "source p target" without
    spaces. The folder appears whole or not at all.

    Args:
        folder: where to write; must be empty or not exist.
        splits: dictionary of lists of `SyntheticPair`, as from `generate_splits`.

    Raises:
        UserError: the folder is not empty, or cannot be written.

    Example:
        >>> write_corpus("corpus", generate_splits(20, 5, 5))
    """
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not an empty folder: choose another one, or remove it first.")
    with atomic_path(folder) as aside:
        aside.mkdir()
        for name, pairs in splits.items():
            columns = {
                "de": [pair.source for pair in pairs],
                "en": [pair.target for pair in pairs],
                "align": [_pharaoh(pair) for pair in pairs],
            }
            for ending, lines in columns.items():
                text = "".join(line + "\n" for line in lines)
                (aside / f"{name}.{ending}").write_text(text, encoding="utf-8")

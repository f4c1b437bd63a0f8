"""Text of a run that has been moved, the same sentences in files of other names; or other sentences in its files."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_attn_zoo.data.text_files import read_columns
from keras_attn_zoo.data.words import normalise
from keras_attn_zoo.files import PathLike, kind_of


def with_names_of(
    own: dict[str, Any], given: dict[str, Any], kept: PathLike, test: Iterable[Sequence[str]]
) -> dict[str, Any]:
    """Return the description of a text with the file names that a run has for the same text, and with none for another.

    A part of the text is the same by the fingerprint of the training text, by that of the validation text, or by the
    sentences of the test text, which the run folder keeps. Only the names of files are left to compare: the fingerprint
    of the validation text, which runs of earlier versions lack, is returned as the run has it.

    Args:
        own: the description in the run folder.
        given: that of the text at hand.
        kept: the run's file of its test text.
        test: the sentences of the test text at hand with their references; none if they are not to be compared.

    Example:
        >>> own = {"train": ["/old/de", "/old/en"], "valid": ["/old/v"], "test": ["/old/t"], "fingerprint": "1"}
        >>> with_names_of(own, {**own, "train": ["/new/de", "/new/en"]}, "test.tsv", [])["train"]
        ['/old/de', '/old/en']
    """
    test = list(test)
    changed = [part for part in ("train", "valid", "test") if part in own and own[part] != given.get(part)]
    same = {part for part in changed if _is_same(part, own, given, kept, test)}
    # Of a random split, one text is all three parts.
    if "train" in same and "test" not in own and not _is_same("test", own, given, kept, test):
        same = set()
    names = {part: own[part] for part in same} | dict.fromkeys(_with_other_sentences(own, given, kept, test))
    as_own = {key: own[key] for key in ("valid_fingerprint",) if key in own}
    return {key: value for key, value in given.items() if key != "valid_fingerprint"} | names | as_own


def _with_other_sentences(own, given, kept, test):
    """Parts of the text that have other sentences in files of the same names; of a random split, the one text."""
    before, now = (one.get("valid_fingerprint") for one in (own, given))
    found = {"valid"} if None not in (before, now) and before != now else set()
    if test and kind_of(kept) == "file" and not _has_kept(kept, test):
        found.add("test")
    return {part if part in own else "train" for part in found}


def _has_kept(kept, test):
    return [list(map(normalise, row)) for row in test] == list(read_columns(kept))


def _is_same(part, own, given, kept, test):
    """Whether a part of the text, of which the names differ, has the same sentences."""
    if part == "test":
        return kind_of(kept) == "file" and _has_kept(kept, test)
    key = {"train": "fingerprint", "valid": "valid_fingerprint"}[part]
    if part == "valid" and key not in own:
        # Runs of earlier versions have no more of this text than the names of its files.
        return _names(own[part]) == _names(given.get(part))
    return own.get(key) is not None and own[key] == given.get(key)


def _names(files):
    # Of a damaged description, anything.
    return [Path(str(file)).name for file in files] if isinstance(files, list) else files

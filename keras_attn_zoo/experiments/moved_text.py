"""Text of a run that has been moved: the same sentences in files of other names."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_attn_zoo.data.text_files import read_columns
from keras_attn_zoo.data.words import normalise
from keras_attn_zoo.files import PathLike, kind_of


def with_names_of(
    own: dict[str, Any], given: dict[str, Any], kept: PathLike, test: Iterable[Sequence[str]]
) -> dict[str, Any]:
    """Return the description of a text with the file names that a run has for the same text.

    A part of the text is the same by the fingerprint of the training text, by that of the validation text, or by the
    sentences of the test text, which the run folder keeps.

    Args:
        own: the description in the run folder.
        given: that of the text at hand.
        kept: the run's file of its test text.
        test: the sentences of the test text at hand with their references.

    Example:
        >>> own = {"train": ["/old/de", "/old/en"], "valid": ["/old/v"], "test": ["/old/t"], "fingerprint": "1"}
        >>> with_names_of(own, {**own, "train": ["/new/de", "/new/en"]}, "test.tsv", [])["train"]
        ['/old/de', '/old/en']
    """
    changed = [part for part in ("train", "valid", "test") if part in own and own[part] != given.get(part)]
    same = {part for part in changed if _is_same(part, own, given, kept, test)}
    # Of a random split, one text is all three parts.
    if "train" in same and "test" not in own and not _is_same("test", own, given, kept, test):
        same = set()
    return {**given, **{part: own[part] for part in same}}


def _is_same(part, own, given, kept, test):
    """Whether a part of the text, of which the names differ, has the same sentences."""
    if part == "test":
        return kind_of(kept) == "file" and [list(map(normalise, row)) for row in test] == list(read_columns(kept))
    key = {"train": "fingerprint", "valid": "valid_fingerprint"}[part]
    if part == "valid" and key not in own:
        # Runs of earlier versions have no more of this text than the names of its files.
        return _names(own[part]) == _names(given.get(part))
    return own.get(key) is not None and own[key] == given.get(key)


def _names(files):
    # Of a damaged description, anything.
    return [Path(str(file)).name for file in files] if isinstance(files, list) else files

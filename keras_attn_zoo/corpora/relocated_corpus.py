"""Whether the text at hand is that of a run: the same sentences, wherever their files are and whatever their names."""

from pathlib import Path
from typing import Any

from keras_attn_zoo.support.files import shown

_PARTS = {"train": "training text", "valid": "validation text", "test": "test text"}
_FINGERPRINTS = {"train": "fingerprint", "valid": "valid_fingerprint", "test": "test_fingerprint"}


def other_text(own: dict[str, Any], given: dict[str, Any]) -> list[str]:
    """Return what a run was started with if that is not the text at hand, in words; nothing if it is.

    Text is compared as it stands in the files, since it is scored so; the training part of a random split is
    normalised. Runs of earlier versions have no fingerprints of validation and test text, but the names of files.

    Args:
        own: the description in the run folder.
        given: that of the text at hand.

    Example:
        >>> own = {"train": ["/old/de", "/old/en"], "reverse": False, "fingerprint": "1"}
        >>> given = {**own, "train": ["/new/de", "/new/en"]}
        >>> other_text(own, given)
        ['other text than /new/de and /new/en']
    """
    changed = [part for part in _PARTS if not _is_same(part, own, given)]
    # Subword models are made of the text, and known to the run alone; links are no text.
    compared = {*_PARTS, *_FINGERPRINTS.values(), "subwords", "links"}
    if not changed and any(own.get(key) != given.get(key) for key in (own.keys() | given.keys()) - compared):
        changed = ["train"]
    if changed and not {"train", "valid"} <= given.keys():
        # One text is all three parts.
        return [f"other text than {_called(given)}"]
    return [f"other {_PARTS[part]} than {_files(given[part])}" for part in changed]


def other_reading(own: dict[str, Any], given: dict[str, Any]) -> str | None:
    """Return how a run was started if its files were read in another way, and what to do; None if they were not.

    Example:
        >>> other_reading({"train": ["a"], "reverse": True}, {"train": ["a"], "reverse": False})
        'with --reverse: resume with it'
    """
    if "train" not in own or _names(own["train"]) != _names(given.get("train")):
        return None
    if own.get("reverse") != given.get("reverse"):
        word = "with" if own.get("reverse") else "without"
        return f"{word} --reverse: resume {word} it"
    if "split_seed" not in own.keys() & given.keys():
        return None
    options = [
        f"--{name.replace('_', '-')} {'none' if own.get(name) is None else shown(own[name])}"
        for name in ("split_seed", "max_held_out")
        if own.get(name) != given.get(name)
    ]
    return f"with another random split of its text: resume with {' '.join(options)}" if options else None


def _is_same(part, own, given):
    before, now = (one.get(_FINGERPRINTS[part]) for one in (own, given))
    if None not in (before, now):
        return before == now
    if part == "valid":
        return _names(own.get(part)) == _names(given.get(part))
    # Of a random split, one text is all three parts.
    named = part if part in own else "train"
    return own.get(named) == given.get(named)


def _names(files):
    # Of a damaged description, anything.
    return [Path(str(file)).name for file in files] if isinstance(files, list) else files


def _called(description):
    if "train" in description:
        return _files(description["train"])
    return f"the corpus {shown(description['name'])}" if "name" in description else "this built-in corpus"


def _files(files):
    """The files of a part, as they would be named in the folder of this process."""
    here = Path.cwd()
    paths = (Path(file) for file in files)
    return " and ".join(shown(one.relative_to(here) if one.is_relative_to(here) else one) for one in paths)

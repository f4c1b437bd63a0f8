"""What the texts of runs are called in tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_attn_zoo.data.compressed_files import SUFFIXES
from keras_attn_zoo.runs.described_corpora import is_description
from keras_attn_zoo.runs.run_folder import WITH_TOP_K

_TSV = ".tsv"


def text_name(description: Mapping[str, Any]) -> str:
    """Return what a text is called: its name, or that of its training files.

    Example:
        >>> text_name({"train": ["data/train.de", "data/train.en"], "reverse": False})
        'data/train de→en'
    """
    if not is_description(description):
        return "unknown"
    if "generated" in description:
        return "the built-in corpus"
    return description["name"] if "name" in description else files_name(description["train"], description["reverse"])


def part_name(description: Mapping[str, Any], part: str, origin: Mapping[str, Any] | None = None) -> str:
    """Return what a part of a run's text is called, or another text that it was scored on.

    Args:
        description: that of the run's text.
        part: "train", or the name of scores.
        origin: where the scored text was read, if that is known; see `ParallelText`.

    Example:
        >>> part_name({"name": "wmt16-ro-en", "sha256": {}}, "valid-k6")
        'wmt16-ro-en valid'
        >>> part_name({"train": ["tatoeba/all.tsv.gz"], "reverse": True}, "test")
        'tatoeba/all reversed, test'
        >>> part_name({"train": ["a.tsv"], "reverse": False}, "gold", {"files": ["links/test.de-en"], "reverse": False})
        'links/test.de-en'
    """
    part = found[1] if (found := WITH_TOP_K.fullmatch(part)) else part
    if origin is not None:
        return files_name(list(map(str, origin["files"])), origin["reverse"])
    if not is_description(description):
        return "unknown text"
    if "generated" in description or "name" in description:
        return f"{description.get('name', 'built-in corpus')} {part}"
    if part in description:
        return files_name(description[part], description["reverse"])
    # Held out of the training text; a further test text has its name alone.
    own = files_name(description["train"], description["reverse"])
    return f"{own}, {part}" if part in ("valid", "test") else part


def files_name(files: Sequence[str], reverse: bool = False) -> str:
    """Return a short name of the files of a text: their folder, what they share, and both sides.

    Example:
        >>> files_name(["/text/multi30k/val.de.gz", "/text/multi30k/val.en.gz"], reverse=True)
        'multi30k/val en→de'
        >>> files_name(["/text/hansards-fr-en/test.tsv.gz"])
        'hansards-fr-en/test'
    """
    paths = [Path(file) for file in files]
    names = [(path.stem if path.suffix in SUFFIXES else path.name).removesuffix(_TSV) for path in paths]
    folders = {path.parent.name for path in paths}
    folder = f"{folders.pop()}/".lstrip("/") if len(folders) == 1 else ""
    (stem, *others), sides = zip(*(name.rpartition(".")[::2] for name in names), strict=True)
    if stem and others == [stem]:
        return f"{folder}{stem} {'→'.join(sides[::-1] if reverse else sides)}"
    return f"{folder}{', '.join(names)}{' reversed' if reverse else ''}"

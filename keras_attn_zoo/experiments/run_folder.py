"""The folder of one run, and its files."""

import importlib.metadata
import math
import os
import platform
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from keras_attn_zoo.data.words import normalise
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments.system import System
from keras_attn_zoo.files import (
    PathLike,
    is_partial,
    kind_of,
    read_json,
    remove_partials,
    shown,
    write_json,
    write_text,
)
from keras_attn_zoo.locks import locked

# Folders of files by the name of a test set or a picture.
_PARTS = ("hypotheses", "references", "alignments", "pictures")
_PACKAGES = [
    "keras-attn-zoo",
    "keras",
    "keras-hub",
    "jax",
    "jaxlib",
    "tensorflow",
    "torch",
    "numpy",
    "sentencepiece",
    "sacrebleu",
    "matplotlib",
]


# File systems take 255; what is written aside has a suffix.
_LONGEST_NAME = 200


class RunFolder:
    """Paths of a run folder.

    ```
    config.json        the resolved settings, and where the text came from
    test.tsv           the test text, source and target
    environment.json   versions, backend, machine
    log.jsonl          numbers of every step and round
    state.npz          what resuming needs
    best/              the preset of the best round
    hypotheses/        translations, one file a test set
    alignments/        Pharaoh lines, one file a test set
    pictures/          attention of sentences, curves
    scores.json        all scores, with signatures and times
    ```

    Args:
        path: the folder.

    Example:
        >>> RunFolder("runs/bahdanau").log
        PosixPath('runs/bahdanau/log.jsonl')
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.test = self.path / "test.tsv"
        self.environment = self.path / "environment.json"
        self.log = self.path / "log.jsonl"
        self.state = self.path / "state.npz"
        self.best = self.path / "best"
        self.scores = self.path / "scores.json"

    @property
    def holds_run(self) -> bool:
        """Whether a run was begun here: a preset has a `config.json` too, but also files that no run has."""
        of_preset = ("metadata.json", "task.json", "model.weights.h5")
        return kind_of(self.config) is not None and not any(kind_of(self.path / name) for name in of_preset)

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes from training here; see `locked`."""
        return locked(self.path)

    def lock_scores(self) -> AbstractContextManager[None]:
        """Wait for other processes that write scores, and keep them from writing; see `locked`."""
        return locked(self.path, ".scores.lock", wait=True)

    def check_links(self) -> None:
        """Raise if a file of the folder is a link out of it: nothing is read or written there.

        The data may be elsewhere.

        Raises:
            UserError: names the link.
        """
        inside = os.path.realpath(self.path)
        for folder, folders, files in os.walk(self.path):
            if folder == str(self.path):
                folders[:] = [name for name in folders if name != "data"]
            for path in (os.path.join(folder, name) for name in (*folders, *files)):
                if os.path.islink(path) and os.path.commonpath([inside, os.path.realpath(path)]) != inside:
                    raise UserError(f"{shown(path)} is a link out of the run folder: put the file in its place.")

    def remove_partials(self) -> None:
        """Remove what killed processes left behind; call it while holding the lock."""
        remove_partials(self.path)
        with self.lock_scores():
            for part in _PARTS:
                remove_partials(self.path / part)

    def hypotheses(self, name: str) -> Path:
        """File of the translations of a test set."""
        return self._file("hypotheses", name, ".txt")

    def references(self, name: str) -> Path:
        """File of the given translations of a test set."""
        return self._file("references", name, ".txt")

    def alignment(self, name: str) -> Path:
        """File of the word alignments of a test set."""
        return self._file("alignments", name, ".align")

    def picture(self, name: str) -> Path:
        """File of a picture."""
        return self._file("pictures", name, ".png")

    def _file(self, part, name, suffix):
        return self.path / part / f"{check_name(name)}{suffix}"

    def check_free(self, resume: bool = False, beside: Iterable[str] = ()) -> None:
        """Raise if a run cannot begin here, before anything is written.

        Args:
            resume: whether to resume the run in this folder.
            beside: names that may be in the folder before the run begins.

        Raises:
            UserError: the folder holds a run that is not to be resumed, or something else.
        """
        if self.holds_run:
            if not resume:
                raise UserError(f"{self.path} already holds a run: resume it with --resume, or choose another folder.")
        elif kind_of(self.path) is not None:
            # What a process that was killed before the run had begun has left.
            own = {*beside, ".lock", self.test.name, self.environment.name}
            names = {one.name for one in self.path.iterdir()} - own if self.path.is_dir() else {self.path.name}
            if not all(map(is_partial, names)):
                raise UserError(f"{shown(self.path)} is not empty and is not a run folder: choose another one.")

    def create(self, system: System, corpus: dict[str, Any], test: Iterable[tuple[str, str]] = ()) -> None:
        """Begin a run, unless the folder holds one.

        Args:
            system: the `System` to train.
            corpus: description of the text, plain data.
            test: sentence pairs of the test text, which the folder keeps.
        """
        if self.holds_run:
            return
        write_text(self.test, "".join(f"{normalise(source)}\t{normalise(target)}\n" for source, target in test))
        write_json(self.environment, environment())
        # Last: with it the folder holds a run.
        write_json(self.config, {"system": system.to_dict(), "corpus": corpus})

    def check_settings(self, system: System, corpus: dict[str, Any]) -> None:
        """Check that the run in the folder has the same settings and text.

        Args:
            system, corpus: see `create`.

        Raises:
            UserError: the run was started with other settings or text; the message names them.
        """
        if not self.holds_run:
            return
        changed = sorted(_differences(self._read_config(), {"system": system.to_dict(), "corpus": corpus}))
        if changed:
            raise UserError(
                f"{shown(self.path)} was started with other settings ({', '.join(changed)}): "
                "resume with the same ones, or take another folder."
            )

    def system(self) -> System:
        """Return the `System` of the run.

        Raises:
            UserError: this is not a run folder.
        """
        value = self._read_config()["system"]
        try:
            return System.from_dict(value)
        except UserError as error:
            raise UserError(f"{shown(self.config)}: {error}") from None
        except (TypeError, ValueError, AttributeError, KeyError):
            raise self._damaged_config() from None

    def corpus(self) -> dict[str, Any]:
        """Return the description of the text of the run.

        Raises:
            UserError: this is not a run folder.
        """
        return self._read_config()["corpus"]

    def _read_config(self):
        if not self.holds_run:
            raise UserError(f"{shown(self.path)} is not a run folder: it has no config.json of a run. Check the path.")
        self.check_links()
        config = read_json(self.config)
        if not isinstance(config, dict) or not all(isinstance(config.get(key), dict) for key in ("system", "corpus")):
            raise self._damaged_config()
        return config

    def _damaged_config(self):
        return UserError(f"{shown(self.config)} is damaged: it has no settings. Restore or remove it.")

    def backend(self) -> str:
        """Return the name of the backend that the run was started with.

        Raises:
            UserError: `environment.json` is damaged.
        """
        found = read_json(self.environment)
        if not isinstance(found, dict) or not isinstance(found.get("backend"), str):
            raise UserError(f"{shown(self.environment)} is damaged: it names no backend. Restore it.")
        return found["backend"]

    def read_scores(self) -> dict[str, dict[str, Any]]:
        """Return the scores so far; empty for a run that was not scored.

        Raises:
            UserError: the file is damaged.
        """
        if kind_of(self.scores) is None:
            return {}
        self.check_links()
        scores = read_json(self.scores)
        if not isinstance(scores, dict) or not all(_fits(one, _SCORES) for one in scores.values()):
            raise UserError(f"{shown(self.scores)} is damaged: it holds something other than scores. Remove it.")
        return scores

    def add_scores(self, name: str, scores: dict[str, Any]) -> None:
        """Add the scores of a test set, replacing earlier ones of that name.

        Raises:
            UserError: the name cannot be that of a file.
        """
        check_name(name)
        write_json(self.scores, {**self.read_scores(), name: _finite(scores)})


# What a table and a picture read of scores. In a dict, `...` stands for any name, and a name with a question mark may
# be left out.
_NUMBER, _MAYBE = (int, float), (int, float, type(None))
_SCORES = {
    "sentences": int,
    "beams": int,
    "length_penalty": _NUMBER,
    "search_top_k": (int, type(None)),
    "text": {"metrics": {...: {"score": _NUMBER, "signature": str}}},
    "perplexity?": _MAYBE,
    "accuracy?": _MAYBE,
    "alignment?": {...: _MAYBE},
    "translation_seconds": _NUMBER,
    "translation_compilation_seconds": _NUMBER,
    "training": {
        "steps": int,
        "seconds": _NUMBER,
        "compilation_seconds": _NUMBER,
        "tokens_per_second": _MAYBE,
        "environment": str,
    },
    "parameters": int,
}


def _fits(value, shape):
    """Whether plain data has the given shape; extra entries are ignored."""
    if not isinstance(shape, dict):
        return isinstance(value, shape) and not isinstance(value, bool)
    if not isinstance(value, dict):
        return False
    if ... in shape:
        return all(_fits(one, shape[...]) for one in value.values())
    return all(
        _fits(value[name.rstrip("?")], one) if name.rstrip("?") in value else name.endswith("?")
        for name, one in shape.items()
    )


def _finite(value):
    """Plain data with None for NaN and infinity, which JSON lacks and tables show as a dash."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_name(name: str) -> str:
    """Return the name of a test set; raise if no file of a run folder can have it.

    Raises:
        UserError: it is empty, too long, or would lead out of the folder.

    Example:
        >>> check_name("newstest2014")
        'newstest2014'
    """
    fits = 0 < len(name.encode(errors="replace")) <= _LONGEST_NAME and name.isprintable()
    if not fits or name in (".", "..") or {"/", "\\"} & set(name):
        raise UserError(
            f"{name[:80]!r} cannot name a test set: a name has no slash, no control character, and up to "
            f"{_LONGEST_NAME} bytes."
        )
    return name


def environment() -> dict[str, Any]:
    """Return versions, backend and machine, plain data."""
    import keras

    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "backend": keras.config.backend(),
        "packages": versions,
        "command": sys.argv,
    }


def _differences(left, right, path=""):
    """Yield the names of the entries in which two nested dicts differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in left.keys() | right.keys():
            yield from _differences(left.get(key), right.get(key), f"{path}.{key}" if path else key)
    elif left != right:
        yield path

"""The folder of one run, and its files."""

import contextlib
import hashlib
import importlib.metadata
import itertools
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_attn_zoo.corpora.relocated_corpus import other_reading, other_text
from keras_attn_zoo.data.text_files import read_columns, read_lines
from keras_attn_zoo.runs.score_data import are_scores, finite
from keras_attn_zoo.runs.settings import UNGUIDED
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.runs.timing_data import is_timing
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import (
    PathLike,
    atomic_path,
    check_size,
    is_partial,
    kind_of,
    read_json,
    remove,
    remove_partials,
    shown,
    write_json,
    write_text,
)
from keras_attn_zoo.support.locks import locked
from keras_attn_zoo.support.setting_types import shown_value

# Folders whose files are named after a test set or a picture.
_PARTS = ("hypotheses", "references", "alignments", "sentence_sums", "sentence_counts", "pictures")
# Settings that runs of earlier versions lack, with what they did; those of its parts.
_LATER_SETTINGS = {"precision": "float32"}
_LATER_IN_PARTS: dict[str, dict[str, Any]] = {
    "data": dict(drop_illegal_characters=False, subword_sampling_alpha=0.1, truncate_keep="start", task="translation"),
    "training": {
        "bleu_tokenize": "13a",
        "keep_last": 0,
        "keep_best": 0,
        **UNGUIDED,
        **dict.fromkeys(("average", "ema_momentum", "initial_model", "freeze", "lora_rank")),
    },
    "search": {"coverage_penalty": 0.0, "min_length": 0, "no_repeat_ngram": 0},
}
# The settings of the length of a training.
LENGTH = ("epochs", "budget")
# Whose versions a run notes.
_PACKAGES = [
    *("keras-attn-zoo", "keras", "keras-hub", "jax", "jaxlib", "tensorflow"),
    *("torch", "numpy", "sentencepiece", "sacrebleu", "matplotlib"),
]
# Bytes of the text of a run folder: of millions of sentences.
LARGEST_TEXT = 2**30
# File systems allow 255; temporary files add a suffix.
_LONGEST_NAME = 200

# Of a preset, and of a checkpoint in the format of Transformers.
_NOT_OF_RUNS = (
    *("metadata.json", "task.json", "model.weights.h5"),
    *("model.safetensors", "pytorch_model.bin", "source.spm", "vocab.json"),
)


class RunFolder:
    """Paths of a run folder.

    ```
    config.json        the resolved settings, and the origin of the text
    test.tsv           the test text, source and references
    environment.json   versions, backend, machine, command
    log.jsonl          figures for every step and round
    tensorboard/       the same for TensorBoard, if asked for
    data/              subword models, truecasers and encoded text; in a comparison, beside the runs
    state.npz          what resuming needs
    best/              the preset of the best round
    earlier_best/      the best round before the last, if the last is the best and a budget cut it short
    checkpoints/       presets of the last and the best rounds, if a setting asks for them
    average/           the preset of the mean of the last rounds, if a setting asks for it
    hypotheses/        translations, one file per test text
    references/        what they were scored against, one file per test text
    alignments/        Pharaoh lines, one file per test text
    sentence_sums/     what loss, accuracy and AER are ratios of, one file per test text
    pictures/          attention of sentences, curves
    scores.json        all scores, with signatures and times
    timing.json        times of training steps and of a translation, from a pass of their own
    sentence_counts/   what metrics count in each translation, in place of text that is not passed on
    text_counts.json   sentences and words of the training text, likewise
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
        self.tensorboard = self.path / "tensorboard"
        self.state = self.path / "state.npz"
        self.best = self.path / "best"
        self.checkpoints = self.path / "checkpoints"
        self.average = self.path / "average"
        self.earlier_best = self.path / "earlier_best"
        self.scores = self.path / "scores.json"
        self.timing = self.path / "timing.json"
        self.text_counts = self.path / "text_counts.json"

    @property
    def holds_run(self) -> bool:
        """Whether a run was started here: presets and checkpoints have a `config.json` too, but also other files."""
        return kind_of(self.config) is not None and not any(kind_of(self.path / name) for name in _NOT_OF_RUNS)

    def lock(self, wait: bool = False) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from training here; see `locked`."""
        return locked(self.path, wait=wait)

    def lock_scores(self) -> contextlib.AbstractContextManager[None]:
        """Wait for other processes that write scores, and keep them from writing; see `locked`."""
        return locked(self.path, ".scores.lock", wait=True)

    def check_links(self) -> None:
        """Raise if a file of the folder is a link to somewhere outside it; only the data may be elsewhere."""
        inside = os.path.realpath(self.path)
        for folder, folders, files in os.walk(self.path):
            if folder == str(self.path):
                folders[:] = [name for name in folders if name != "data"]
            for path in (os.path.join(folder, name) for name in (*folders, *files)):
                if os.path.islink(path) and os.path.commonpath([inside, os.path.realpath(path)]) != inside:
                    raise UserError(f"{shown(path)} links to outside the run folder: replace it with the file itself.")

    def remove_partials(self) -> None:
        """Remove what killed processes left behind; call this only while holding the lock."""
        remove_partials(self.path)
        remove_partials(self.checkpoints)
        with self.lock_scores():
            for part in _PARTS:
                remove_partials(self.path / part)

    def hypotheses(self, name: str) -> Path:
        """Return the file of the translations of a test set."""
        return self._file("hypotheses", name, ".txt")

    def references(self, name: str) -> Path:
        """Return the file of the given translations of a test set; of several for a sentence, tab-separated."""
        return self._file("references", name, ".txt")

    def read_translations(self, name: str) -> tuple[list[str], list[list[str]]]:
        """Return the translations of a test set, and all lists of those that it came with.

        Raises:
            UserError: there are none, or not one for each sentence, or they are not those of the scores.
        """
        for path, what in ((self.hypotheses(name), "translations"), (self.references(name), "references")):
            if kind_of(path) is None:
                raise UserError(f"{self.path} has no {what} for {name!r}: evaluate it again to compare it.")
            # Pipes, and files beyond all bounds, are for users to name, not for a run folder that may be untrusted.
            check_size(path, LARGEST_TEXT)
        rows = list(read_columns(self.references(name), as_written=True))
        references = [list(lines) for lines in itertools.zip_longest(*rows, fillvalue="")]
        translations = list(read_lines(self.hypotheses(name), as_written=True))
        if len(translations) != len(rows):
            what = f"{len(translations)} translations of {len(rows)} sentences"
            raise UserError(f"{shown(self.hypotheses(name))} has {what}: evaluate {name!r} again.")
        known = self.read_scores().get(name, {}).get("translations_checksum")
        files = (self.hypotheses(name).read_bytes(), self.references(name).read_bytes())
        if known not in (None, translations_checksum(*files)):
            raise UserError(f"{shown(self.hypotheses(name))} is not what was scored: evaluate {name!r} again.")
        return translations, references

    def has_translations(self, name: str) -> bool:
        """Return whether the translations of a test set are there and, as far as is known, those that were scored."""
        try:
            self.read_translations(name)
        except UserError:
            return False
        return True

    def alignment(self, name: str) -> Path:
        """Return the file of the word alignments of a test set."""
        return self._file("alignments", name, ".align")

    def sentence_sums(self, name: str) -> Path:
        """Return the file of what scores of a test set are ratios of, sentence by sentence."""
        return self._file("sentence_sums", name, ".json")

    def sentence_counts(self, name: str) -> Path:
        """Return the file of what metrics count in the translations of a test set, see `counted`."""
        return self._file("sentence_counts", name, ".npz")

    def has_counts_alone(self, name: str) -> bool:
        """Return whether counts stand in place of the translations of a test set."""
        return kind_of(self.sentence_counts(name)) is not None and kind_of(self.hypotheses(name)) is None

    def picture(self, name: str) -> Path:
        """Return the file of a picture."""
        return self._file("pictures", name, ".png")

    def _file(self, part, name, suffix):
        return self.path / part / f"{check_name(name)}{suffix}"

    def check_free(self, resume: bool = False, beside: Iterable[str] = ()) -> None:
        """Raise if a run cannot start here, before anything is written.

        Args:
            resume: whether to resume the run in this folder.
            beside: names that may be in the folder before the run starts.

        Raises:
            UserError: the folder holds something other than a run, or a run and `resume` is false.
        """
        if self.holds_run:
            if not resume:
                raise UserError(f"{self.path} already holds a run: resume it with --resume, or choose another folder.")
        elif kind_of(self.path) is not None:
            # What a process may have left if it was killed before the run started.
            own = {*beside, ".lock", self.test.name, self.environment.name}
            names = {one.name for one in self.path.iterdir()} - own if self.path.is_dir() else {self.path.name}
            if not all(map(is_partial, names)):
                raise UserError(f"{shown(self.path)} is not empty and is not a run folder: choose another folder.")

    def create(self, system: System, corpus: dict[str, Any], test: Iterable[Sequence[str]] = ()) -> None:
        """Start a run, unless the folder already holds one.

        Args:
            system: the `System` to train.
            corpus: description of the text, plain data.
            test: the sentences of the test text with their references, which are kept in the folder, as
                `ParallelText.rows` returns them.
        """
        if self.holds_run:
            return
        write_text(self.test, "".join("\t".join(row) + "\n" for row in test))
        write_json(self.environment, environment())
        # Last: it makes the folder a run folder.
        write_json(self.config, {"system": system.to_dict(), "corpus": corpus})

    def check_settings(self, system: System, corpus: dict[str, Any], length: bool = True) -> None:
        """Check that the run in the folder has the same settings and text as `create` is given, wherever its files are.

        Args:
            system, corpus: see `create`.
            length: whether the length of the training has to be the same too.

        Raises:
            UserError: the run was started with different settings or text; the message names them.
        """
        if not self.holds_run:
            return
        config = self._read_config()
        config["system"] = {**_LATER_SETTINGS, **config["system"]}
        for part, settings in _LATER_IN_PARTS.items():
            if isinstance(config["system"].get(part), dict):
                config["system"][part] = {**settings, **config["system"][part]}
        if reading := other_reading(config["corpus"], corpus):
            raise UserError(f"{shown(self.path)} was started {reading}, or choose another folder.")
        given = system.to_dict()
        if not length and isinstance(config["system"].get("training"), dict):
            given["training"] |= {name: config["system"]["training"].get(name) for name in LENGTH}
        changed = sorted(_differences(config["system"], given, "system"))
        # Text that is prepared in another way has another fingerprint.
        prepared_alike = not any(one.startswith("system.data.") for one in changed)
        texts = other_text(config["corpus"], corpus) if prepared_alike else []
        if changed or texts:
            others = [f"different settings ({'; '.join(changed)})"] if changed else []
            same = "the same settings and text" if changed and texts else "the same text" if texts else "the same ones"
            raise UserError(
                f"{shown(self.path)} was started with {' and '.join([*others, *texts])}: resume with {same}, or "
                "choose another folder."
            )

    def set_length(self, system: System) -> None:
        """Write the length of a training, which is now another one, into the settings of the run."""
        config = self._read_config()
        config["system"]["training"] |= {name: getattr(system.training, name) for name in LENGTH}
        write_json(self.config, config)

    def restore_best(self) -> None:
        """Restore the best round before the last one, if that ended early: it is trained again."""
        if kind_of(self.earlier_best) is not None:
            with atomic_path(self.best) as aside:
                shutil.copytree(self.earlier_best, aside)
            remove(self.earlier_best)

    def system(self) -> System:
        """Return the `System` of the run; raise if this is not a run folder."""
        value = self._read_config()["system"]
        try:
            return System.from_dict(value)
        except UserError as error:
            raise UserError(f"{shown(self.config)}: {error}") from None
        except (TypeError, ValueError, AttributeError, KeyError):
            raise self._damaged_config() from None

    def corpus(self) -> dict[str, Any]:
        """Return the description of the run's text; raise if this is not a run folder."""
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
        """Return the name of the backend that the run was started under; raise if `environment.json` is damaged."""
        found = read_json(self.environment)
        if not isinstance(found, dict) or not isinstance(found.get("backend"), str):
            raise UserError(f"{shown(self.environment)} is damaged: it names no backend. Restore it.")
        return found["backend"]

    def read_scores(self) -> dict[str, dict[str, Any]]:
        """Return the scores so far, none of a run that has not been scored; raise if the file is damaged."""
        if kind_of(self.scores) is None:
            return {}
        self.check_links()
        scores = read_json(self.scores)
        if not are_scores(scores):
            raise UserError(f"{shown(self.scores)} is damaged: it holds something other than scores. Remove the file.")
        return scores

    def read_timing(self) -> dict[str, Any] | None:
        """Return what a timing pass found, None if there was none; raise if the file is damaged."""
        if kind_of(self.timing) is None:
            return None
        self.check_links()
        timing = read_json(self.timing)
        if not is_timing(timing):
            raise UserError(f"{shown(self.timing)} is damaged: it holds something other than times. Remove the file.")
        return timing

    def add_scores(self, name: str, scores: dict[str, Any]) -> None:
        """Add the scores of a test set, replacing earlier ones of that name, see `check_name`."""
        check_name(name)
        write_json(self.scores, {**self.read_scores(), name: finite(scores)})


# Of scores of the mean of a run's last rounds on the test text.
AVERAGE = "average"
# Of scores with a search over so many source positions, as `attn-zoo evaluate --top-k` names them.
WITH_TOP_K = re.compile(r"(.+)-k(\d+)")


def is_further(name: str) -> bool:
    """Return whether a name of scores is that of a further test text, not one that a run has by itself."""
    return name not in ("test", "valid", "gold", AVERAGE) and not WITH_TOP_K.fullmatch(name)


def translations_checksum(translations: bytes, references: bytes) -> str:
    """Return what tells the files of translations and references of a test set from others."""
    return hashlib.sha256(b"%d\n%b%b" % (len(translations), translations, references)).hexdigest()


def check_name(name: str) -> str:
    """Return the name of a test set; raise if a file of a run folder cannot have that name.

    Raises:
        UserError: it is empty, too long, or would lead out of the folder.

    Example:
        >>> check_name("newstest2014")
        'newstest2014'
    """
    fits = 0 < len(name.encode(errors="replace")) <= _LONGEST_NAME and name.isprintable()
    if not fits or name in (".", "..") or {"/", "\\"} & set(name):
        raise UserError(
            f"{name[:80]!r} cannot be the name of a test set: use at most {_LONGEST_NAME} bytes, without slashes or "
            "control characters."
        )
    return name


def _differences(left, right, path):
    """Yield the names of the entries in which two nested dicts differ, with both values."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in left.keys() | right.keys():
            yield from _differences(left.get(key), right.get(key), f"{path}.{key}")
    elif left != right:
        yield f"{path}: {shown_value(left)}, now {shown_value(right)}"


def backend_here() -> str:
    """Return the backend of this process, as records name it."""
    import keras

    return keras.config.backend()


def environment() -> dict[str, Any]:
    """Return versions, backend and machine, as plain data."""
    versions = {}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "backend": backend_here(),
        "packages": versions,
        "command": sys.argv,
    }

"""The folder that holds everything of one run, and what stands where in it."""

import importlib.metadata
import platform
import sys
from pathlib import Path

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments.settings import System
from keras_attn_zoo.files import read_json, write_json

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

    def __init__(self, path):
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.environment = self.path / "environment.json"
        self.log = self.path / "log.jsonl"
        self.state = self.path / "state.npz"
        self.best = self.path / "best"
        self.scores = self.path / "scores.json"

    @property
    def holds_run(self):
        """Whether a run was begun here: a preset has a `config.json` too, and says so in a file of its own."""
        return self.config.exists() and not (self.path / "metadata.json").exists()

    def hypotheses(self, name):
        """File of the translations of a test set."""
        return self._file("hypotheses", name, ".txt")

    def references(self, name):
        """File of the given translations of a test set."""
        return self._file("references", name, ".txt")

    def alignment(self, name):
        """File of the word alignments of a test set."""
        return self._file("alignments", name, ".align")

    def picture(self, name):
        """File of a picture."""
        return self._file("pictures", name, ".png")

    def _file(self, part, name, suffix):
        return self.path / part / f"{check_name(name)}{suffix}"

    def check_free(self, resume=False, beside=()):
        """Raise where a run cannot begin here, before anything is written.

        Args:
            resume: whether to go on with a run that stands there.
            beside: names in the folder that may stand there before the run begins.

        Raises:
            UserError: a run stands there and is not to be resumed; the folder holds something else.
        """
        if self.holds_run:
            if not resume:
                raise UserError(f"{self.path} holds a run already: resume it with --resume, or take another folder.")
        elif self.path.exists() and (not self.path.is_dir() or {e.name for e in self.path.iterdir()} - set(beside)):
            raise UserError(f"{self.path} is not empty and holds no run: take another folder.")

    def create(self, system, corpus):
        """Begin a run, or check that the one that stands there has the same settings and text.

        Args:
            system: the `System` to train.
            corpus: description of the text, plain data.

        Raises:
            UserError: the run was begun with other settings or other text.
        """
        config = {"system": system.to_dict(), "corpus": corpus}
        if self.holds_run:
            changed = sorted(_differences(self._read_config(), config))
            if changed:
                raise UserError(
                    f"{self.path} was begun with other settings ({', '.join(changed)}): "
                    "resume with the same ones, or take another folder."
                )
            return
        write_json(self.config, config)
        write_json(self.environment, environment())

    def system(self):
        """Return the `System` of the run.

        Raises:
            UserError: this is no run folder.
        """
        return System.from_dict(self._read_config()["system"])

    def corpus(self):
        """Return the description of the text of the run."""
        return self._read_config()["corpus"]

    def _read_config(self):
        if not self.holds_run:
            raise UserError(f"{self.path} is no run folder: it has no config.json of a run. Check the path.")
        config = read_json(self.config)
        if not isinstance(config, dict) or not {"system", "corpus"} <= config.keys():
            raise UserError(f"{self.config} is damaged: it has no settings. Restore or remove it.")
        return config

    def read_scores(self):
        """Return the scores so far; none for a run that was not scored."""
        return read_json(self.scores) if self.scores.exists() else {}

    def add_scores(self, name, scores):
        """Add the scores of a test set, in place of earlier ones of that name.

        Raises:
            UserError: the name cannot be that of a file.
        """
        check_name(name)
        write_json(self.scores, {**self.read_scores(), name: scores})


def check_name(name):
    """Return the name of a test set; raise where no file of a run folder can have it.

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


def environment():
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

"""Callbacks of a training run: its log, its best preset, its state for resuming.

A *round* is what Keras calls an epoch: the stretch of training between two
validations, of which an epoch of the corpus may have several.
"""

import json
import time
import zipfile
from pathlib import Path

import keras
import numpy as np
from keras import ops

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.files import atomic_path
from keras_attn_zoo.training.random_state import get_random_state, set_random_state

# What Keras' own callbacks count from round to round, and forget when training begins again.
_COUNTERS = ("wait", "best", "cooldown_counter", "stopped_epoch")


class RunLog(keras.callbacks.Callback):
    """Write the numbers of every step and every round as lines of JSON.

    Use it to draw curves and to time a run. A resumed run continues the file:
    lines of steps that are taken again are removed first.

    Lines: `{"step": n, "loss": ..., "gradient_norm": ..., "learning_rate": ..., "seconds": ...}` a step, the
    numbers those of its own batch, and `{"round": r, "step": n, "val_loss": ..., ...}` a round.

    Args:
        path: file to write.
        batches: the `TranslationBatches` that are trained on; their shapes tell compilation from running.

    Example:
        >>> model.fit(**fit_arguments(batches), callbacks=[RunLog("log.jsonl", batches)])  # doctest: +SKIP
    """

    def __init__(self, path, batches):
        super().__init__()
        self.path = Path(path)
        self.batches = batches

    def on_train_begin(self, logs=None):
        """Open the file, and cut what will be written again."""
        self.step = self._first = self.batches.round * len(self.batches)
        kept = [line for line in read_log(self.path) if line["step"] <= self.step] if self.path.exists() else []
        with atomic_path(self.path) as aside:
            aside.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        self._file = self.path.open("a", encoding="utf-8")

    def on_train_batch_begin(self, batch, logs=None):
        """Start the clock of a step."""
        self._began = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        """Write a step."""
        numbers = {name: float(value) for name, value in logs.items()}
        seconds = time.perf_counter() - self._began
        # Batches are counted from the round in which `fit` began.
        shape = self.batches.bound(self.step - self._first)
        self.step += 1
        learning_rate = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        self._write({"step": self.step, **numbers, "learning_rate": learning_rate, "seconds": seconds, "shape": shape})

    def on_epoch_end(self, epoch, logs=None):
        """Write a round."""
        self._write({"round": epoch + 1, "step": self.step, **{k: float(v) for k, v in logs.items()}})
        self._file.flush()

    def on_train_end(self, logs=None):
        """Close the file."""
        self._file.close()

    def _write(self, line):
        try:
            self._file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror}. Free some space, then resume.") from None


def read_log(path):
    """Read the lines of a `RunLog`; a last line cut by a kill is left out.

    Raises:
        UserError: there is no such file, or it is no log.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError as error:
        raise UserError(f"cannot read the log {path}: {error.strerror}. Is this a run folder?") from None
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            if number == len(lines) and not line.endswith("\n"):
                break
            raise UserError(f"{path} line {number} is no JSON: the log is damaged.") from None
    return records


class ValidationBLEU(keras.callbacks.Callback):
    """Translate validation sentences after every round; log "val_bleu".

    Put it before the callbacks that watch "val_bleu".

    Args:
        sources: sentences to translate.
        references: their translations.
        batch_size: sentences searched at once.
    """

    def __init__(self, sources, references, batch_size=32):
        super().__init__()
        self.sources, self.references, self.batch_size = sources, references, batch_size

    def on_epoch_end(self, epoch, logs=None):
        """Add the score to the logs, which the callbacks after this one read."""
        from keras_attn_zoo.evaluation.text_scores import score_text

        found = self.model.translate(self.sources, batch_size=self.batch_size)
        scores = score_text([best[0].text for best in found], self.references, metrics=("bleu",))
        logs["val_bleu"] = scores["bleu"].score


class BestPreset(keras.callbacks.Callback):
    """Save the model as a preset whenever a number has improved.

    A preset holds tokenizers and configuration too, so it translates by
    itself, under any backend. It is written aside and then renamed.

    Args:
        folder: where the preset shall stand.
        monitor: "val_loss" or "val_bleu".
    """

    def __init__(self, folder, monitor="val_loss"):
        super().__init__()
        self.folder, self.monitor = Path(folder), monitor
        self.sign = -1.0 if monitor == "val_bleu" else 1.0

    def on_train_begin(self, logs=None):
        """Forget the best, as Keras' own callbacks do."""
        self.best = None

    def on_epoch_end(self, epoch, logs=None):
        """Save, if this round is the best so far."""
        value = float(logs[self.monitor])
        if self.best is None or self.sign * value < self.sign * self.best:
            with atomic_path(self.folder) as aside:
                self.model.save_to_preset(str(aside))
            self.best = value


class ResumableState(keras.callbacks.Callback):
    """Save after every round all that the next one depends on.

    A run killed at any moment resumes at its last complete round, and gives
    the numbers of an uninterrupted run on the same backend and device: weights,
    optimiser, random states and the counters of other callbacks are kept, and the
    order of batches is a function of seed and round. Put it last.

    Keras' `BackupAndRestore` keeps neither random states nor counters.

    Args:
        path: file of the state, `.npz`; replaced as a whole.
        batches: the `TranslationBatches` that are trained on.
        watched: callbacks whose counters are kept, such as `EarlyStopping`.

    Example:
        >>> state = ResumableState("state.npz", batches, watched=[stopper])  # doctest: +SKIP
        >>> state.read()  # doctest: +SKIP
        >>> state.check(model)  # doctest: +SKIP
        >>> model.fit(**fit_arguments(batches), callbacks=[stopper, state])  # doctest: +SKIP
    """

    def __init__(self, path, batches, watched=()):
        super().__init__()
        self.path = Path(path)
        self.batches = batches
        self.watched = list(watched)
        self._values = self._random = self._counters = None

    def read(self):
        """Read the saved state, if there is one, and set the round of the batches.

        Returns:
            whether training had ended early.

        Raises:
            UserError: the state is damaged, or of another backend.
        """
        if not self.path.exists():
            return False
        try:
            with np.load(self.path, allow_pickle=False) as arrays:
                saved = json.loads(str(arrays["settings"]))
                values = {name: arrays[str(i)] for i, name in enumerate(saved["names"])}
                random = {name: arrays[f"random_{name}"] for name in saved["random"]}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            raise UserError(f"{self.path} is damaged: remove it to begin again, or restore a copy.") from None
        if keras.config.backend() != saved["backend"]:
            raise UserError(
                f"this run was begun under {saved['backend']}, not {keras.config.backend()}: resume it there."
            )
        self._values, self._random, self._counters = values, random, saved["counters"]
        self.batches.set_round(saved["round"])
        return saved["ended"]

    def check(self, model, grown=False):
        """See that the state that was read fits a compiled model; `fit` takes it over when it begins.

        Args:
            model: a compiled model.
            grown: whether the model has layers more than the saved one. What they have of their own stays as it is,
                and so do the random states of the model; the counters of other callbacks begin again.

        Raises:
            UserError: it is the state of another model.
        """
        if self._values is None:
            return
        model.optimizer.build(model.trainable_variables)
        if grown:
            self._values = {name: value for name, value in self._values.items() if not name.startswith("other/")}
            self._counters = []
        variables = _state_variables(model)
        fits = self._values.keys() <= variables.keys() if grown else self._values.keys() == variables.keys()
        if not fits or any(value.shape != tuple(variables[name].shape) for name, value in self._values.items()):
            raise UserError(f"{self.path} belongs to another model: take another run folder.")

    def on_train_begin(self, logs=None):
        """Set the model's state, and give the other callbacks their counters back, which they have just reset."""
        # Not before: `fit` may draw from the model's seeds while it builds.
        variables = _state_variables(self.model)
        for name, value in (self._values or {}).items():
            variables[name].assign(value)
        for callback, counters in zip(self.watched, self._counters or [], strict=False):
            for name, value in counters.items():
                setattr(callback, name, value)

    def on_train_batch_begin(self, batch, logs=None):
        """Set the random state before the first step, after all that `fit` draws while it begins."""
        set_random_state(self._random)
        self._random = None

    def on_epoch_end(self, epoch, logs=None):
        """Save the state."""
        counters = [
            {name: _plain(getattr(callback, name)) for name in _COUNTERS if hasattr(callback, name)}
            for callback in self.watched
        ]
        variables = {name: ops.convert_to_numpy(value) for name, value in _state_variables(self.model).items()}
        random = get_random_state()
        settings = {
            "names": list(variables),
            "random": list(random),
            "round": epoch + 1,
            "backend": keras.config.backend(),
            "counters": counters,
            "ended": bool(self.model.stop_training),
        }
        arrays = {str(i): variable for i, variable in enumerate(variables.values())}
        arrays.update({f"random_{name}": state for name, state in random.items()})
        # One file, so that a kill leaves either the last round's or this one's. NumPy would add a suffix to a path.
        with atomic_path(self.path) as aside, aside.open("wb") as file:
            np.savez(file, settings=np.array(json.dumps(settings)), **arrays)


def _state_variables(model):
    """Weights, random states and optimiser variables by name: the same names whenever the model is built."""
    variables = {f"weight/{v.path}": v for v in model.trainable_variables}
    # The paths of these count all layers of the process, and so does the optimiser's own name.
    variables |= {f"other/{i}": v for i, v in enumerate(model.non_trainable_variables)}
    return variables | {"optimizer/" + v.path.split("/", 1)[-1]: v for v in model.optimizer.variables}


def _plain(value):
    return value if value is None else float(value)

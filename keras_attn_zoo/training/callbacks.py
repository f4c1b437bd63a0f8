"""Callbacks of a training run: its log, its best preset, its state for resuming.

A *round* is what Keras calls an epoch: the stretch of training between two
validations, of which an epoch of the corpus may have several.
"""

import io
import json
import math
import time
from pathlib import Path

import keras
import numpy as np
from keras import ops

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.files import atomic_path, check_file, kind_of, open_output, shown
from keras_attn_zoo.training.random_state import get_random_state, set_random_state

# What training cannot go on from where it is NaN or infinite.
_FINITE = ("loss", "gradient_norm", "val_loss")
# What Keras' own callbacks count from round to round, and forget when training begins again.
_COUNTERS = ("wait", "best", "cooldown_counter", "stopped_epoch")


class RunLog(keras.callbacks.Callback):
    """Write the numbers of every step and every round as lines of JSON.

    Use it to draw curves and to time a run. A resumed run continues the file:
    lines of steps that are taken again are removed first. A loss or gradient
    that is not finite stops training before anything is made of it.

    Lines: `{"step": n, "loss": ..., "gradient_norm": ..., "learning_rate": ..., "seconds": ...}` a step, the
    numbers those of its own batch, and `{"round": r, "step": n, "val_loss": ..., ...}` a round.

    Args:
        path: file to write.
        batches: the `TranslationBatches` that are trained on; their shapes tell compilation from running.

    Raises:
        UserError: training has reached NaN or infinity; the file cannot be written.

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
        with open_output(self.path) as file:
            file.write("".join(json.dumps(line) + "\n" for line in kept).encode())
        self._file = self.path.open("a", encoding="utf-8")

    def on_train_batch_begin(self, batch, logs=None):
        """Start the clock of a step."""
        self._began = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        """Write a step."""
        numbers = {name: float(value) for name, value in logs.items()}
        seconds = time.perf_counter() - self._began
        self._check_finite(numbers, self.step + 1)
        # Batches are counted from the round in which `fit` began.
        shape = self.batches.bound(self.step - self._first)
        self.step += 1
        learning_rate = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        self._write({"step": self.step, **numbers, "learning_rate": learning_rate, "seconds": seconds, "shape": shape})

    def on_epoch_end(self, epoch, logs=None):
        """Write a round."""
        numbers = {name: float(value) for name, value in logs.items()}
        self._check_finite(numbers, self.step)
        self._write({"round": epoch + 1, "step": self.step, **numbers})
        self._file.flush()

    def on_train_end(self, logs=None):
        """Close the file."""
        self._file.close()

    def _check_finite(self, numbers, step):
        """Raise where the weights are beyond help; what is on disk is from before."""
        wrong = next((name for name in _FINITE if not math.isfinite(numbers.get(name, 0.0))), None)
        if wrong is None:
            return
        self._file.close()
        rounds = (step - 1) // len(self.batches)
        kept = f"the state after round {rounds} is kept" if rounds else "no round was complete"
        learning_rate = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        raise UserError(
            f"training stopped at step {step}, where {wrong} is {numbers[wrong]}: {kept}. Try a lower learning_rate "
            f"(now {learning_rate:g}), a smaller clip_norm or more warmup_steps, in another run folder."
        )

    def _write(self, line):
        # JSON has no infinity, which a perplexity reaches where its loss is still a number.
        line = {k: v if not isinstance(v, float) or math.isfinite(v) else None for k, v in line.items()}
        try:
            self._file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror}. Free some space, then resume.") from None


def read_log(path):
    """Read the lines of a `RunLog`; a last line cut by a kill is left out, and a number that is not finite is None.

    Raises:
        UserError: there is no such file, or it is no log.
    """
    check_file(path)
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError as error:
        raise UserError(f"cannot read the log {shown(path)}: {error.strerror}. Is this a run folder?") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{shown(path)} is not UTF-8 ({error.reason}): the log is damaged.") from None
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            if number == len(lines) and not line.endswith("\n"):
                break
            raise UserError(f"{shown(path)} line {number} is no JSON: the log is damaged.") from None
        if not _is_record(record):
            raise UserError(f"{shown(path)} line {number} is not the line of a step or a round: the log is damaged.")
        records.append({k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()})
    return records


def _is_record(record):
    """Whether a value has what those who read a log ask of a line."""
    if not isinstance(record, dict) or type(record.get("step")) is not int:
        return False
    numbers = {name: value for name, value in record.items() if name != "shape"}
    if not all(value is None or type(value) in (int, float) for value in numbers.values()):
        return False
    if "round" in record:
        return type(record["round"]) is int
    shape = record.get("shape")
    is_shape = isinstance(shape, list) and all(type(size) is int for size in shape)
    return is_shape and all(
        type(value) in (int, float) and 0 <= value < math.inf for value in map(record.get, ("seconds", "tokens"))
    )


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
        if not math.isfinite(value):
            return
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
        if kind_of(self.path) is None:
            return False
        check_file(self.path)
        try:
            with np.load(self.path, allow_pickle=False) as arrays:
                saved = _checked_settings(json.loads(str(arrays["settings"])))
                values = {name: _numbers(arrays[str(i)]) for i, name in enumerate(saved["names"])}
                random = {name: _numbers(arrays[f"random_{name}"]) for name in saved["random"]}
        except Exception:
            # An archive of other people's making has NumPy, zipfile and json raise all there is.
            raise UserError(f"{shown(self.path)} is damaged: remove it to begin again, or restore a copy.") from None
        if keras.config.backend() != saved["backend"]:
            raise UserError(
                f"this run was begun under {saved['backend']}, not {keras.config.backend()}: resume it there."
            )
        # What was saved before the first round has nothing in it yet.
        self._values = values or None
        self._random, self._counters = random, saved["counters"]
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
        if kind_of(self.path) is None:
            # From now on a run without a state is one that has lost it.
            self._save({}, {}, round=self.batches.round, ended=False, counters=[])
        # Not before: `fit` may draw from the model's seeds while it builds.
        variables = _state_variables(self.model)
        for name, value in (self._values or {}).items():
            variables[name].assign(value)
        for callback, counters in zip(self.watched, self._counters or [], strict=False):
            for name, value in counters.items():
                setattr(callback, name, value)

    def on_train_batch_begin(self, batch, logs=None):
        """Set the random state before the first step, after all that `fit` draws while it begins."""
        try:
            set_random_state(self._random)
        except (RuntimeError, TypeError, ValueError):
            raise UserError(f"{self.path} holds no random state of this backend: it is damaged.") from None
        self._random = None

    def on_epoch_end(self, epoch, logs=None):
        """Save the state."""
        counters = [
            {name: _plain(getattr(callback, name)) for name in _COUNTERS if hasattr(callback, name)}
            for callback in self.watched
        ]
        variables = {name: ops.convert_to_numpy(value) for name, value in _state_variables(self.model).items()}
        ended = bool(self.model.stop_training)
        self._save(variables, get_random_state(), round=epoch + 1, ended=ended, counters=counters)

    def _save(self, variables, random, **settings):
        settings |= {"names": list(variables), "random": list(random), "backend": keras.config.backend()}
        arrays = {str(i): variable for i, variable in enumerate(variables.values())}
        arrays.update({f"random_{name}": state for name, state in random.items()})
        # In memory first: where the disk is full, an archive complains once more when it is thrown away.
        memory = io.BytesIO()
        np.savez(memory, settings=np.array(json.dumps(settings)), **arrays)
        # One file, so that a kill leaves either the last round's or this one's.
        with open_output(self.path) as file:
            file.write(memory.getbuffer())


def _state_variables(model):
    """Weights, random states and optimiser variables by name: the same names whenever the model is built."""
    variables = {f"weight/{v.path}": v for v in model.trainable_variables}
    # The paths of these count all layers of the process, and so does the optimiser's own name.
    variables |= {f"other/{i}": v for i, v in enumerate(model.non_trainable_variables)}
    return variables | {"optimizer/" + v.path.split("/", 1)[-1]: v for v in model.optimizer.variables}


def _plain(value):
    return value if value is None else float(value)


def _numbers(array):
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{array.dtype} is no type of numbers")
    return array


def _checked_settings(settings):
    """Raise where what a state says of itself is not what `_save` writes."""
    lists = {"names": str, "random": str, "counters": dict}
    fits = all(isinstance(one, kind) for name, kind in lists.items() for one in settings[name])
    fits &= len(set(settings["names"])) == len(settings["names"])
    counters = [pair for one in settings["counters"] for pair in one.items()]
    fits &= all(name in _COUNTERS and (x is None or type(x) in (int, float)) for name, x in counters)
    fits &= type(settings["round"]) is int and settings["round"] >= 0 and type(settings["ended"]) is bool
    if not fits or not isinstance(settings["backend"], str):
        raise ValueError("other settings than were written")
    return settings

"""The state of a training run: all it needs to resume with the same results."""

import contextlib
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn_zoo.devices import leads, wait
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.files import PathLike, check_file, kind_of, open_output, shown
from keras_attn_zoo.training.random_state import get_random_state, set_random_state
from keras_attn_zoo.types import Logs

# What Keras' own callbacks count from round to round, and reset when training starts.
_COUNTERS = ("wait", "best", "cooldown_counter", "stopped_epoch")


def check_backend(own: str) -> None:
    """Raise if a run was started under another backend than Keras has.

    Raises:
        UserError: names both.
    """
    if keras.config.backend() != own:
        raise UserError(
            f"this run was started under {own}, not {keras.config.backend()}: resume it with --backend {own}."
        )


def saved_progress(path: PathLike) -> tuple[int, bool]:
    """Return after which round a file's state was saved, and whether training had stopped early; without one, 0 and no.

    Raises:
        UserError: the state is damaged.
    """
    if kind_of(path) is None:
        return 0, False
    with _opened(path) as arrays:
        saved = _saved_settings(arrays)
    return saved["round"], saved["ended"]


class ResumableState(keras.callbacks.Callback):
    """Save after every round everything that the next one depends on.

    A run killed at any moment resumes after its last complete round, with the same
    results as an uninterrupted run on the same backend and device: weights,
    optimiser, random states and the counters of other callbacks are kept, and the
    order of batches is a function of seed and round. Put it last.

    Keras' `BackupAndRestore` keeps neither random states nor counters.

    Args:
        path: file for the state, `.npz`; it is replaced as a whole.
        batches: the `TranslationBatches` that are trained on.
        watched: callbacks whose counters are kept, such as `EarlyStopping`.

    Example:
        >>> state = ResumableState("state.npz", batches, watched=[stopper])  # doctest: +SKIP
        >>> state.read()  # doctest: +SKIP
        >>> state.check(model)  # doctest: +SKIP
        >>> model.fit(**fit_arguments(batches), callbacks=[stopper, state])  # doctest: +SKIP
    """

    def __init__(self, path: PathLike, batches: Any, watched: Iterable[keras.callbacks.Callback] = ()) -> None:
        super().__init__()
        self.path = Path(path)
        self.batches = batches
        self.watched = list(watched)
        self._values: dict[str, np.ndarray] | None = None
        self._random: dict[str, np.ndarray] | None = None
        self._counters: list[dict[str, float | None]] = []

    def read(self) -> bool:
        """Read the saved state, if there is one, and set the round of the batches.

        Returns:
            whether training had stopped early.

        Raises:
            UserError: the state is damaged, or was saved under another backend.
        """
        if kind_of(self.path) is None:
            return False
        with _opened(self.path) as arrays:
            saved = _saved_settings(arrays)
            values = {name: _numbers(arrays[str(i)]) for i, name in enumerate(saved["names"])}
            random = {name: _numbers(arrays[f"random_{name}"]) for name in saved["random"]}
        check_backend(saved["backend"])
        # A state saved before the first round is empty.
        self._values = values or None
        self._random, self._counters = random, saved["counters"]
        self.batches.set_round(saved["round"])
        return saved["ended"]

    def check(self, model: keras.Model, grown: bool = False) -> None:
        """Check that the state that was read fits a compiled model; it is restored when `fit` starts.

        Args:
            model: a compiled model.
            grown: whether the model has more layers than the saved one. Variables of the new layers and the model's
                random states are left as they are; the counters of other callbacks start again.

        Raises:
            UserError: the state belongs to another model.
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
            raise UserError(f"{self.path} belongs to another model: choose another run folder.")

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Restore the model's state, and the counters that the other callbacks have just reset."""
        if kind_of(self.path) is None:
            # From now on, a run without a state has lost it.
            self._save({}, {}, round=self.batches.round, ended=False, counters=[])
        # Not before: `fit` may draw from the model's seeds while it builds.
        variables = _state_variables(self.model)
        for name, value in (self._values or {}).items():
            variables[name].assign(value)
        for callback, counters in zip(self.watched, self._counters, strict=False):
            for counter, count in counters.items():
                setattr(callback, counter, count)

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Restore the random state before the first step, after anything that `fit` draws when it starts."""
        try:
            set_random_state(self._random)
        except (RuntimeError, TypeError, ValueError):
            raise UserError(f"{self.path} has no random state for this backend: it is damaged.") from None
        self._random = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Save the state."""
        counters = [
            {name: _plain(getattr(callback, name)) for name in _COUNTERS if hasattr(callback, name)}
            for callback in self.watched
        ]
        variables = {name: ops.convert_to_numpy(value) for name, value in _state_variables(self.model).items()}
        ended = bool(self.model.stop_training)
        if leads():
            self._save(variables, get_random_state(), round=epoch + 1, ended=ended, counters=counters)
        wait()

    def _save(self, variables, random, **settings):
        settings |= {"names": list(variables), "random": list(random), "backend": keras.config.backend()}
        arrays = {str(i): variable for i, variable in enumerate(variables.values())}
        arrays.update({f"random_{name}": state for name, state in random.items()})
        # In memory first: if the disk is full, an archive raises once more when it is discarded.
        memory = io.BytesIO()
        np.savez(memory, settings=np.array(json.dumps(settings)), **arrays)
        # One file, so that after a kill it is either the last round's or this one's.
        with open_output(self.path) as file:
            file.write(memory.getbuffer())


def _state_variables(model):
    """Weights, random states and optimiser variables by name; the names are the same whenever the model is built."""
    variables = {f"weight/{v.path}": v for v in model.trainable_variables}
    # The paths of these contain a count of all layers in the process, and so does the optimiser's own name.
    variables |= {f"other/{i}": v for i, v in enumerate(model.non_trainable_variables)}
    return variables | {"optimizer/" + v.path.split("/", 1)[-1]: v for v in model.optimizer.variables}


def _plain(value):
    return value if value is None else float(value)


def _numbers(array):
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{array.dtype} is not a numeric dtype")
    return array


@contextlib.contextmanager
def _opened(path):
    """The arrays of a state; whatever they raise is a UserError."""
    check_file(path)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays
    except Exception:
        # With an untrusted archive, NumPy, zipfile and json may raise anything.
        raise UserError(
            f"{shown(path)} is damaged: restore it from a backup, or remove the run folder to start over."
        ) from None


def _saved_settings(arrays):
    """The settings of a state; raise if they are not such as `_save` writes."""
    settings = json.loads(str(arrays["settings"]))
    lists = {"names": str, "random": str, "counters": dict}
    fits = all(isinstance(one, kind) for name, kind in lists.items() for one in settings[name])
    fits &= len(set(settings["names"])) == len(settings["names"])
    counters = [pair for one in settings["counters"] for pair in one.items()]
    fits &= all(name in _COUNTERS and (x is None or type(x) in (int, float)) for name, x in counters)
    fits &= type(settings["round"]) is int and settings["round"] >= 0 and type(settings["ended"]) is bool
    if not fits or not isinstance(settings["backend"], str):
        raise ValueError("unexpected settings")
    return settings

"""The state of a training run: all it needs to resume with the same results."""

import contextlib
import io
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn_zoo.devices import leads, wait
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, check_size, kind_of, open_output, shown, without_twins
from keras_attn_zoo.support.types import Logs
from keras_attn_zoo.training.checkpoints import ends_early
from keras_attn_zoo.training.random_state import get_random_state, set_random_state

# What Keras' own callbacks count from round to round, and reset when training starts.
_COUNTERS = ("wait", "best", "cooldown_counter", "stopped_epoch")
# The optimiser's count of steps; variables that cannot be negative.
_STEPS = "optimizer/iteration"
_NOT_NEGATIVE = (_STEPS, "optimizer/learning_rate", "_velocity")


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

    A run killed at any moment resumes after its last complete round, with the same results as an uninterrupted run on
    the same backend and device: weights, optimiser, random states and the counters of other callbacks are kept, and the
    order of batches is a function of seed and round. Put it last.

    Of a round that ends before its last batch, since a budget is spent, only the end
    is kept: a longer training goes on from the round before.

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
            values = {name: _possible(arrays[str(i)], name) for i, name in enumerate(saved["names"])}
            random = {name: _possible(arrays[f"random_{name}"], f"random_{name}") for name in saved["random"]}
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
            UserError: the state belongs to another model; it has numbers of another type, other counters, or no random
                state for this backend.
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
        # A round may end early, but has no more steps than batches.
        steps, most = self._values[_STEPS].item(), self.batches.round * len(self.batches)
        if steps > most:
            raise _damaged(self.path, f"it says round={self.batches.round}, but {_STEPS} is {steps}, above {most}")
        for name, value in self._values.items():
            wanted = ops.convert_to_numpy(variables[name]).dtype
            if value.dtype != wanted:
                raise _damaged(self.path, f"{name} is of {value.dtype}, not {wanted}")
        counters = [{name for name in _COUNTERS if hasattr(callback, name)} for callback in self.watched]
        if not grown and counters != [one.keys() for one in self._counters]:
            what = f"it says counters={shown(self._counters)}, which are not those of this training"
            raise _damaged(self.path, what)
        self._check_random_state()

    def _check_random_state(self):
        """Raise unless the backend takes the random state, and has one if none was saved."""
        own = get_random_state()
        try:
            fits = bool(own) == bool(self._random)
            set_random_state(self._random)
        except (RuntimeError, TypeError, ValueError, KeyError):
            fits = False
        set_random_state(own)
        if not fits:
            raise _damaged(self.path, "it has no random state for this backend")

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Restore the model's state, and the counters that the other callbacks have just reset."""
        if kind_of(self.path) is None:
            # From now on, a run without a state has lost it.
            self._save({}, {}, round=self.batches.round, ended=False, counters=[])
        # Not before: `fit` may draw from the model's seeds while it builds.
        variables = _state_variables(self.model)
        for name, value in (self._values or {}).items():
            variables[name].assign(value)
        for callback, counters in zip(self.watched if self._counters else (), self._counters, strict=True):
            for counter, count in counters.items():
                setattr(callback, counter, count)

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Restore the random state before the first step, after anything that `fit` draws when it starts."""
        set_random_state(self._random)
        self._random = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Save the state."""
        if ends_early(self.model, self.batches, epoch):
            if leads():
                self._set_ended(True)
            wait()
            return
        counters = [
            {
                name: None if (count := getattr(callback, name)) is None else float(count)
                for name in _COUNTERS
                if hasattr(callback, name)
            }
            for callback in self.watched
        ]
        variables = {name: ops.convert_to_numpy(value) for name, value in _state_variables(self.model).items()}
        ended = bool(self.model.stop_training)
        if leads():
            self._save(variables, get_random_state(), round=epoch + 1, ended=ended, counters=counters)
        wait()

    def reopen(self) -> None:
        """Let a training that a budget has ended go on after its last whole round; call this after `read`.

        Raises:
            UserError: the state was saved by an earlier version within a round.
        """
        if self._values is not None and self._values[_STEPS] < self.batches.round * len(self.batches):
            raise UserError(
                f"{shown(self.path)} was saved within a round, as earlier versions did, so that it cannot be trained "
                "for longer as if from the start: begin again in another folder, or go on from its model."
            )
        self._set_ended(False)

    def _set_ended(self, ended):
        """Write whether training has ended into the saved state, and leave all else as it is."""
        with _opened(self.path) as arrays:
            settings = {**_saved_settings(arrays), "ended": ended}
            self._write({name: arrays[name] for name in arrays.files if name != "settings"}, settings)

    @property
    def stopped_early(self) -> bool:
        """Whether a callback, and not a budget, has ended the training that was read."""
        return any(one.get("stopped_epoch") for one in self._counters)

    def _save(self, variables, random, **settings):
        settings |= {"names": list(variables), "random": list(random), "backend": keras.config.backend()}
        arrays = {str(i): variable for i, variable in enumerate(variables.values())}
        arrays.update({f"random_{name}": state for name, state in random.items()})
        self._write(arrays, settings)

    def _write(self, arrays, settings):
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


class _DamagedError(Exception):
    """What is wrong with a state."""


def _damaged(path, reason):
    return UserError(
        f"{shown(path)} is damaged: {reason}. Restore it from a backup, or remove the run folder to start over."
    )


@contextlib.contextmanager
def _opened(path):
    """The arrays of a state; whatever they raise is a UserError."""
    check_size(path)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays
    except _DamagedError as error:
        raise _damaged(path, error) from None
    except Exception:
        # With an untrusted archive, NumPy, zipfile and json may raise anything.
        raise _damaged(path, "it is not an archive of the arrays that were saved") from None


def _possible(array, name):
    """Return an array; raise if it has no numbers, or such as no training saves."""
    if array.dtype.kind not in "biuf":
        raise _DamagedError(f"{name} is of {array.dtype}, which are no numbers")
    # Training stops before anything is saved that is not finite.
    if not np.isfinite(array).all():
        raise _DamagedError(f"{name} is not finite")
    if name.endswith(_NOT_NEGATIVE) and (array < 0).any():
        raise _DamagedError(f"{name} is negative")
    return array


def _are_names(value):
    return isinstance(value, list) and all(isinstance(one, str) for one in value) and len({*value}) == len(value)


def _are_counters(value):
    if not isinstance(value, list) or not all(isinstance(one, dict) and one.keys() <= {*_COUNTERS} for one in value):
        return False
    return all(_is_counter(name, count) for one in value for name, count in one.items())


def _is_counter(name, value):
    """Whether a counter has a value that it can have: the best figure is None or infinite until there is one."""
    if value is None or type(value) not in (int, float):
        return name == "best" and value is None
    if name == "best":
        return type(value) is float and not math.isnan(value)
    return 0 <= value < 2**53 and value == int(value)


_SETTINGS: dict[str, Callable[[Any], bool]] = {
    "names": _are_names,
    "random": _are_names,
    "counters": _are_counters,
    "round": lambda value: type(value) is int and value >= 0,
    "ended": lambda value: type(value) is bool,
    "backend": lambda value: isinstance(value, str),
}


def _saved_settings(arrays):
    """The settings of a state; raise if they are not such as `_save` writes, or not those of its arrays."""
    try:
        settings = json.loads(str(arrays["settings"]), object_pairs_hook=without_twins)
    except (ValueError, RecursionError) as error:
        raise _DamagedError(f"its settings cannot be read ({error})") from None
    for name, fits in _SETTINGS.items():
        if not fits(settings[name]):
            raise _DamagedError(f"it says {name}={shown(repr(settings[name]))}")
    if not settings["names"]:
        # Saved before the first round.
        late = [name for name in ("round", "counters", "random") if settings[name]]
        if late:
            raise _DamagedError(f"it says {late[0]}={shown(repr(settings[late[0]]))}, but has no weights")
        return settings
    steps = arrays[str(settings["names"].index(_STEPS))].item()
    if settings["round"] > steps:
        raise _DamagedError(f"it says round={shown(settings['round'])}, but {_STEPS} is {steps}")
    return settings

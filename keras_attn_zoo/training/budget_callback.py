"""End training when a budget of steps, tokens or time is spent."""

import keras

from keras_attn_zoo.devices import agreed
from keras_attn_zoo.support.types import Logs
from keras_attn_zoo.training.run_log import RunLog, clock_of, read_steps


class SpentBudget(keras.callbacks.Callback):
    """Stop training at the end of the step that spends a budget.

    The round ends there, with its validation. A resumed run goes on with what its log leaves of the budget. Time is
    that of the steps without compilation; validation does not count either. Put it after the log.

    Args:
        log: the `RunLog` of the run.
        unit: what is counted: "steps", "tokens" or "seconds".
        limit: how many of them there are.

    Example:
        >>> log = RunLog("log.jsonl", batches)  # doctest: +SKIP
        >>> callbacks = [log, SpentBudget(log, "steps", 40_000)]  # doctest: +SKIP
    """

    def __init__(self, log: RunLog, unit: str, limit: float) -> None:
        super().__init__()
        self.log, self.unit, self.limit = log, unit, limit

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Count what has been spent."""
        steps = read_steps(self.log.path)
        self._spent: dict[str, float] = {
            "steps": len(steps),
            "tokens": sum(step["tokens"] for step in steps),
            "seconds": clock_of(steps).steady,
        }
        # Of each shape: the first call, which compiles, and the sum and number of the later ones.
        self._calls: dict[tuple[int, ...], tuple[float, float, int]] = {}

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Count a step."""
        line = self.log.last
        self._spent["steps"] += 1
        self._spent["tokens"] += line["tokens"]
        shape, seconds = tuple(line["shape"]), line["seconds"]
        if shape in self._calls:
            first, later, count = self._calls[shape]
            self._calls[shape] = first, later + seconds, count + 1
        else:
            self._calls[shape] = seconds, 0.0, 0
        # Clocks differ; what is spent of anything else is the same in every process.
        over = self.spent() >= self.limit
        if agreed(over) if self.unit == "seconds" else over:
            self.model.stop_training = True

    def spent(self) -> float:
        """Return how much of the budget has been spent."""
        if self.unit != "seconds":
            return self._spent[self.unit]
        # As `CompilationClock` has it, but with means in place of medians, and without shapes that were called once.
        repeated = [call for call in self._calls.values() if call[2]]
        return self._spent["seconds"] + sum(later + min(first, later / count) for first, later, count in repeated)

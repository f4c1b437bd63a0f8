"""Wall time, with compilation counted separately."""

import statistics
from collections.abc import Hashable

from keras_attn_zoo.errors import UserError


class CompilationClock:
    """Wall time of repeated calls, split into compilation and running.

    A compiled backend compiles on the first call with each input shape. Record
    each call under its shape; the time to compile a shape is then estimated as

        compilation = max(0, first call - median of the later calls)

    A shape that was called only once says nothing about its compilation: all of
    its time counts as running, so `steady` is never underestimated. Such shapes
    are listed in `unresolved`.

    Example:
        >>> clock = CompilationClock()
        >>> for seconds in (5.0, 1.0, 1.0):
        ...     clock.record((32, 16), seconds)
        >>> clock.total, clock.compilation, clock.steady
        (7.0, 4.0, 3.0)
    """

    def __init__(self) -> None:
        self._calls: dict[Hashable, list[float]] = {}

    def record(self, key: Hashable, seconds: float) -> None:
        """Add one call.

        Args:
            key: what the backend compiles for, usually the shape; hashable.
            seconds: wall time of the call, until its results were available.

        Raises:
            UserError: `seconds` is negative or NaN.
        """
        if not seconds >= 0:
            raise UserError(f"a call of {key} took {seconds} seconds: record times of 0 or more.")
        self._calls.setdefault(key, []).append(seconds)

    @property
    def total(self) -> float:
        """Total seconds of all calls."""
        return sum(map(sum, self._calls.values()))

    @property
    def compilation(self) -> float:
        """Estimated seconds spent on compilation, over all shapes."""
        repeated = (calls for calls in self._calls.values() if len(calls) > 1)
        return sum(max(0.0, first - statistics.median(later)) for first, *later in repeated)

    @property
    def steady(self) -> float:
        """Estimated seconds without compilation."""
        return self.total - self.compilation

    @property
    def usual(self) -> float:
        """Seconds without compilation if each call had taken the median time of its shape.

        Unlike `steady`, it hardly changes if the process was paused or the machine was busy for a while.
        """
        return sum(len(calls) * statistics.median(calls[1:] or calls) for calls in self._calls.values())

    @property
    def unresolved(self) -> list[Hashable]:
        """The keys that were recorded only once."""
        return [key for key, calls in self._calls.items() if len(calls) == 1]

"""Wall time, with compilation counted separately."""

import statistics
from collections.abc import Hashable

from keras_attn_zoo.support.errors import UserError


class CompilationClock:
    """Wall time of repeated calls, split into compilation and running.

    A compiled backend compiles on the first call with each input shape, again in every process. Record each call under
    its shape, and say where a process begins; the time to compile a shape in a process is then estimated as

        compilation = max(0, first call - median of the later calls)

    or, if the process called the shape once alone, of those of other processes. A shape that no process called twice
    says nothing about its compilation: all of its time counts as running, so `steady` is never underestimated. Such
    shapes are listed in `unresolved`.

    Example:
        >>> clock = CompilationClock()
        >>> for seconds in (5.0, 1.0, 1.0):
        ...     clock.record((32, 16), seconds)
        >>> clock.total, clock.compilation, clock.steady
        (7.0, 4.0, 3.0)
    """

    def __init__(self) -> None:
        # Of each key, the calls of each process.
        self._calls: dict[Hashable, list[list[float]]] = {}
        self._compiled: set[Hashable] = set()

    def begin_process(self) -> None:
        """Say that another process makes the next calls, which compiles again."""
        self._compiled.clear()

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
        calls = self._calls.setdefault(key, [])
        if key not in self._compiled:
            self._compiled.add(key)
            calls.append([])
        calls[-1].append(seconds)

    @property
    def total(self) -> float:
        """Total seconds of all calls."""
        return sum(sum(calls) for processes in self._calls.values() for calls in processes)

    @property
    def compilation(self) -> float:
        """Estimated seconds spent on compilation, over all shapes and processes."""
        return sum(map(sum, self._compilations()))

    @property
    def compilation_of_one(self) -> float:
        """Estimated seconds that a process spends on compilation if it calls all shapes."""
        return sum(map(statistics.mean, self._compilations()))

    def _compilations(self):
        """For each shape that was called again, the seconds of each compilation."""
        for processes in self._calls.values():
            if every := _later(processes):
                yield [max(0.0, first - statistics.median(later or every)) for first, *later in processes]

    @property
    def steady(self) -> float:
        """Estimated seconds without compilation."""
        return self.total - self.compilation

    @property
    def usual(self) -> float:
        """Seconds without compilation if each call had taken the median time of its shape.

        Unlike `steady`, it hardly changes if the process was paused or the machine was busy for a while.
        """
        return sum(
            sum(map(len, processes)) * statistics.median(_later(processes) or [first for (first,) in processes])
            for processes in self._calls.values()
        )

    @property
    def unresolved(self) -> list[Hashable]:
        """The keys that no process recorded twice."""
        return [key for key, processes in self._calls.items() if not _later(processes)]


def _later(processes):
    """The calls of a shape that compiled nothing."""
    return [seconds for _, *later in processes for seconds in later]

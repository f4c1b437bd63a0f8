"""A function of many items, several of which are computed at once; how many cores there are for it."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def cores() -> int:
    """Return how many cores this process may use.

    Example:
        >>> cores() >= 1
        True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    count: int,
    initialize: Callable[[], object] | None = None,
    stop: Callable[[], object] | None = None,
) -> Iterator[_Result]:
    """Yield the results of a function for all items, in their order, computing up to `count` of them at once.

    The first error ends it, an interrupt too; what has not begun by then is not run.

    Args:
        function: function of an item.
        items: what it is called with.
        count: how many threads there are; one is the caller's own.
        initialize: function that each new thread begins with.
        stop: function that ends what has begun, which is waited for; called at the end in any case.

    Example:
        >>> list(in_order(len, ["a", "bb"], 2))
        [1, 2]
    """
    if count == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(count, initializer=initialize) as threads:
        try:
            for item in items:
                # Some wait, so that no thread does while the caller uses a result, or the first takes longer.
                if len(waiting) == 2 * count:
                    yield waiting.popleft().result()
                waiting.append(threads.submit(function, item))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()
            if stop is not None:
                stop()
